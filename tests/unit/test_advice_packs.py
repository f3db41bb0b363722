"""What the prediction counts, held against what was counted when the packs were measured."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hyperslab.advising import model
from hyperslab.advising.candidates import Candidate
from hyperslab.advising.model import Array
from hyperslab.advising.prices import Coded, Counts, Storage
from hyperslab.advising.requests import Selection, selection
from hyperslab.data.selections import Box
from hyperslab.results.archive import members
from hyperslab.results.packs import SUFFIX
from replayed_packs import asked_cold, candidate_of, known_boxes

PACKS = Path(__file__).parents[2] / "packs"
# Selections of each layout and case that are looked at.
SELECTIONS = 2
# Packs of dense arrays in HDF5: chunks of all sizes, also larger than the chunk cache, contiguous ones, other
# orders of the axes, and filters.
CHOSEN = ("openmsi-chunking", "openmsi-image-aligned", "openmsi-compression-counts", "spectrum-image-tall")
NOTHING = Storage(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0)


@dataclass(frozen=True)
class Counted:
    """One cold selection of a pack, with what the kernel counted."""

    name: str
    candidate: Candidate
    array: Array
    box: Box
    stored_bytes: float
    cache_bytes: int
    read_ahead_bytes: int
    row: dict[str, Any]

    @cached_property
    def selection(self) -> Selection:
        """What is predicted to be asked for."""
        one, array, box = self.candidate, self.array, self.box
        return selection(
            one, array.shape, array.itemsize, self.stored_bytes, box.origin, box.extent, self.cache_bytes
        )

    @property
    def counts(self) -> Counts:
        """What is predicted, the device's bytes included."""
        raw = float(np.prod(self.candidate.chunks)) * self.array.itemsize if self.candidate.chunks else 1.0
        storage = replace(NOTHING, read_ahead_bytes=self.read_ahead_bytes, chunk_cache_bytes=self.cache_bytes)
        code = Coded(self.stored_bytes / raw, 0.0) if self.candidate.filters else Coded(1.0, 0.0)
        return model.of_box(self.candidate, self.array, self.box, storage, code)


@cache
def counted(pack: str) -> list[Counted]:
    """Return some cold selections of every layout and case of a pack, those of its first round."""
    found = []
    # Whether a pack is whole others look at: that takes most of the time.
    for path, content in members(PACKS / f"{pack}{SUFFIX}"):
        if not path.endswith(".r0.json"):
            continue
        record, layout = json.loads(content), path.split("/")[4]
        spec = record["specification"]
        candidate = candidate_of(spec["layout"], spec["dataset"]["axes"])
        if not asked_cold(record) or candidate is None:
            continue
        pairs = known_boxes(record, candidate)
        # Whatever protocol placed them: these are the boxes that were read.
        assert len(pairs) == sum(row["state"] == "cold" for row in record["repeats"])
        for box, row in pairs[:: max(1, len(pairs) // SELECTIONS)][:SELECTIONS]:
            found.append(_of(layout, candidate, record, box, row))
    return found


def _of(name: str, candidate: Candidate, record: Any, box: Box, row: Any) -> Counted:
    spec, file = record["specification"], record["file"]
    itemsize = np.dtype(spec["dataset"]["dtype"]).itemsize
    stored = float(np.prod(candidate.chunks)) * itemsize if candidate.chunks else 0.0
    return Counted(
        f"{name} {spec['case']['name']} {row['repeat']}",
        candidate,
        Array(tuple(spec["dataset"]["shape"]), itemsize),
        box,
        file["stored_bytes"] / file["chunks"] if candidate.filters else stored,
        file["settings"]["chunk_cache_bytes"],
        record["file_system"]["read_ahead_bytes"],
        row,
    )


def everything() -> Iterator[Counted]:
    return itertools.chain.from_iterable(map(counted, CHOSEN))


@pytest.mark.parametrize("pack", CHOSEN)
def test_as_many_requests_are_predicted_as_were_counted(pack: str) -> None:
    found = {one.name: (len(one.selection.requests), one.row["requested_reads"]) for one in counted(pack)}
    assert len(found) >= 20
    assert {name: pair for name, pair in found.items() if pair[0] != pair[1]} == {}


def test_chunks_that_pass_the_cache_and_contiguous_arrays_are_among_them() -> None:
    looked = list(everything())
    assert any(one.selection.chunks and one.selection.reads for one in looked)
    assert any(one.candidate.chunks is None and one.selection.runs for one in looked)
    assert any(one.candidate.order for one in looked) and any(one.candidate.filters for one in looked)


@pytest.mark.parametrize("pack", CHOSEN)
def test_as_many_bytes_are_predicted_as_were_asked_for_where_nothing_is_filtered(pack: str) -> None:
    found = {
        one.name: (sum(length for _, length in one.selection.requests), one.row["requested_bytes"])
        for one in counted(pack)
        if not one.candidate.filters
    }
    assert {name: pair for name, pair in found.items() if pair[0] != pair[1]} == {}


def test_the_devices_bytes_are_those_of_the_kernels_readahead() -> None:
    ratios = []
    for one in everything():
        if not one.candidate.filters and one.row["device_bytes"]:
            counts = one.counts
            ratios.append((counts.waited_bytes + counts.ahead_bytes) / one.row["device_bytes"])
    assert len(ratios) >= 100
    near = np.mean(np.abs(np.array(ratios) - 1) <= 0.10)
    assert near >= 0.75, f"{near:.0%} within a tenth; median {np.median(ratios):.3f}"
