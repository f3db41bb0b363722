"""Ragged rows: how long they are, cells of every layout, and what a study may say of them."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
from row_cells import GROWING, LAYOUTS, ROWS, SEVERAL, cell, run, written

from hyperslab import formats
from hyperslab.cases.context import Outcome, VerificationError
from hyperslab.cases.rows.dealt import Dealt
from hyperslab.data.models import open_content, raw_bytes
from hyperslab.data.rows import BLOCK_BYTES, FILLED_UP, MODELS, RowBlock, Rows, lengths_of
from hyperslab.formats.hdf5_rows import flattened, offset_vector, padded, vlen
from hyperslab.formats.hdf5_rows.parts import pieces
from hyperslab.layouts import layout_of
from hyperslab.layouts.hdf5_rows import OF_REFERENCES
from hyperslab.measuring.extents import extents_of

COUNT = 300
PARTS: dict[str, Any] = {
    "vlen": vlen.VlenPart,
    "flattened": flattened.FlattenedPart,
    "offset-vector": offset_vector.OffsetVectorPart,
    "padded": padded.PaddedPart,
}


def of_state(outcome: Outcome, state: str) -> list[dict[str, Any]]:
    return [row for row in outcome.repeats if row["state"] == state]


def specified(count: int, **rows: Any) -> dict[str, Any]:
    return {"rows": {"seed": 1, **rows}, "shape": [count], "dtype": "int32", "fill": "mixed", "axes": ["row"]}


# ---- lengths and values


@pytest.mark.parametrize("longest", [0, 1, 7, 4096])
@pytest.mark.parametrize("count", [2, 8, 8192])
def test_linear_rows_hold_half_as_many_elements_as_constant_ones(count: int, longest: int) -> None:
    rising = lengths_of(specified(count, lengths="linear", longest=longest))
    constant = lengths_of(specified(count // 2, lengths="constant", longest=longest))
    assert rising.sum() == constant.sum()
    assert (np.diff(rising[: count // 2]) >= 0).all() and (np.diff(rising[count // 2 :]) <= 0).all()
    assert longest == 0 or rising.max() >= longest * (1 - 2 / count)
    assert rising.min() >= 0


@pytest.mark.parametrize("model", MODELS)
def test_drawn_lengths_are_those_of_the_seed(model: str) -> None:
    parameters: dict[str, Any] = {"longest": 500, "mean": 40.0, "empty_share": 0.9}
    known = {name: parameters[name] for name in MODELS[model][0] if name != "seed"}
    found = lengths_of(specified(20_000, lengths=model, **known))
    again = lengths_of(specified(20_000, lengths=model, **known, seed=1))
    assert np.array_equal(found, again) and found.min() >= 0 and len(found) == 20_000
    if "seed" in MODELS[model][0]:
        assert not np.array_equal(found, lengths_of(specified(20_000, lengths=model, **{**known, "seed": 2})))
    if model == "geometric":
        assert found.mean() == pytest.approx(40, rel=0.05)
    if model == "many-empty":
        assert (found == 0).mean() == pytest.approx(0.9, abs=0.01)
    if model == "heavy-tail":
        # The cut takes some of the mean; half of all rows are far below it.
        assert 15 < found.mean() < 40 and np.median(found) < 15 and found.max() == 500


def test_rows_are_pieces_of_one_vector() -> None:
    spec = specified(100, lengths="uniform", longest=9)
    rows = open_content(spec)
    assert isinstance(rows, Rows)
    whole = rows.run(0, 100)
    assert raw_bytes(spec) == whole.nbytes == rows.nbytes
    pieces = list(whole.rows())
    assert [len(piece) for piece in pieces] == rows.lengths.tolist()
    numbers = np.array([7, 8, 9, 3, 99, 0])
    picked = rows.picked(numbers)
    assert np.array_equal(picked.values, np.concatenate([pieces[number] for number in numbers]))
    assert len({piece.tobytes() for piece in pieces if len(piece) > 2}) == sum(len(p) > 2 for p in pieces)
    assert [stop - first for first, stop in rows.blocks(30)] == [30, 30, 30, 10]


def test_rows_that_are_filled_up_are_fewer_a_block() -> None:
    rows = open_content(specified(200_000, lengths="heavy-tail", mean=5, longest=4096, seed=1))
    assert isinstance(rows, Rows)
    padded = rows.filled_up(4096)
    blocks = list(padded.blocks())
    assert blocks[0][0] == 0 and blocks[-1][1] == len(rows)
    assert all(stop == first for (_, stop), (first, _) in itertools.pairwise(blocks))
    assert max(stop - first for first, stop in blocks) * 4096 * 4 <= FILLED_UP * BLOCK_BYTES
    # What has hardly any padding is dealt with as before.
    assert list(rows.filled_up(5).blocks()) == list(rows.blocks())
    (first, stop), *_ = padded.alone(np.arange(150_000)).blocks()
    assert (first, stop) == blocks[0] and padded.weight(first, stop) <= BLOCK_BYTES


def test_rows_are_dealt_in_turn() -> None:
    rows = open_content(specified(10, lengths="constant", longest=1))
    assert isinstance(rows, Rows)
    dealt = Dealt(rows, 2, 3)
    assert [(c.first, c.stop, c.part, c.place) for c in dealt.calls()] == [
        (0, 2, 0, 0), (2, 4, 1, 0), (4, 6, 2, 0), (6, 8, 0, 2), (8, 10, 1, 2),
    ]  # fmt: skip
    assert [dealt.numbers(part).tolist() for part in range(3)] == [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5]]


# ---- cells


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("call", [1, 16, "all"])
def test_every_layout_is_written_and_read_back(tmp_path: Path, name: str, call: Any) -> None:
    # Row by row it takes longest: two chunks of rows, written once, are enough.
    count, writes = (70, 1) if call == 1 else (COUNT, 2)
    spec = cell(LAYOUTS[name], "write_rows", written(call), {**ROWS, "count": count})
    spec["repeats"] = {"write": writes}
    outcome = run(spec, tmp_path / "data.h5")
    assert len(of_state(outcome, "write")) == writes
    for row in outcome.repeats:
        assert row["calls"] == (1 if call == "all" else -(-count // call))
        assert row["rows"] == count and row["asked_bytes"] <= row["written_bytes"] * 20
        parts = [row[f"{part}_s"] for part in ("create", "write", "flush", "close", "fsync")]
        assert row["time_s"] == pytest.approx(sum(parts))
    report = outcome.report
    assert report["file_bytes"] == sum(
        report[f"{part}_bytes"] for part in ("data", "padding", "index", "remainder")
    )
    assert report["remainder_bytes"] >= 0
    if not layout_of(spec["layout"]).filters_text() and "parquet" not in name:
        assert report["data_bytes"] == raw_bytes(spec["dataset"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", GROWING)
def test_layouts_of_chunks_grow(tmp_path: Path, name: str) -> None:
    outcome = run(cell(LAYOUTS[name], "write_rows", written(23, growing=True)), tmp_path / "data.h5")
    assert len(outcome.repeats) == 2


@pytest.mark.parametrize("name", SEVERAL)
def test_several_datasets_are_written_in_turn_and_the_first_is_read(tmp_path: Path, name: str) -> None:
    spec = cell(LAYOUTS[name], "write_rows", written(3, datasets=4), states={"cold": 2, "warm": 2})
    outcome = run(spec, tmp_path / "data.h5")
    assert [row["state"] for row in outcome.repeats].count("library-cold") == 2
    first = lengths_of(spec["dataset"]).reshape(-1, 3)[::4].sum()
    assert {row["asked_bytes"] for row in of_state(outcome, "warm")} == {first * 4}
    report = outcome.report
    # What datasets share, as those of the variable-length type do the heap, is counted once.
    assert 0 < report["stored_bytes"] <= report["file_bytes"] and report["remainder_bytes"] > 0
    assert report["stored_bytes"] == report["data_bytes"] + report["padding_bytes"]


SELECTIONS: list[dict[str, Any]] = [
    {"rows": "all", "scattered": False},
    {"rows": 40, "scattered": False, "call": 7},
    {"rows": 1, "scattered": False},
    {"rows": 25, "scattered": True},
]


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("asked", SELECTIONS, ids=str)
def test_every_layout_is_read(tmp_path: Path, disk: Path, name: str, asked: dict[str, Any]) -> None:
    spec = cell(LAYOUTS[name], "read_rows", asked, states={"cold": 3, "warm": 3})
    outcome = run(spec, disk / f"{name}-{SELECTIONS.index(asked)}", memory_resident=False)
    assert outcome.skipped == {}
    for state in ("cold", "warm"):
        rows = of_state(outcome, state)
        assert len(rows) == 3
        wanted = COUNT if asked["rows"] == "all" else asked["rows"]
        assert {row["rows"] for row in rows} == {wanted}
    lengths = lengths_of(spec["dataset"])
    for row in outcome.repeats:
        if not asked["scattered"]:
            first = row["origin"][0]
            assert row["asked_bytes"] == lengths[first : first + row["rows"]].sum() * 4
    assert all(row["resident_before"] <= 0.01 for row in of_state(outcome, "cold"))


@pytest.mark.parametrize("name", LAYOUTS)
def test_scattered_rows_are_joined_after_the_stopwatch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    spec = cell(LAYOUTS[name], "read_rows", {"rows": 25, "scattered": True})
    format_: Any = formats.load(spec["layout"]["format"])
    format_.prepare(spec)
    rows, path, numbers = open_content(spec["dataset"]), str(tmp_path / "data"), list(range(0, COUNT, 12))
    assert isinstance(rows, Rows)
    format_.generate(path, spec, rows)
    opened = format_.open(path, spec)
    # What leads to rows is in memory then.
    opened.reader(0, numbers)()
    read, joined, concatenate = opened.reader(0, numbers), [0], np.concatenate

    def noted(*arrays: Any, **how: Any) -> Any:
        found = concatenate(*arrays, **how)
        joined.append(found.nbytes)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(np, "concatenate", noted)
        found = read()
    block, wanted = opened.block(found), rows.picked(np.array(numbers))
    opened.close()
    assert np.array_equal(block.lengths, wanted.lengths) and np.array_equal(block.values, wanted.values)
    assert max(joined) < wanted.nbytes


def test_a_row_group_is_kept_within_one_selection_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[int] = []
    read = pq.ParquetFile.read_row_group

    def noted(self: Any, number: int) -> Any:
        groups.append(number)
        return read(self, number)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", noted)
    asked = {"rows": 20, "scattered": False, "call": 5}
    outcome = run(cell(LAYOUTS["parquet"], "read_rows", asked, states={"warm": 3}), tmp_path / "a.parquet")
    assert [row["calls"] for row in outcome.repeats] == [4, 4, 4]
    assert groups == [0, 0, 0]


def test_a_row_group_is_not_copied_within_the_stopwatch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables: list[Any] = []
    read = pq.ParquetFile.read_row_group

    def noted(self: Any, number: int) -> Any:
        tables.append(read(self, number))
        return tables[-1]

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", noted)
    spec, path = cell(LAYOUTS["parquet"], "read_rows", {"rows": 3, "scattered": False}), tmp_path / "a"
    format_: Any = formats.load("parquet")
    format_.generate(str(path), spec, open_content(spec["dataset"]))
    opened = format_.open(str(path), spec)
    (found,) = opened.reader(0, range(3))()
    opened.close()
    addresses = [rows.chunk(0).buffers()[-1].address for rows in (found, tables[0].column("rows"))]
    assert addresses[0] == addresses[1]


REPLACED = [
    "vlen", "vlen-chunked", "offset-vector", "offset-vector-reuse", "offset-vector-zstd", "padded",
    "padded-gzip",
]  # fmt: skip


@pytest.mark.parametrize("name", REPLACED)
def test_rows_are_replaced_by_others(tmp_path: Path, name: str) -> None:
    outcome = run(cell(LAYOUTS[name], "rewrite_rows", {"replaced": 120}), tmp_path / "data.h5")
    assert len(outcome.repeats) == 2 and {row["rows"] for row in outcome.repeats} == {120}
    assert all(row["calls"] == row["rows"] and row["grown_bytes"] >= 0 for row in outcome.repeats)
    if name == "offset-vector":
        # Nothing is given away: what was replaced is lost, and the vector holds all that was ever written.
        last = outcome.repeats[-1]
        assert outcome.report["lost_bytes"] > 0 and last["asked_bytes"] > 0
    assert list(tmp_path.iterdir()) == []


def test_reused_space_is_not_lost(tmp_path: Path) -> None:
    lost, grown = {}, {}
    for name in ("offset-vector", "offset-vector-reuse"):
        outcome = run(cell(LAYOUTS[name], "rewrite_rows", {"replaced": 250}), tmp_path / "data.h5")
        lost[name], grown[name] = outcome.report["lost_bytes"], outcome.repeats[-1]["grown_bytes"]
    assert lost["offset-vector-reuse"] < 0.5 * lost["offset-vector"]
    assert grown["offset-vector-reuse"] < grown["offset-vector"]


def test_what_a_layout_says_reaches_the_vector(tmp_path: Path) -> None:
    """What is read back is the vector's, and not that of the dataset which leads to it."""

    def report(**layout: Any) -> Any:
        asked = {"rows": 1, "scattered": False}
        spec = cell({**LAYOUTS["offset-vector"], **layout}, "read_rows", asked, states={"warm": 1})
        return run(spec, tmp_path / "a.h5").report["settings"]

    plain = report()
    assert (plain["chunk_cache_bytes"], plain["fill_time"]) == (0, "never")
    assert report(chunk_cache=5000)["chunk_cache_bytes"] == 5000
    settings = {
        "chunk_cache_bytes": 300_000,
        "chunk_cache_slots": 101,
        "alloc_time": "late",
        "fill_time": "alloc",
    }
    assert settings.items() <= report(settings=settings).items()
    assert report(settings=settings, chunk_cache=0)["chunk_cache_bytes"] == 0
    assert report(filters=["gzip"])["chunk_cache_bytes"] == 8 * 2**20


