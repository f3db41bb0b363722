"""Many small datasets: every one is verified, and compact storage does what it promises."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import pytest
from samples import file_specification, values_of
from studies import changed, load, mistake

from hyperslab import cases
from hyperslab.cases.context import Context, Outcome, VerificationError
from hyperslab.formats.hdf5 import objects
from hyperslab.formats.hdf5.array import FORMAT
from hyperslab.formats.hdf5.objects import ManyArrays
from hyperslab.layouts import layout_of
from hyperslab.layouts.hdf5 import COMPACT_BYTES
from hyperslab.layouts.pyramids import array_of
from hyperslab.measuring import other_file_systems, pagecache
from hyperslab.measuring.throttling import Limiter
from hyperslab.specifications import CaseSpecification, Specification

Spec = Specification
COUNT, VALUES = 200, 1024


def objects_cell(
    shape: tuple[int, ...] = (COUNT, VALUES),
    chunks: tuple[int, ...] | None = None,
    order: str | None = None,
    compact: bool = False,
    **chosen: Any,
) -> Spec:
    """What measure is told of a case of many objects."""
    spec = file_specification(shape, chunks, order, dtype="int32", **chosen)
    if compact:
        spec["layout"]["storage"] = "compact"
    case: CaseSpecification = {
        "name": "many",
        "kind": "objects",
        "states": ["write", "cold", "warm", "session"],
    }
    repeats = {"write": 2, "cold": 3, "warm": 2, "session": 50}
    return {**spec, "case": case, "repeats": repeats, "seed": 1, "round": "r0", "protocol": 1}


def run(spec: Spec, path: Path, memory_resident: bool = True) -> Outcome:
    """The outcome of a case in this process."""
    return cases.load("objects")(Context(spec, FORMAT, str(path), values_of(spec), memory_resident))


def of_state(outcome: Outcome, state: str) -> list[dict[str, Any]]:
    """The rows of one state."""
    return [row for row in outcome.repeats if row["state"] == state]


@pytest.fixture(scope="module")
def stored(disk: Path) -> dict[str, Outcome]:
    """The same objects in the three storages, on a disk."""
    cells = {
        "compact": objects_cell(compact=True),
        "contiguous": objects_cell(),
        "chunked": objects_cell(chunks=(1, VALUES)),
    }
    return {name: run(spec, disk / "many.h5", memory_resident=False) for name, spec in cells.items()}


@pytest.mark.parametrize("storage", ["compact", "contiguous", "chunked"])
def test_writes_and_reads_in_every_state(stored: dict[str, Outcome], storage: str, disk: Path) -> None:
    outcome = stored[storage]
    assert outcome.skipped == {}
    assert {s: len(of_state(outcome, s)) for s in ("write", "session", "warm", "cold")} == {
        "write": 2, "session": 2, "warm": 2, "cold": 3,
    }  # fmt: skip
    for row in of_state(outcome, "write"):
        parts = [row[f"{part}_s"] for part in ("create", "write", "flush", "close", "fsync")]
        assert row["time_s"] == pytest.approx(sum(parts))
        assert row["calls"] == COUNT
        assert len(row["each_call_s"]) == COUNT
        assert row["write_s"] == pytest.approx(sum(row["each_call_s"]))
        # The mean is told in whole nanoseconds.
        assert row["write_s"] == pytest.approx(COUNT * row["call_mean_s"], abs=COUNT * 0.5e-9 + 1e-12)
        assert row["call_median_s"] <= row["call_max_s"]
        assert row["asked_bytes"] == COUNT * VALUES * 4 < row["written_bytes"]
        assert row["reference_s"] > 0
    for state in ("session", "warm", "cold"):
        assert {row["asked_bytes"] for row in of_state(outcome, state)} == {VALUES * 4}
    assert all(row["resident_before"] <= 0.01 for row in of_state(outcome, "cold"))
    assert all(row["resident_before"] >= 0.99 for row in of_state(outcome, "warm"))
    assert outcome.report["settings"]["dataset_layout"] == storage
    assert outcome.report["data_bytes"] == COUNT * VALUES * 4
    assert outcome.report["chunks"] == (COUNT if storage == "chunked" else 0)
    assert not (disk / "many.h5").exists()


def test_more_files_are_written_where_a_limit_asks_for_them(tmp_path: Path) -> None:
    class Until(Limiter):
        def enough(self, direction: str, moved: int, repeats: int) -> bool:
            return direction == "write" and repeats >= 6

    spec = objects_cell()
    path = str(tmp_path / "many.h5")
    outcome = cases.load("objects")(Context(spec, FORMAT, path, values_of(spec), True, limiter=Until()))
    assert [row["repeat"] for row in of_state(outcome, "write")] == list(range(6))
    assert [row["repeat"] for row in of_state(outcome, "session")] == list(range(6))


def test_compact_data_reach_the_file_with_their_metadata(stored: dict[str, Outcome]) -> None:
    writes = {name: of_state(found, "write")[-1]["requested_writes"] for name, found in stored.items()}
    assert writes["compact"] < COUNT < writes["contiguous"] < writes["chunked"]
    reads = {name: of_state(found, "cold")[-1]["requested_reads"] for name, found in stored.items()}
    assert reads["compact"] <= reads["contiguous"] < reads["chunked"]
    # On the file still open, the header is in the metadata cache, and with it all of a compact dataset.
    asked = {name: of_state(found, "session")[-1]["requested_bytes"] for name, found in stored.items()}
    assert asked == {"compact": 0, "contiguous": VALUES * 4, "chunked": VALUES * 4}


def test_a_larger_metadata_block_takes_fewer_writes(tmp_path: Path) -> None:
    found = [
        of_state(run(objects_cell(meta_block_bytes=size), tmp_path / "many.h5"), "write")[-1]
        for size in (2048, 2**20)
    ]
    assert found[0]["requested_writes"] > found[1]["requested_writes"]


@pytest.mark.parametrize("order", ["xyz", "xzy", "zyx"])
@pytest.mark.parametrize("chunks", [None, (1, 2, 3)])
def test_objects_hold_what_the_array_says_whatever_the_order(
    tmp_path: Path, order: str, chunks: tuple[int, ...] | None
) -> None:
    spec = objects_cell((7, 4, 5), chunks, order)
    opened = ManyArrays().create(str(tmp_path / "many.h5"), spec)
    truth = values_of(spec).block((0, 0, 0), (7, 4, 5))
    for number in range(7):
        opened.add(number, truth[number])
    assert np.array_equal(opened.read(6), truth[6])
    opened.close()
    turned = order.replace("x", "") == "zy"
    with h5py.File(tmp_path / "many.h5") as file:
        assert len(file) == 7 + 1
        for number in range(7):
            on_disk = file[f"{number:06d}"][()]
            assert np.array_equal(on_disk.T if turned else on_disk, truth[number])
    # All of it through the case, which reads each of them back.
    assert len(run(spec, tmp_path / "many.h5").repeats) == 9


@pytest.mark.parametrize(("bad", "words"), [(3, "3 cannot be read back"), (19, "19 differs")])
def test_a_wrong_object_fails_the_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: int, words: str
) -> None:
    add = objects.ManyDatasets.add

    def wrong(self: objects.ManyDatasets, number: int, block: npt.NDArray[Any]) -> None:
        add(self, number, block + (number == bad))

    monkeypatch.setattr(objects.ManyDatasets, "add", wrong)
    with pytest.raises(VerificationError, match=f"object {words}"):
        run(objects_cell((20, 8)), tmp_path / "many.h5")
    assert not (tmp_path / "many.h5").exists()


def test_a_wrong_object_is_said_where_the_file_cannot_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    differed: list[bool] = []
    sync = pagecache.sync_file_system

    def differing(*_: Any) -> bool:
        differed.append(True)
        return False

    def failing(place: Path) -> None:
        if differed:
            raise OSError(errno.EIO, "Input/output error")
        sync(place)

    monkeypatch.setattr("hyperslab.cases.objects.same", differing)
    monkeypatch.setattr(pagecache, "sync_file_system", failing)
    with pytest.raises(VerificationError, match="object 19 differs from what was written"):
        run(objects_cell((20, 8)), tmp_path / "many.h5")


def test_no_write_leaves_a_file_open(tmp_path: Path) -> None:
    def grown(writes: int) -> int:
        spec, before = objects_cell((20, 8)), len(os.listdir("/proc/self/fd"))
        spec["repeats"]["write"] = writes
        run(spec, tmp_path / "many.h5")
        return len(os.listdir("/proc/self/fd")) - before

    # What is opened once in a process belongs to none of them.
    grown(1)
    assert grown(2) == grown(12)


def test_garbage_is_collected_as_often_as_asked_and_counted(tmp_path: Path) -> None:
    outcome = run(objects_cell((50, 8), garbage_collect_every=7), tmp_path / "many.h5")
    assert [row["garbage_collections"] for row in of_state(outcome, "write")] == [7, 7]
    assert all(row["free_list_bytes"] > 0 for row in of_state(outcome, "write"))
    outcome = run(objects_cell((50, 8)), tmp_path / "many.h5")
    assert [row["garbage_collections"] for row in of_state(outcome, "write")] == [0, 0]


def test_split_metadata_are_written_elsewhere_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "other"
    root.mkdir()
    monkeypatch.setenv(other_file_systems.VARIABLE, json.dumps({"other": str(root)}))
    spec = objects_cell(driver={"name": "split", "metadata_on": "other"})
    outcome = run(spec, tmp_path / "many.h5")
    assert outcome.report["settings"]["driver"] == "split"
    assert outcome.report["file_bytes"] > COUNT * VALUES * 4
    assert list(root.iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


# ---- in a study


def test_a_case_of_objects_is_always_written(tmp_path: Path) -> None:
    content = changed("cases.many", {"objects": "x", "shape": {"x": 5}, "states": ["cold"]})
    case = load(tmp_path, content).cases["many"]
    assert (case["kind"], case["states"], case["shape"]) == ("objects", ["write", "cold"], [5, 30, 400])
    assert case["repeats"] == {"write": 10, "cold": 7}


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        ("w", "no such axis; the dataset has x, y, z"),
        ("y", "needs the first of several axes; the others are what an object holds"),
    ],
)
def test_what_are_no_objects_is_one_line(tmp_path: Path, axis: str, message: str) -> None:
    assert mistake(tmp_path, changed("cases.many", {"objects": axis})) == f"cases.many.objects: {message}"


def test_objects_that_share_no_page_are_foreseen(tmp_path: Path) -> None:
    spec = objects_cell((30, 10000), paging={"page_bytes": 65536})
    bound = layout_of(spec["layout"]).largest_bytes(array_of(spec), 30)
    size = run(spec, tmp_path / "many.h5").report["file_bytes"]
    assert size <= bound


def test_objects_of_one_chunk_are_not_lost(tmp_path: Path) -> None:
    content = changed("cases", {"many": {"objects": "x", "layouts": ["mine"]}})
    content["layouts"]["mine"] = {"chunks": [1, 30, 400], "settings": {"libver": "v110"}}
    content |= {"score": None, "recommendation": {}}
    assert "many" in load(tmp_path, content).cases
    content["layouts"]["mine"]["settings"]["fill_time"] = "never"
    assert mistake(tmp_path, content).startswith("cases.many.layouts: fill_time: never loses the values")


def test_compact_storage_has_a_bound(tmp_path: Path) -> None:
    content = changed("layouts.small", {"storage": "compact"})
    message = "compact storage holds at most 65,531 bytes, and a dataset would have 480,000 (layout small)"
    assert mistake(tmp_path, content) == f"cases.slices.layouts: {message}"
    content["dataset"]["shape"] = [20, 30, 40]
    content["grids"] = []
    content["layouts"] = {"small": {"storage": "compact"}}
    assert load(tmp_path, content).layouts["small"]["storage"] == "compact"


def test_the_bound_of_compact_storage_is_the_librarys(tmp_path: Path) -> None:
    for size in (COMPACT_BYTES, COMPACT_BYTES + 1):
        spec = objects_cell((1, size), compact=True)
        spec["dataset"]["dtype"] = "uint8"
        opened = ManyArrays().create(str(tmp_path / "many.h5"), spec)
        block = np.zeros(size, np.uint8)
        if size == COMPACT_BYTES:
            opened.add(0, block)
        else:
            with pytest.raises((OSError, ValueError)):
                opened.add(0, block)
        opened.close()


def test_compact_storage_has_neither_chunks_nor_filters(tmp_path: Path) -> None:
    for other in ({"chunks": "auto"}, {"chunks": [4, 4, 64], "filters": ["gzip"]}):
        said = mistake(tmp_path, changed("layouts.small", {"storage": "compact", **other}))
        assert said == "layouts.small: compact storage has neither chunks nor filters"
