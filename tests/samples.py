"""Small specifications, and roots for test files, that several tests share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hyperslab.data.values import MixedIndices
from hyperslab.measuring.probes import PROBE_BYTES, PROBE_FILE
from hyperslab.sites.roots import MARKER
from hyperslab.specifications import CaseSpecification, LayoutSpecification, Specification

AXES = "vwxyz"
SETTINGS = {
    "chunk_cache_bytes": 2**20,
    "chunk_cache_slots": 521,
    "chunk_cache_w0": 0.75,
    "sieve_bytes": 65536,
    "libver": "earliest",
}


def file_specification(
    shape: Sequence[int],
    chunks: Sequence[int] | None = None,
    order: str | None = None,
    filters: Sequence[dict[str, Any]] = (),
    dtype: str = "uint16",
    **settings: Any,
) -> Specification:
    """What generate is told; the axes are the last letters of "vwxyz", `order` has them as on disk."""
    axes = list(AXES[-len(shape) :])
    layout: LayoutSpecification = {
        "format": "hdf5",
        "chunks": list(chunks) if chunks else None,
        "order": list(order) if order else axes,
        "filters": list(filters),
        "settings": {**SETTINGS, **settings},
    }
    return {
        "dataset": {"axes": axes, "shape": list(shape), "dtype": dtype, "fill": "mixed"},
        "layout": layout,
    }


def values_of(spec: Specification) -> MixedIndices:
    """The values with which the file of a specification is filled."""
    return MixedIndices(spec["dataset"]["shape"], spec["dataset"]["dtype"])


def read_cell(
    spec: Specification, extent: Sequence[int], repeats: dict[str, int], seed: int = 1
) -> Specification:
    """What measure is told of a read case: a box of `extent`, so many repeats of each state."""
    case: CaseSpecification = {"name": "box", "kind": "read", "extent": list(extent), "states": list(repeats)}
    return {
        **spec, "case": case, "repeats": repeats, "study": "mine", "seed": seed, "round": "r0", "protocol": 1,
    }  # fmt: skip


def summed(spec: Specification, by: str = "processes", **case: Any) -> Specification:
    """The cell with summaries of all planes along the first axis, by two workers, as its case."""
    axis = spec["dataset"]["axes"][0]
    asked: Any = {
        "name": "days", "kind": "summaries", "statistics": "summaries", "planes": axis, "split": axis,
        "by": by, "workers": 2, "extent": spec["dataset"]["shape"], "states": ["cold"], **case,
    }  # fmt: skip
    return {**spec, "case": asked}


def write_cell(spec: Specification, strategy: str, repeats: int, block: Any = None) -> Specification:
    """What measure is told of a write case."""
    case: CaseSpecification = {
        "name": "all",
        "kind": "write",
        "strategy": strategy,
        "block": block,
        "states": ["write"],
    }
    return {**spec, "case": case, "repeats": {"write": repeats}, "seed": 1, "round": "r0", "protocol": 1}


# One read case in all its states; the array has edge chunks along no axis but the last.
SHAPE = (20, 24, 800)
STATES = {"cold": 4, "warm": 5, "session": 6}
CELL = read_cell(file_specification(SHAPE, (4, 4, 128)), (5, 5, 100), STATES)


@contextmanager
def prepared(where: Path) -> Iterator[Path]:
    """A new root below `where` with a probe file, whose blocks need not be there."""
    with tempfile.TemporaryDirectory(prefix="root-", dir=where) as name:
        root = Path(name)
        (root / MARKER).touch()
        with (root / PROBE_FILE).open("wb") as file:
            file.truncate(PROBE_BYTES)
        yield root