def test_a_row_that_is_not_replaced_fails_the_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PARTS["vlen"], "replacer", lambda *_: lambda: None)
    with pytest.raises(VerificationError, match="are not those that were written"):
        run(cell(LAYOUTS["vlen"], "rewrite_rows", {"replaced": 5}), tmp_path / "data.h5")


@pytest.mark.parametrize("name", ["vlen", "flattened", "offset-vector", "padded"])
@pytest.mark.parametrize("kind", ["read_rows", "write_rows"])
def test_a_wrong_row_fails_the_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    part = PARTS[name]
    writer = part.writer

    def wrong(self: Any, first: int, block: RowBlock) -> Any:
        values = block.values.copy()
        values[-1:] += 1
        return writer(self, first, RowBlock(block.lengths, values))

    monkeypatch.setattr(part, "writer", wrong)
    asked = {"rows": "all", "scattered": False} if kind == "read_rows" else written("all")
    states = {"warm": 1} if kind == "read_rows" else {}
    rows = {"count": 30, "lengths": "constant", "longest": 5}
    with pytest.raises(VerificationError, match="differs from what was written|cannot be read back"):
        run(cell(LAYOUTS[name], kind, asked, rows, states=states), tmp_path / "data.h5")


def test_another_number_of_rows_than_asked_for_fails_the_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = PARTS["padded"]
    block = part.block

    def without_the_last(self: Any, found: Any) -> RowBlock:
        whole = block(self, found)
        return RowBlock(whole.lengths[:-1], whole.values[: whole.lengths[:-1].sum()])

    monkeypatch.setattr(part, "block", without_the_last)
    asked = {"rows": 40, "scattered": False}
    with pytest.raises(VerificationError, match="39 rows came back where 40 were asked for"):
        run(cell(LAYOUTS["padded"], "read_rows", asked, states={"warm": 1}), tmp_path / "data.h5")


