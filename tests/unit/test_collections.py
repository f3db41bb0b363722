"""Collections: which files there are, what arithmetic says of them, and boxes that cross them."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import prepared
from studies import Content, load, mistake

from hyperslab import cases, formats
from hyperslab.cases import open_all
from hyperslab.cases.context import Context, VerificationError
from hyperslab.data.models import open_content
from hyperslab.data.selections import Box
from hyperslab.formats import collection, collection_files
from hyperslab.layouts import layout_of
from hyperslab.layouts.collection import CollectionLayout, parts_of, touched_parts
from hyperslab.measuring.artifact import Artifact
from hyperslab.planning.site_checks import largest_bytes, largest_files
from hyperslab.rewriting import RewriteError
from hyperslab.rewriting.asking import asked
from hyperslab.specifications import Specification

pytestmark = pytest.mark.usefixtures("own_locks")
SHAPE = (40, 18, 36)
LAYOUTS: dict[str, Any] = {
    "all": None,
    "day": {"files": 1},
    "ten": {"files": 10, "chunks": [4, 9, 12]},
    "month": {"files": "month", "chunks": [25, 6, 12], "filters": ["shuffle", {"gzip": 1}]},
    "turned": {"files": 7, "order": ["lat", "lon", "day"], "chunks": [7, 2, 36]},
    "year": {"files": "year", "chunks": "auto"},
    "zarr": {"format": "zarr", "files": "month", "chunks": [4, 9, 12], "codecs": [{"zstd": 1}]},
    "shards": {"format": "zarr", "files": 15, "chunks": [5, 9, 12], "shards": [15, 18, 36]},
}
CASES: dict[str, Any] = {
    "series": {"read": {"lat": 1, "lon": 1}, "repeats": {"cold": 3, "warm": 3}},
    "region": {
        "read": {"day": 12, "lat": 5, "lon": 7}, "states": ["cold", "warm", "session"],
        "repeats": {"cold": 3, "warm": 3, "session": 3},
    },
    "write": {"write": {"day": 9, "lat": "all", "lon": "all"}, "repeats": {"write": 2}},
    "open": {"open_all": True, "repeats": {"cold": 2, "warm": 2}},
}  # fmt: skip


def study(**changes: Any) -> Content:
    """A study of 40 days from the middle of a month on, in one file and in several."""
    grid = {"axes": ["day", "lat", "lon"], "shape": list(SHAPE), "dtype": "float32", "fill": "daily-grid"}
    grid["collection"] = {"along": "day", "first": date(1988, 2, 15)}
    return {
        "title": "a study",
        "dataset": grid,
        "layouts": LAYOUTS,
        "cases": CASES,
        "tradeoff": [],
        **changes,
    }


@dataclass
class Made:
    """A cell whose files were made for it."""

    spec: Specification
    context: Context
    layout: Any


def made(directory: Path, layout: str, case: str = "series", filled: bool = True) -> Made:
    spec = json.loads(load(directory, study()).cell_text(layout, case, "r0"))
    format_ = formats.format_of(spec["layout"])
    described = layout_of(spec["layout"])
    values = open_content(spec["dataset"])
    artifact = format_.artifact.in_directory(directory, described.suffix)
    if filled:
        format_.generate(str(artifact.data), spec, values)
    return Made(spec, Context(spec, format_, str(artifact.data), values, True), described)


@pytest.fixture
def memory_root(memory: Path) -> Iterator[Path]:
    with prepared(memory) as root:
        yield root


# ---- which files there are


def test_files_of_so_many_days_have_names_in_their_order() -> None:
    parts = parts_of({"axis": 0, "along": "day", "each": 10}, 1234)
    assert [part.name for part in parts[:2]] == ["0000", "0010"]
    assert (parts[-1].first, parts[-1].count, len(parts)) == (1230, 4, 124)
    assert sorted(part.name for part in parts) == [part.name for part in parts]
    dated = parts_of({"each": 1, "first": "1999-12-31"}, 3)
    assert [part.name for part in dated] == ["1999-12-31", "2000-01-01", "2000-01-02"]


@given(st.dates(date(1900, 1, 1), date(2100, 1, 1)), st.integers(1, 1500), st.sampled_from(["month", "year"]))
def test_months_and_years_are_those_of_the_calendar(first: date, days: int, each: str) -> None:
    parts = parts_of({"each": each, "first": first.isoformat()}, days)
    length = {"month": 7, "year": 4}[each]
    names = [(first + timedelta(days=index)).isoformat()[:length] for index in range(days)]
    assert [name for part in parts for name in [part.name] * part.count] == names
    assert len({part.name for part in parts}) == len(parts)


@given(st.integers(1, 50), st.integers(1, 9), st.data())
def test_every_index_lies_in_one_file(days: int, each: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, days - 1))
    width = data.draw(st.integers(1, days - start))
    parts = parts_of({"each": each}, days)
    found = [
        parts[number].first + first + index
        for number, first, count in touched_parts(parts, start, width)
        for index in range(count)
    ]
    assert found == list(range(start, start + width))


# ---- what is said before anything is written


@pytest.mark.parametrize("name", LAYOUTS)
def test_files_bytes_and_chunks_are_those_that_were_predicted(memory_root: Path, name: str) -> None:
    cell = made(memory_root, name)
    report = cell.context.format.report(cell.context.path, cell.spec)
    planned = load(memory_root, study()).dataset
    files = Artifact(cell.context.path).files()
    assert report["file_bytes"] == sum(file.stat().st_size for file in files)
    assert len(files) <= cell.layout.largest_files(planned)
    assert report["file_bytes"] <= cell.layout.largest_bytes(planned)
    assert report["chunks"] == report["chunks_predicted"] == (cell.layout.touched((0, 0, 0), SHAPE))
    if report.get("metadata_bytes"):
        assert report["metadata_bytes"] == sum(file.stat().st_size for file in files if "json" in file.name)
    if not cell.layout.filters_text() and "shards" not in name:
        assert report["stored_bytes"] == cell.layout.stored_bytes(SHAPE, 4)
    if isinstance(cell.layout, CollectionLayout) and cell.layout.one.title == "HDF5":
        assert report["files"] == len(cell.layout.parts(SHAPE)) == len(files)
        assert cell.layout.largest_files(planned) == len(files) + 1


def test_the_plan_counts_all_files(tmp_path: Path) -> None:
    planned = load(tmp_path, study())
    assert largest_files(planned) >= 41
    # Each of 40 files has a header and an index of its own.
    assert largest_bytes(planned) > 40 * (18 * 36 * 4 + 2**15)
    words = {
        name: layout_of(layout).words(["day", "lat", "lon"], 4) for name, layout in planned.layouts.items()
    }
    assert "a file for each day" in words["day"] and "a file for each month" in words["zarr"]
    assert words["ten"].endswith("a file for every 10 of day") and "a file for" not in words["all"]
    # A chunk is no longer than the longest file; a shorter file has shorter ones.
    assert planned.layouts["year"]["chunks"][0] <= 40
    assert planned.layouts["month"]["files"]["first"] == "1988-02-15"


def test_filters_take_as_long_in_several_files_as_in_one(tmp_path: Path) -> None:
    filters = {"chunks": [4, 9, 12], "filters": [{"gzip": 9}]}
    planned = load(tmp_path, study(layouts={"one": filters, "several": {**filters, "files": 10}}))
    one, several = (layout_of(layout).encoding_seconds(10**9) for layout in planned.layouts.values())
    assert one == several > 100


def test_a_collection_forgets_what_one_file_forgets(tmp_path: Path) -> None:
    planned = load(tmp_path, study())
    forgets = {name: layout_of(layout).abilities.forgets for name, layout in planned.layouts.items()}
    assert {name for name, forgotten in forgets.items() if forgotten} == {"zarr", "shards"}


# ---- values


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_box_is_put_together_from_all_files_that_hold_it(memory_root: Path, name: str) -> None:
    cell = made(memory_root, name)
    opened = cell.context.format.open(cell.context.path, cell.spec)
    rng = np.random.default_rng(5)
    stored = cell.context.format.stored_sizes(cell.context.path, cell.spec)
    for _ in range(25):
        origin = [int(rng.integers(size)) for size in SHAPE]
        extent = [int(rng.integers(1, size - start + 1)) for start, size in zip(origin, SHAPE, strict=True)]
        box = Box(tuple(origin), tuple(extent))
        found = opened.read(box)
        assert found.tobytes() == cell.context.values.block(origin, extent).tobytes()
        predicted = cell.context.format.predict(box, cell.spec, stored)
        if cell.layout.chunks:
            assert predicted["chunks_touched"] == cell.layout.touched(origin, extent)
    opened.close()


def test_few_files_are_open_at_once(memory_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = made(memory_root, "day")
    monkeypatch.setattr(collection, "MOST_OPEN", 3)
    files = collection_files.Files(cell.context.path, cell.spec)
    live: set[int] = set()

    class Counted:
        def __init__(self, number: int) -> None:
            self._inner = formats.load("hdf5").open(files.path(number), files.specification(number))
            self.number = number
            live.add(number)
            assert len(live) <= 3

        def read(self, box: Box) -> Any:
            return self._inner.read(box)

        def close(self) -> None:
            live.discard(self.number)
            self._inner.close()

    opened = collection.OpenCollection(files, Counted, 3)  # type: ignore[arg-type]
    whole = opened.read(Box((0, 0, 0), SHAPE))
    assert whole.tobytes() == cell.context.values.block((0, 0, 0), SHAPE).tobytes()
    opened.close()
    assert not live


def test_files_that_stay_open_are_as_many_as_a_process_may_have(
    memory_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 65))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    cell = made(memory_root, "month", "write", filled=False)
    said = r"writing 2 files at once takes a limit of 66 open files, which is 65 here \(ulimit -Hn\): have it"
    with pytest.raises(OSError, match=said):
        cell.context.format.create(cell.context.path, cell.spec)
    # Of Zarr none is open between calls.
    cell = made(memory_root, "zarr", "write", filled=False)
    cell.context.format.create(cell.context.path, cell.spec).close()


def test_small_compressed_files_written_side_by_side_are_those_written_in_turn(
    memory_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = json.loads(load(memory_root, study()).cell_text("month", "series", "r0"))
    spec["layout"]["files"] = {"axis": 0, "along": "day", "each": 4}
    values = open_content(spec["dataset"])
    format_ = formats.format_of(spec["layout"])
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    format_.generate(str(memory_root / "a"), spec, values)
    assert format_.workers_memory_bytes() > 0
    monkeypatch.setattr(collection, "MANY", 1000)
    format_.generate(str(memory_root / "b"), spec, values)
    both = [{file.name: file.read_bytes() for file in (memory_root / name).iterdir()} for name in "ab"]
    assert len(both[0]) == 10 and both[0] == both[1]


def test_a_file_that_is_gone_is_named(memory_root: Path) -> None:
    cell = made(memory_root, "month")
    Path(cell.context.path, "1988-03.h5").unlink()
    with pytest.raises(FileNotFoundError, match="1 of 2 files are not there: 1988-03"):
        cell.context.format.open(cell.context.path, cell.spec)


# ---- cases


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["day", "month", "zarr"])
def test_cases_of_arrays_go_through_collections(memory_root: Path, name: str, case: str) -> None:
    cell = made(memory_root, name, case, filled=case != "write")
    outcome = cases.load(cell.spec["case"]["kind"])(cell.context)
    assert outcome.skipped == {}
    least, most = cell.spec["repeats"], cell.spec["repeats"] | cell.spec.get("most_repeats", {})
    assert len(outcome.repeats) in (sum(least.values()), sum(most.values()))
    assert all(row["time_s"] > 0 for row in outcome.repeats)
    if case == "open":
        assert {row["calls"] for row in outcome.repeats} == {len(cell.layout.parts(SHAPE))}
    if case == "series":
        assert {row["files_touched"] for row in outcome.repeats} == {len(cell.layout.parts(SHAPE))}


@pytest.mark.parametrize("remembers", [False, True])
def test_what_serves_the_data_has_opened_them_before_they_are_warm(
    memory_root: Path, monkeypatch: pytest.MonkeyPatch, remembers: bool
) -> None:
    cell, timed, passes = made(memory_root, "month", "open"), open_all._timed, list[Any]()

    def kept(*given: Any) -> Any:
        passes.append(timed(*given))
        return passes[-1]

    monkeypatch.setattr(open_all, "_timed", kept)
    monkeypatch.setattr(Artifact, "remembers", remembers)
    rows = open_all.run(cell.context).repeats
    assert [row["state"] for row in rows] == ["warm", "warm", "library-cold", "library-cold"]
    assert [row["time_s"] for row in rows] == [seconds for seconds, _ in passes[remembers:]]


@pytest.mark.parametrize("case", ["series", "open"])
def test_a_file_of_another_day_does_not_pass(memory_root: Path, case: str) -> None:
    cell = made(memory_root, "day", case)
    first, last = (Path(cell.context.path, f"1988-{day}.h5") for day in ("02-15", "03-25"))
    kept = first.read_bytes()
    first.write_bytes(last.read_bytes())
    last.write_bytes(kept)
    with pytest.raises(VerificationError):
        cases.load(cell.spec["case"]["kind"])(cell.context)


def test_a_file_of_another_day_does_not_pass_where_both_end_alike(memory_root: Path) -> None:
    cell = made(memory_root, "day", "open")
    first, last = (Path(cell.context.path, f"1988-{day}.h5") for day in ("02-15", "03-25"))
    with h5py.File(first) as file:
        end = file["data"][-1, -1, -1]
    first.write_bytes(last.read_bytes())
    with h5py.File(first, "r+") as file:
        file["data"][-1, -1, -1] = end
    with pytest.raises(VerificationError, match="1988-02-15"):
        cases.load("open_all")(cell.context)


@pytest.mark.parametrize(
    ("extent", "cut", "origin", "width"),
    [
        ([7, 18, 36], 0, (6, 9, 0), (1, 1, 36)),
        ([18, 36, 7], 2, (9, 0, 6), (1, 36, 1)),
        ([40, 18, 36], None, (20, 9, 0), (1, 1, 36)),
        ([7], 0, (0,), (7,)),
    ],
)
def test_a_row_of_a_file_is_compared(
    extent: list[int], cut: int | None, origin: tuple[int, ...], width: tuple[int, ...]
) -> None:
    assert open_all._row(extent, cut) == Box(origin, width)


# ---- mistakes


@pytest.mark.parametrize(
    ("layouts", "said"),
    [
        ({"a": {"files": 0}}, "layouts.a.files: expected a number of indices along the collection's axis"),
        ({"a": {"files": "week"}}, "layouts.a.files: expected a number of indices"),
        ({"a": {"format": "idx", "files": 1}}, "layouts.a.files: IDX keeps an array in one file or folder"),
        (
            {"a": {"files": 4, "chunks": [5, 9, 9]}},
            "layouts.a.chunks: [5, 9, 9] is larger than the array [4, 18, 36]",
        ),
        (
            {"a": {"files": 4, "chunks": [1, 9, 9], "second": {"chunks": [4, 1, 1], "cases": ["map"]}}},
            "layouts.a.files: an array in several files has no second copy",
        ),
        (
            {"a": {"files": 40, "settings": {"driver": {"name": "split", "metadata_on": "memory"}}}},
            "layouts.a.files",
        ),
        (
            {"a": {"files": 39, "chunks": [4, 1, 1], "filters": [{"zfp": {"reversible": True}}]}},
            "cases.open.layouts: zfp cannot treat chunks of [1, 1, 1]: 1 to 4 axes have to be longer than 1",
        ),
        (
            {"a": {"files": 39, "chunks": [32, 1, 1], "filters": [{"szip": 32}]}},
            "cases.open.layouts: szip cannot treat chunks of [1, 1, 1]: they are smaller than its block",
        ),
        (
            {"a": {"files": 39, "chunks": [4, 18, 36], "settings": {"libver": "v110", "fill_time": "never"}}},
            "cases.open.layouts: fill_time: never loses the values of a dataset of one chunk",
        ),
    ],
)
def test_layouts_that_cannot_be_are_one_line(tmp_path: Path, layouts: Any, said: str) -> None:
    assert said in mistake(tmp_path, study(layouts=layouts))


@pytest.mark.parametrize("format_", ["hdf5", "zarr"])
def test_a_part_of_the_array_fits_whose_files_are_shorter_than_chunks(tmp_path: Path, format_: str) -> None:
    # 15 days of February, 25 of March.
    monthly = {"a": {"format": format_, "files": "month", "chunks": [25, 6, 12]}}
    cases = {"part": {"read": {"lat": 1, "lon": 1}, "shape": {"lat": 6}}}
    assert load(tmp_path, study(layouts=monthly, cases=cases)).cases["part"]["shape"] == [40, 6, 36]
    cases["part"]["shape"] = {"lat": 5}
    said = "cases.part.shape: the chunks [25, 6, 12] of a do not fit [40, 5, 36]"
    assert said in mistake(tmp_path, study(layouts=monthly, cases=cases))


def test_an_array_is_cut_where_the_dataset_says_so_alone(tmp_path: Path) -> None:
    content = study()
    del content["dataset"]["collection"]
    assert "the dataset is no collection" in mistake(tmp_path, content)
    content["dataset"]["collection"] = {"along": "day"}
    assert "needs the date of the first day, dataset.collection.first" in mistake(tmp_path, content)
    content["dataset"]["collection"] = {"along": "time"}
    assert "should be an axis of the array, one of day, lat, lon" in mistake(tmp_path, content)


def test_a_collection_says_nothing_of_one_file(tmp_path: Path) -> None:
    with_it = load(tmp_path, study()).cell_text("all", "series", "r0")
    content = study(layouts={"all": None})
    del content["dataset"]["collection"]
    assert load(tmp_path, content).cell_text("all", "series", "r0") == with_it


def test_a_users_file_is_not_rewritten_into_several(tmp_path: Path) -> None:
    planned = load(tmp_path, study())
    with pytest.raises(RewriteError, match="keeps the array in several files"):
        asked(planned.given["day"], {})
