"""Studies of ragged rows: what they may say, and what is wrong in one line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from studies import load, mistake

from hyperslab.layouts.hdf5_rows import OF_REFERENCES
from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.studies.case_kinds import measured_at

STUDY: dict[str, Any] = {
    "title": "rows",
    "dataset": {"rows": {"count": 64, "longest": 10}, "dtype": "int32"},
    "layouts": {
        "vlen": {"format": "hdf5-rows", "storage": "vlen"},
        "vector": {"format": "hdf5-rows", "storage": "offset-vector"},
    },
    "cases": {
        "write": {"write_rows": 1},
        "few": {"write_rows": {"call": "all"}, "shape": {"row": 8}},
        "read": {"read_rows": {"rows": 4, "scattered": True}},
    },
}


def study(path: str, value: Any) -> dict[str, Any]:
    import copy

    content = copy.deepcopy(STUDY)
    *way, last = path.split(".")
    place = content
    for part in way:
        place = place[part]
    place[last] = value
    return content


def test_a_study_of_rows(tmp_path: Path) -> None:
    found = load(tmp_path, STUDY)
    assert (found.dataset.axes, found.dataset.shape, found.dataset.nbytes) == (["row"], [64], 64 * 10 * 4)
    assert found.cases["few"]["shape"] == [8] and found.dataset.bytes_of([8]) == 320
    assert found.cases["write"]["states"] == ["write"]
    assert found.cases["read"]["states"] == ["cold", "warm"]
    from hyperslab.studies.specification import cell_specification

    spec = cell_specification(found, "vlen", "few", "r0")
    assert spec["dataset"]["rows"] == {"lengths": "constant", "longest": 10}
    assert spec["dataset"]["shape"] == [8]


SIZE = re.compile(r"([\d.]+) ([MG])(i?)B")
POWERS = {"M": 2, "G": 3}


def test_the_page_names_the_least_and_the_greatest_size_of_each_study(pytestconfig: pytest.Config) -> None:
    root = pytestconfig.rootpath
    text = (root / "docs" / "rows.md").read_text(encoding="utf-8")
    # | `study` at `site` | ... | sizes |
    rows = re.findall(r"^\| `(vl-[\w-]+)`(?: at `([\w-]+)`)? \|[^|]*\|([^|]*)\|$", text, re.M)
    files = {file.stem: file for file in (root / "config" / "studies").glob("vl-*.yaml")}
    assert {name for name, _, _ in rows} == set(files)
    for name, site, sizes in rows:
        named = [
            float(number) * (1024 if binary else 1000) ** POWERS[prefix]
            for number, prefix, binary in SIZE.findall(sizes)
        ]
        planned = PlannedStudy(files[name])
        own = [
            planned.dataset.bytes_of(case["shape"])
            for case in planned.cases.values()
            if not site or measured_at(case, site)
        ]
        assert [min(named), max(named)] == pytest.approx([min(own), max(own)], rel=0.02), name


def test_a_vectors_chunks_and_caches(tmp_path: Path) -> None:
    """Chunks are smaller where there are filters; the cache is that of the settings where these name one."""
    content = study("settings", {"libver": "latest"})
    vector = STUDY["layouts"]["vector"]
    content["layouts"] |= {
        "zstd": {**vector, "filters": ["zstd"]},
        "cached": {**vector, "settings": {"chunk_cache_bytes": 5}},
        "own": {
            **vector,
            "settings": {"chunk_cache_bytes": 5},
            "chunk_cache": 0,
            "row_cache": 7,
            "reuse": True,
        },
    }
    found = load(tmp_path, content).layouts
    kept = ("chunk_bytes", "chunk_cache", "row_cache", "reuse")
    assert {name: {key: found[name][key] for key in kept if key in found[name]} for name in found} == {
        "vlen": {"chunk_bytes": None},
        "vector": {"chunk_bytes": 2**23},
        "zstd": {"chunk_bytes": 2**20},
        "cached": {"chunk_bytes": 2**23, "chunk_cache": 5},
        "own": {"chunk_bytes": 2**23, "chunk_cache": 0, "row_cache": 7, "reuse": True},
    }


CHUNKED = {"format": "hdf5-rows", "storage": "vlen", "row_chunk": 8}
MISTAKES: list[tuple[str, Any, str]] = [
    ("dataset.axes", ["x"], ": has `rows`, whose number and lengths say all; leave axes and shape out"),
    ("dataset.rows", {"count": 0, "longest": 1}, ".count: should be greater than 0, not 0"),
    ("dataset.rows", {"count": 5}, ": rows whose lengths are constant need longest, and have no longest"),
    (
        "dataset.rows",
        {"count": 5, "lengths": "linear", "longest": 4, "mean": 3},
        ": rows whose lengths are linear need longest, and have a mean",
    ),
    (
        "layouts.vlen",
        {"format": "zarr"},
        ".format: zarr stores a dense array, and the dataset is ragged rows; take ",
    ),
    ("layouts.vlen.chunk_bytes", 4096, ": vlen has no chunks of values; it has row_chunk"),
    ("layouts.vlen.offsets", True, ": only flattened rows can have offsets instead of lengths"),
    ("layouts.vlen.reuse", True, ": vlen has no reuse; only offset-vector has one"),
    ("layouts.vlen.chunk_cache", 0, ": vlen has no chunk_cache; only offset-vector has one"),
    (
        "layouts.vlen.settings",
        {"driver": {"name": "split", "metadata_on": "disk"}},
        ".driver: rows lie in one file; take another driver than split",
    ),
    ("layouts.vector.row_cache", -1, ": should be greater than or equal to 0, not -1"),
    ("layouts.vlen.filters", ["gzip"], ": filters need chunks; give the layout a row_chunk"),
    (
        "layouts.vlen",
        {**CHUNKED, "filters": ["fletcher32"]},
        ".filters: fletcher32 cannot treat references",
    ),
    (
        "layouts.vlen",
        {**CHUNKED, "filters": ["shuffle", "gzip"]},
        ".filters: shuffle cannot treat",
    ),
    ("layouts.vlen", {**CHUNKED, "filters": ["blosc"]}, ".filters: blosc cannot treat references"),
    (
        "layouts.vector.filters",
        [{"zfp": {"rate": 8}}],
        ": rows are compared byte by byte; no filter may change values",
    ),
    ("layouts.vector.chunk_bytes", 3, ": should hold at least one int32"),
    (
        "cases.read",
        {"read": {"row": 3}},
        ".read: is for a dense array, and the dataset is ragged rows; there are read_rows, write_rows, ",
    ),
    ("cases.read.read_rows", 65, ".rows: 65 rows do not fit: there are 64"),
    ("cases.read.states", ["session"], ": rows are read cold and warm, and have no session"),
    (
        "cases.write.write_rows",
        {"call": 32, "datasets": 3},
        ".datasets: 2 calls write no 3 datasets in turn",
    ),
    (
        "cases.write.write_rows",
        {"call": 1, "growing": True},
        ".growing: contiguous datasets cannot grow; give the layout a row_chunk (layout vlen)",
    ),
    (
        "cases.read",
        {"follow_rows": 1},
        ".follow_rows: readers beside a writer need another settings.libver than earliest: v110, v112, v114",
    ),
    (
        "cases.read",
        {"follow_rows": {"call": 1, "readers": 65}},
        ".follow_rows.readers: should be less than or",
    ),
    ("cases.read", {"rewrite_rows": 65}, ".rewrite_rows: 65 rows are not there: there are 64"),
    (
        "cases.read.read_rows",
        {"rows": "all", "scattered": True},
        ": scattered rows are a number of rows, read in one call",
    ),
]


def test_filters_are_judged_by_the_chunks_that_they_get(tmp_path: Path) -> None:
    """Padded rows have chunks as wide as the longest; a vector's chunks are bytes."""
    found = load(tmp_path, study("layouts", {
        "vlen": {**CHUNKED, "filters": list(OF_REFERENCES)},
        "padded": {**CHUNKED, "storage": "padded", "filters": ["szip"]},
        "vector": {**STUDY["layouts"]["vector"], "chunk_bytes": 32, "filters": ["szip"]},
    })).layouts  # fmt: skip
    assert {name: len(found[name]["filters"]) for name in found} == {"vlen": 5, "padded": 1, "vector": 1}


@pytest.mark.parametrize(("path", "value", "message"), MISTAKES, ids=str)
def test_a_mistake_is_one_line(tmp_path: Path, path: str, value: Any, message: str) -> None:
    said = mistake(tmp_path, study(path, value))
    where = "dataset" if path == "dataset.axes" else path
    assert said.startswith(f"{where}{message}")


def test_an_array_has_no_layout_of_rows(tmp_path: Path) -> None:
    said = mistake(tmp_path, study("dataset", {"axes": ["x"], "shape": [4]}))
    holds = "hdf5-rows stores ragged rows, and the dataset is a dense array"
    assert said.startswith(f"layouts.vector.format: {holds}; take 'hdf5' or 'zarr' or 'idx' or ")