def test_what_is_damaged_of_a_vector_with_offsets_is_an_error_of_the_file(tmp_path: Path) -> None:
    asked = {"rows": 1, "scattered": False}
    spec, path = cell(LAYOUTS["offset-vector"], "read_rows", asked), tmp_path / "a.h5"
    format_: Any = formats.load("hdf5-rows")
    format_.generate(str(path), spec, open_content(spec["dataset"]))
    with h5py.File(path, "r+") as file:
        file["rows0"][1] = np.array((2**40, 4), file["rows0"].dtype)
    opened = format_.open(str(path), spec)
    for numbers in (range(3), [0, 1]):
        with pytest.raises(OSError, match="row 1 lies beyond the vector"):
            opened.reader(0, numbers)()
    with pytest.raises(OSError, match="row 300 is not there"):
        opened.reader(0, [300])()
    opened.close()
    with h5py.File(path, "r+") as file:
        file["rows0"].attrs.clear()
    with pytest.raises(OSError, match="is no dataset of ragged rows"):
        format_.open(str(path), spec)


def test_the_heap_says_what_it_holds(tmp_path: Path) -> None:
    """The count of collections is that of their signatures in the file, and their bytes hold all rows."""
    rows = {"count": 2000, "lengths": "constant", "longest": 1024}
    spec = cell(LAYOUTS["vlen"], "read_rows", {"rows": 1, "scattered": False}, rows, states={"warm": 1})
    report = run(spec, tmp_path / "a.h5").report
    assert report["references_bytes"] == 2000 * 16
    assert report["data_bytes"] == 2000 * 4096
    content = (tmp_path / "a.h5").read_bytes()
    assert report["heap_collections"] == content.count(b"GCOL\1\0\0\0") > 100
    # Each row has a header of 16 bytes there.
    assert 4096 + 16 <= report["heap_bytes"] / 2000 <= 1.2 * 4096


