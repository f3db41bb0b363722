"""Reading ahead of what is summarised: what the kernel is told of, and when; a plain read beside it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import file_specification, values_of
from test_collections import memory_root, study  # noqa: F401
from test_summaries import SUMMARIES, cell
from test_workers import wait_until

from hyperslab import cases
from hyperslab.cases.reduce import moments, plain
from hyperslab.cases.reduce.moments import Moments
from hyperslab.data.selections import Box
from hyperslab.formats.collection import OpenCollection
from hyperslab.formats.hdf5 import ahead
from hyperslab.formats.hdf5.array import FORMAT
from hyperslab.measuring import pagecache
from hyperslab.measuring.artifact import Artifact
from hyperslab.planning.planned_study import PlannedStudy

pytestmark = pytest.mark.usefixtures("own_locks")
AHEAD = {**SUMMARIES, "ahead": True}


@st.composite
def boxes(draw: st.DrawFn) -> tuple[tuple[int, ...], Box]:
    """The extents of an array, and a box in it."""
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    origin = tuple(draw(st.integers(0, size - 1)) for size in shape)
    extent = tuple(draw(st.integers(1, size - first)) for size, first in zip(shape, origin, strict=True))
    return shape, Box(origin, extent)


@given(boxes())
def test_runs_are_the_bytes_of_a_box_and_no_others(drawn: tuple[tuple[int, ...], Box]) -> None:
    shape, box = drawn
    size, offsets = ahead.runs(shape, box, 4)
    found = [byte for offset in offsets for byte in range(offset, offset + size)]
    elements = np.arange(np.prod(shape)).reshape(shape)[box.slices()].reshape(-1)
    assert sorted(found) == [4 * element + byte for element in elements.tolist() for byte in range(4)]


SHAPE = (8, 512, 1024)


def written(directory: Path, **layout: Any) -> Path:
    """A file of 16 MiB, which is evicted."""
    spec = file_specification(SHAPE, dtype="float32", **layout)
    path = directory / "a.h5"
    FORMAT.generate(str(path), spec, values_of(spec))
    descriptor = os.open(path, os.O_RDONLY)
    try:
        assert pagecache.evict_file(descriptor, 0.01) <= 0.01
    finally:
        os.close(descriptor)
    return path


def resident(path: Path) -> float:
    """The share of a file that the page cache holds."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return pagecache.resident_share([descriptor])
    finally:
        os.close(descriptor)


def test_the_kernel_reads_what_it_is_told_of_and_not_the_rest(disk: Path) -> None:
    path = written(disk)
    try:
        spec = file_specification(SHAPE, dtype="float32")
        opened: Any = FORMAT.open(str(path), spec)
        assert callable(opened.ahead)
        before = resident(path)
        # Six of eight planes; nobody reads them.
        opened.ahead(Box((1, 0, 0), (6, *SHAPE[1:])))
        assert wait_until(lambda: resident(path) >= 0.74)
        assert before <= 0.05 and resident(path) <= 0.8
        opened.close()
    finally:
        path.unlink()


def test_of_what_does_not_lie_in_one_piece_nothing_is_told(disk: Path) -> None:
    path = written(disk, chunks=(1, 512, 1024))
    try:
        with h5py.File(path) as file:
            assert ahead.place_of(file, file["data"]) is None
        opened: Any = FORMAT.open(str(path), file_specification(SHAPE, (1, 512, 1024), dtype="float32"))
        opened.ahead(Box((0, 0, 0), SHAPE))
        assert resident(path) <= 0.05
        opened.close()
    finally:
        path.unlink()


class Told:
    """An open array that keeps what it is told and asked, in order."""

    def __init__(self) -> None:
        self.said: list[tuple[str, int]] = []

    def ahead(self, box: Box) -> None:
        self.said.append(("ahead", box.origin[0]))

    def read(self, box: Box) -> Any:
        self.said.append(("read", box.origin[0]))
        return np.zeros(box.extent, np.float32)