def test_a_report_reads_references_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, path = cell(LAYOUTS["vlen"], "read_rows", {"rows": 1, "scattered": False}), str(tmp_path / "a.h5")
    format_: Any = formats.load("hdf5-rows")
    format_.generate(path, spec, open_content(spec["dataset"]))
    references, read = vlen._references, list[str]()

    def noted(dataset: h5py.Dataset) -> Any:
        read.append(dataset.name)
        return references(dataset)

    monkeypatch.setattr(vlen, "_references", noted)
    report = format_.report(path, spec)
    assert report["data_bytes"] and report["heap_bytes"] and report["row_pieces"]
    assert read == ["/rows0"]


def test_rows_of_the_heap_lie_where_it_says(tmp_path: Path) -> None:
    spec = cell(LAYOUTS["vlen-chunked"], "read_rows", {"rows": 1, "scattered": False}, states={"warm": 1})
    run(spec, tmp_path / "a.h5")
    content = (tmp_path / "a.h5").read_bytes()
    rows = open_content(spec["dataset"])
    assert isinstance(rows, Rows)
    with h5py.File(tmp_path / "a.h5") as file:
        places = vlen.VlenPart(file["rows0"], np.dtype("int32")).places()
    held = [row for row in rows.run(0, COUNT).rows() if len(row)]
    assert places is not None and len(places) == len(held)
    for (start, end), row in zip(places.tolist(), held, strict=True):
        assert content[start + 16 : end].startswith(row.tobytes())
        assert end - start - 16 - row.nbytes < 8


MEMORY = """
import sys, h5py, numpy as np
from hyperslab.formats.hdf5_rows.vlen import VlenPart

def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

with h5py.File(sys.argv[1]) as file:
    part = VlenPart(file["rows0"], np.dtype("int32"))
    part.sizes()
    before = peak()
    print(len(part.places()), peak() - before)
"""


def test_finding_where_rows_lie_takes_little_memory(tmp_path: Path) -> None:
    """What is read of the heap, 16 MiB, is not all in memory at once."""
    rows = {"count": 1000, "lengths": "constant", "longest": 4096}
    spec = cell(LAYOUTS["vlen"], "read_rows", {"rows": 1, "scattered": False}, rows, states={"warm": 1})
    run(spec, tmp_path / "a.h5")
    scripts = Path(vlen.__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path / "a.h5")], capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": str(scripts)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    count, grown = map(int, done.stdout.split())
    assert count == 1000 and grown < 4096


def test_what_memory_gathers_is_scattered_in_the_heap_alone(tmp_path: Path) -> None:
    """A block of 16 rows of a dataset lies behind those of three others, but not in a vector of its own.

    These vectors fit into what is gathered in memory; larger ones that grow in turn lie in pieces, too.
    """
    found = {}
    for name in ("vlen-chunked", "offset-vector", "flattened-gzip", "padded-gzip"):
        for datasets in (1, 4):
            rows = {"count": 160 * datasets, "lengths": "constant", "longest": 256}
            spec = cell(LAYOUTS[name], "write_rows", written(16, datasets, growing=True), rows)
            found[name, datasets] = run(spec, tmp_path / "a.h5").report["row_pieces"]
    assert found["vlen-chunked", 4] == 160 // 16 and found["vlen-chunked", 1] <= 2
    assert all(found[name, 4] <= 4 for name in ("offset-vector", "flattened-gzip", "padded-gzip"))