def test_each_piece_is_told_of_once_before_it_is_read() -> None:
    pieces = [Box((number, 0), (1, 4)) for number in range(6)]
    opened = Told()
    moments.reduce_pieces(opened, pieces, 0, 0, Moments.zeros(6), ahead=True)
    told = [number for what, number in opened.said if what == "ahead"]
    read = [number for what, number in opened.said if what == "read"]
    assert told == read == list(range(6))
    # Two pieces beyond the one that is read, and no more.
    for number in range(6):
        before = opened.said[: opened.said.index(("read", number))]
        assert max(found for what, found in before if what == "ahead") == min(number + 2, 5)
    opened.said.clear()
    moments.reduce_pieces(opened, pieces, 0, 0, Moments.zeros(6))
    assert [what for what, _ in opened.said] == ["read"] * 6


def test_a_collection_tells_its_files(memory_root: Path) -> None:  # noqa: F811
    context = cell(memory_root, "month", "days-1p")
    opened: Any = context.format.open(context.path, context.specification)
    assert isinstance(opened, OpenCollection)
    told: list[tuple[int, ...]] = []
    for number, part in enumerate(opened._files.parts):
        file: Any = opened._file(number)
        file.ahead = lambda box, part=part: told.append((part.first, *box.origin, *box.extent))
    first, second = opened._files.parts[:2]
    box = Box((first.count - 2, 0, 0), (5, *context.values.shape[1:]))
    opened.ahead(box)
    grid = context.values.shape[1:]
    assert told == [(0, first.count - 2, 0, 0, 2, *grid), (second.first, 0, 0, 0, 3, *grid)]
    opened.close()


def test_a_plain_read_takes_all_bytes_of_all_files(memory_root: Path) -> None:  # noqa: F811
    context = cell(memory_root, "month", "days-1p")
    before = int(Path("/proc/self/io").read_text().split()[1])
    assert plain.read(Artifact(context.path)) > 0
    read = int(Path("/proc/self/io").read_text().split()[1]) - before
    size = context.artifact.bytes()
    assert size <= read <= size + 4096


def test_a_plain_read_stands_beside_cold_summaries_of_everything(memory_root: Path) -> None:  # noqa: F811
    rows = cases.load("summaries")(cell(memory_root, "month", "days-2p", ahead=True)).repeats
    assert {row["state"] for row in rows if row.get("plain_read_s", 0) > 0} == {"library-cold"}
    (memory_root / "some").mkdir()
    some = cell(memory_root / "some", "all", "days-1p", summaries={"day": 25}, states=["cold"], ahead=True)
    assert all("plain_read_s" not in row for row in cases.load("summaries")(some).repeats)


def test_who_comes_first_changes_with_repeat_and_round(
    memory_root: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    context = cell(memory_root, "all", "days-1p", states=["cold"], repeats={"cold": 2}, ahead=True)
    merged = moments.merged

    def read(_: Artifact) -> float:
        said.append("plain")
        return 1.0

    def reduced(*given: Any) -> Any:
        said.append("reduced")
        return merged(*given)

    monkeypatch.setattr(plain, "read", read)
    monkeypatch.setattr(moments, "merged", reduced)
    for round_ in ("r0", "r1"):
        said.clear()
        again = type(context)(
            {**context.specification, "round": round_}, context.format, context.path, context.values, True
        )
        cases.load("summaries")(again)
        first = ["plain", "reduced", "reduced", "plain"]
        assert said == (first if round_ == "r0" else [first[1], first[0], first[3], first[2]])


def test_summaries_say_in_their_specification_how_they_read(tmp_path: Path) -> None:
    content = study(
        cases={"days": AHEAD, "fetched": {**AHEAD, "states": ["cold"], "fetch": True}, "plain": SUMMARIES}
    )
    file = tmp_path / "mine.yaml"
    file.write_text(json.dumps(content, default=str), encoding="utf-8")
    planned = PlannedStudy(file)
    assert '"ahead":true' in planned.cell_text("all", "days-1p", "r0")
    assert '"beside":"plain read"' in planned.cell_text("all", "days-1p", "r0")
    assert "beside" not in planned.cell_text("all", "fetched-1p", "r0")
    assert "ahead" not in planned.cell_text("all", "plain-1p", "r0")