def test_pieces_are_what_lies_apart() -> None:
    assert pieces(np.empty((0, 2), np.int64)) == 0
    assert pieces(np.array([(0, 10), (10, 20), (4116, 5000), (9097, 9100), (100, 200)])) == 3


def test_a_file_system_tells_extents(disk: Path) -> None:
    path = disk / "sparse"
    with path.open("wb") as file:
        for start in (0, 2**20, 2**22):
            file.seek(start)
            file.write(b"x" * 4096)
    assert extents_of(str(path)) == 3
    assert extents_of("/proc/self/status") is None


def test_filters_do_not_reach_the_heap(tmp_path: Path) -> None:
    rows = {"count": 500, "lengths": "constant", "longest": 100}
    sizes = {}
    for name, layout in {
        "plain": LAYOUTS["vlen-chunked"],
        "gzip": {**LAYOUTS["vlen-chunked"], "filters": ["gzip"]},
        "vector": {**LAYOUTS["offset-vector"], "filters": ["gzip"]},
    }.items():
        spec = cell(layout, "write_rows", written(50), rows, dtype="uint64")
        spec["dataset"]["fill"] = "counts"
        report = run(spec, tmp_path / "a.h5").report
        sizes[name] = report["file_bytes"]
        # Where a filter hides references, nobody knows what of the file is the heap.
        assert (report["remainder_bytes"] is None) == (name == "gzip")
    assert sizes["gzip"] > 0.95 * sizes["plain"] > 2 * sizes["vector"]


@pytest.mark.parametrize("name", OF_REFERENCES)
def test_references_are_filtered_by_what_can_treat_them(tmp_path: Path, name: str) -> None:
    """The others fail, leave every chunk alone, or end the process, since HDF5 never sets them up."""
    spec = cell({**LAYOUTS["vlen-chunked"], "filters": [name]}, "read_rows", {"rows": 1, "scattered": False})
    format_: Any = formats.load("hdf5-rows")
    format_.prepare(spec)
    rows = open_content(spec["dataset"])
    assert isinstance(rows, Rows)
    format_.generate(str(tmp_path / "a.h5"), spec, rows)
    with h5py.File(tmp_path / "a.h5") as file:
        masks: list[int] = []
        file["rows0"].id.chunk_iter(lambda chunk: masks.append(chunk.filter_mask))
        assert masks == [0] * 5
        found = [row.tolist() for row in file["rows0"][:]]
    assert found == [row.tolist() for row in rows.run(0, COUNT).rows()]


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("longest", [0, 3, 500, 3000])
def test_files_are_no_larger_than_was_foreseen(tmp_path: Path, name: str, longest: int) -> None:
    from hyperslab.studies.dataset_schema import Dataset

    rows = {"count": 100, "lengths": "uniform", "longest": longest}
    # A chunk of Zarr is a file of its own, however often it is written.
    spec = cell(LAYOUTS[name], "write_rows", written(25 if "zarr" in name else 1), rows)
    spec["repeats"] = {"write": 1}
    bound = layout_of(spec["layout"]).largest_bytes(Dataset.model_validate({"rows": rows, "dtype": "int32"}))
    assert run(spec, tmp_path / "a.h5").report["file_bytes"] <= bound


@pytest.mark.parametrize(
    "settings",
    [
        {"alignment": {"bytes": 2**15}},
        {"meta_block_bytes": 2**21},
        {"paging": {"page_bytes": 2**13}},
        {"paging": {"page_bytes": 2**13}, "libver": "latest"},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["vlen-chunked", "flattened-gzip", "offset-vector", "padded-chunked"])
def test_files_with_settings_are_no_larger_than_was_foreseen(
    tmp_path: Path, name: str, settings: dict[str, Any]
) -> None:
    from hyperslab.studies.dataset_schema import Dataset

    rows = {"count": 300, "lengths": "uniform", "longest": 2000}
    layout = {**LAYOUTS[name], "settings": settings}
    # Half a page and a little more.
    layout |= {"chunk_bytes": 5000} if layout.get("chunk_bytes") else {}
    spec = cell(layout, "write_rows", written(50), rows)
    spec["repeats"] = {"write": 1}
    bound = layout_of(spec["layout"]).largest_bytes(Dataset.model_validate({"rows": rows, "dtype": "int32"}))
    assert run(spec, tmp_path / "a.h5").report["file_bytes"] <= bound


def test_a_page_buffer_tells_its_hits(tmp_path: Path) -> None:
    paging = {"page_bytes": 4096, "buffer_bytes": 2**20, "min_metadata_percent": 0, "min_raw_percent": 0}
    layout = {**LAYOUTS["vlen"], "settings": {"paging": paging, "libver": "latest"}}
    outcome = run(cell(layout, "write_rows", written(1)), tmp_path / "a.h5")
    for row in outcome.repeats:
        assert 0 <= row["page_buffer_meta_hit_rate"] <= 1
        assert 0 < row["metadata_hit_rate"] <= 1 and row["metadata_cache_bytes"] > 0


def test_the_files_are_what_others_read(tmp_path: Path) -> None:
    asked = {"rows": "all", "scattered": False}
    for name in ("vlen", "flattened"):
        spec = cell(LAYOUTS[name], "read_rows", asked, states={"warm": 1})
        run(spec, tmp_path / f"{name}.h5")
    with h5py.File(tmp_path / "vlen.h5") as one, h5py.File(tmp_path / "flattened.h5") as other:
        assert h5py.check_vlen_dtype(one["rows0"].dtype) == np.dtype("int32")
        assert np.array_equal(np.concatenate(one["rows0"][:]), other["rows0"][:])
        assert [len(row) for row in one["rows0"][:]] == other["rows0.lengths"][:].tolist()
