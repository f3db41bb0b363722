"""Records as one table: every column, in its type, and stale where what was measured is not today's."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from hyperslab import cases, formats
from hyperslab.cases import context
from hyperslab.data.values import open_values
from hyperslab.records import DamagedRecord
from hyperslab.results.columns import MEASUREMENTS, OF_FILE, SUMMARY
from hyperslab.results.measurements import build, standing
from hyperslab.results.tables import context_of, is_sure, rows_of, tidy
from hyperslab.specifications import Specification
from hyperslab.studies import specification
from hyperslab.studies.case_kinds import KINDS
from hyperslab.studies.study import LoadedStudy

Record = dict[str, Any]
DAMAGE: dict[str, bytes] = {
    "empty": b"",
    "cut": b'{"specification": {"layout"',
    "zeros": bytes(100),
    "no text": b"\xff\xfe",
    "deep": b"[" * 100_000,
    "a list": b"[1]",
    "a word": b'"repeats specification"',
    "without parts": b'{"repeats": [], "specification": {}}',
    "of other kinds": b'{"repeats": 1, "specification": []}',
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_record_is_named_with_the_way_out(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "small" / "slices.r0.json"
    path.parent.mkdir()
    path.write_bytes(DAMAGE[kind])
    with pytest.raises(DamagedRecord) as rows:
        rows_of(path, "mine", None, {})
    with pytest.raises(DamagedRecord) as facts:
        context_of([path])
    for text in (str(rows.value), str(facts.value)):
        assert text.splitlines() == [text]
        assert text.startswith(f"{path} is not a record of Hyperslab (")
        assert text.endswith("delete it, and the next run measures its cell again")


STUDY = """
title: t
dataset: {axes: [x, y, z], shape: [6, 8, 100]}
layouts:
  contiguous:
  small: {chunks: [2, 3, 40], filters: [shuffle, {gzip: 4}]}
grids:
  - {name: "{m}by{n}", over: {m: [2], n: [10, 25]}, chunks: [m, m, n]}
cases:
  slices: {read: {z: 5}, states: [cold, warm]}
  all: {write: chunk}
repeats: {cold: 2, warm: 3, write: 2}
score: {criteria: [{case: slices, state: cold, below: 1}]}
"""


# Type of a column -> that of pandas.
TYPES = {"text": "str", "whole number": "int64", "yes or no": "bool", "number": "float64"}


def study_of(directory: Path, **changes: Any) -> LoadedStudy:
    file = directory / "mine.yaml"
    file.write_text(yaml.safe_dump({**yaml.safe_load(STUDY), **changes}), encoding="utf-8")
    return LoadedStudy(file)


def spec_of(
    study: LoadedStudy, layout: str = "small", case: str = "slices", round_: str = "r0"
) -> Specification:
    return specification.cell_specification(study, layout, case, round_)


def record_of(spec: Specification, directory: Path, **changes: Any) -> Record:
    """A record whose selections were really read, with a machine and moments of its own."""
    values, hdf5 = open_values(spec["dataset"]), formats.load("hdf5")
    file = str(directory / "test.h5")
    writer = None
    if spec["case"]["kind"] == "read":
        way = hdf5.generate(file, spec, values)
        began = {"boot_id": "b", "boottime_s": 1.0, "wall_s": 1001.0}
        writer = {"generate_s": 0.5, "writer": way, "node": "writer", "began": began, "peak_memory_bytes": 10}
    outcome = cases.load(spec["case"]["kind"])(context.Context(spec, hdf5, file, values, True))
    record = {
        "site": "here",
        "specification": spec,
        "protocol": spec["protocol"],
        "began": {"boot_id": "b", "boottime_s": 2.0, "wall_s": 1002.0},
        "ended": {"boot_id": "b", "boottime_s": 3.0, "wall_s": 1003.0},
        "writer": writer,
        "locks": {"node": True, "root": True},
        "probes": {
            "before": {"compute_s": 0.010, "read_s": 0.002},
            "after": {"compute_s": 0.011, "read_s": 0.001},
            "change": {},
        },
        "machine": {"node": "reader", "cpu": "c"},
        "file_system": {"type": "ext4", "free_bytes": 7},
        "versions": {"hdf5": "2"},
        "environment": {"SLURM_RESTART_COUNT": "2"},
        "peak_memory_bytes": 20,
        "file": outcome.report,
        "skipped": outcome.skipped,
        "repeats": outcome.repeats,
    }
    return {**record, **changes}


def saved(record: Record, directory: Path, layout: str = "small") -> Path:
    spec = record["specification"]
    path = directory / "cells" / str(record["site"]) / layout / f"{spec['case']['name']}.{spec['round']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record), encoding="utf-8")
    return path


def table_of(
    record: Record, directory: Path, expected: str | None = None, layout: str = "small"
) -> pd.DataFrame:
    expected = expected or specification.digest(record["specification"])
    return tidy(rows_of(saved(record, directory, layout), "mine", expected, {}))


# ---- the table


def test_every_column_of_a_read_cell(tmp_path: Path) -> None:
    record = record_of(spec_of(study_of(tmp_path)), tmp_path)
    table = table_of(record, tmp_path)
    assert list(table) == list(MEASUREMENTS)
    assert len(table) == 5
    assert table["state"].tolist() == ["library-cold"] * 2 + ["warm"] * 3
    assert table["repeat"].tolist() == [0, 1, 0, 1, 2]
    expected = {
        "study": "mine",
        "site": "here",
        "layout": "small",
        "case": "slices",
        "kind": "read",
        "phase": "main",
        "round": 0,
        "stale": False,
        "asked_bytes": 6 * 8 * 5 * 2,
        "chunk_shape": "2x3x40",
        "filters": "shuffle, gzip 4",
        "generate_s": 0.5,
        "writer": "plain",
        "writer_node": "writer",
        "node": "reader",
        "probe_compute_s": 0.011,
        "probe_read_s": 0.002,
        "peak_memory_bytes": 20,
        "attempt": 2,
        # The interval includes the writer.
        "began_boottime_s": 1.0,
        "began_wall_s": 1001.0,
        "ended_boottime_s": 3.0,
        "ended_wall_s": 1003.0,
        "boot_id": "b",
    }
    for name, value in expected.items():
        assert table[name].tolist() == [value] * 5, name
    for name in OF_FILE:
        value = record["file"].get(name)
        assert table[name].isna().all() if value is None else table[name].tolist() == [value] * 5, name
    measured = {(row["state"], row["repeat"]): row for row in record["repeats"]}
    names = [
        name for name in record["repeats"][0] if name in MEASUREMENTS and name not in ("state", "repeat")
    ]
    assert {"time_s", "open_s", "requested_bytes", "device_bytes", "resident_before", "chunk_bytes"} <= set(
        names
    )
    for _, row in table.iterrows():
        of_record = measured[row["state"], row["repeat"]]
        assert {name: row[name] for name in names if name in of_record} == {
            name: of_record[name] for name in names if name in of_record
        }
    cold = table[table["state"] == "library-cold"]
    assert cold["requested_predicted_bytes"].tolist() == cold["requested_bytes"].tolist()
    assert table["requested_predicted_bytes"].isna().tolist() == [False] * 2 + [True] * 3
    written = ("create_s", "write_s", "flush_s", "fsync_s", "reference_s")
    assert table[list(written)].isna().all(axis=None)


def test_every_column_of_a_write_cell(tmp_path: Path) -> None:
    record = record_of(spec_of(study_of(tmp_path), "contiguous", "all", "c3"), tmp_path, environment={})
    table = table_of(record, tmp_path, layout="contiguous")
    assert list(table) == list(MEASUREMENTS)
    assert table["state"].tolist() == ["write"] * 2
    expected = {
        "kind": "write",
        "phase": "confirm",
        "round": 3,
        "layout": "contiguous",
        "chunk_shape": "contiguous",
        "filters": "",
        "writer": "",
        "writer_node": "reader",
        "attempt": 0,
        "began_boottime_s": 2.0,
        "chunks": 0,
    }
    for name, value in expected.items():
        assert table[name].tolist() == [value] * 2, name
    parts = table[["create_s", "write_s", "flush_s", "close_s", "fsync_s"]]
    assert parts.notna().all(axis=None)
    assert parts.sum(axis=1).tolist() == pytest.approx(table["time_s"].tolist())
    assert (table[["reference_s", "written_bytes", "requested_writes"]] > 0).all(axis=None)
    assert table[["open_s", "resident_before", "generate_s"]].isna().all(axis=None)


@pytest.mark.parametrize(("key", "value"), [("time_s", "soon"), ("repeat", None), ("open_s", [1, 2])])
def test_a_record_that_no_table_can_hold_is_named(tmp_path: Path, key: str, value: Any) -> None:
    records = [tmp_path / "here" / "small" / f"slices.r{number}.json" for number in range(3)]
    records[0].parent.mkdir(parents=True)
    record = record_of(spec_of(study_of(tmp_path)), tmp_path)
    for path in records:
        path.write_text(json.dumps(record))
    assert len(build(records[:1], "mine", {}, {})) == 5
    record["repeats"][1][key] = value
    records[1].write_text(json.dumps(record))
    with pytest.raises(DamagedRecord, match=f"^{records[1]} is not a record of Hyperslab "):
        build(records, "mine", {}, {})


def test_a_writer_on_another_node_or_before_a_boot_has_another_clock(tmp_path: Path) -> None:
    record = record_of(spec_of(study_of(tmp_path)), tmp_path)
    record["writer"]["began"] = {"boot_id": "w", "boottime_s": 500.0, "wall_s": 990.0}
    began = ["began_boottime_s", "began_wall_s"]
    assert table_of(record, tmp_path)[began].drop_duplicates().values.tolist() == [[2.0, 990.0]]
    # What it wrote before its own node was booted anew is not of this interval.
    record["writer"]["node"] = "reader"
    assert table_of(record, tmp_path)[began].drop_duplicates().values.tolist() == [[2.0, 1002.0]]


@pytest.mark.parametrize(
    ("began", "place", "overlap"),
    [
        (1002.5, {"identity": "one"}, True),
        (1003.0, {"identity": "one"}, False),
        (1002.5, {"identity": "other"}, False),
        (1002.5, {"identity": "one", "node_local": True}, False),
    ],
)
def test_cells_on_two_nodes_overlap_where_they_share_a_file_system(
    tmp_path: Path, began: float, place: dict[str, Any], overlap: bool
) -> None:
    here = record_of(spec_of(study_of(tmp_path)), tmp_path, root={"identity": "one"})
    there = {
        **here,
        "specification": spec_of(study_of(tmp_path), round_="r1"),
        "root": place,
        "writer": None,
        # A boot-time clock of its own.
        "began": {"boot_id": "c", "boottime_s": 1.0, "wall_s": began},
        "ended": {"boot_id": "c", "boottime_s": 3.0, "wall_s": began + 0.1},
    }
    table = build([saved(record, tmp_path) for record in (here, there)], "mine", {}, {})
    assert table.groupby("round")["overlap"].agg(["all", "any"]).values.tolist() == [[overlap] * 2] * 2


def test_a_record_in_the_folder_of_another_site_is_named_with_its_place(tmp_path: Path) -> None:
    path = saved(record_of(spec_of(study_of(tmp_path)), tmp_path), tmp_path)
    assert len(build([path], "mine", {}, {}))
    moved = path.parents[1].rename(tmp_path / "cells" / "laptop") / "small" / path.name
    with pytest.raises(DamagedRecord) as wrong:
        build([moved], "mine", {}, {})
    assert str(wrong.value).startswith(f"{moved} was measured at site 'here', and ")
    assert str(wrong.value).endswith(f": {path.parents[1]}")


def test_what_is_stale_says_nothing_of_machines_while_there_is_something_else(tmp_path: Path) -> None:
    record, paths = record_of(spec_of(study_of(tmp_path)), tmp_path), []
    # In the third nothing could be had, which it says.
    for site, number in (("here", 0), ("here", 1), ("here", 2), ("old", 0)):
        paths.append(tmp_path / site / "small" / f"slices.r{number}.json")
        paths[-1].parent.mkdir(parents=True, exist_ok=True)
        spec = spec_of(study_of(tmp_path), round_=f"r{number}")
        repeats = record["repeats"] if number < 2 else []
        paths[-1].write_text(json.dumps({**record, "site": site, "specification": spec, "repeats": repeats}))
    table = build(paths, "mine", {}, {})
    assert standing(paths, table.assign(stale=table["site"] == "old")) == paths[:3]
    assert standing(paths, table.assign(stale=True)) == paths[2:3]
    assert standing(paths[:2], table.assign(stale=True)) == paths[:2]


def test_types_are_the_same_whatever_was_measured(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    tables = [
        table_of(record_of(spec_of(study), tmp_path), tmp_path),
        table_of(record_of(spec_of(study, "contiguous", "all"), tmp_path), tmp_path, layout="contiguous"),
        tidy([]),
    ]
    for table in tables:
        assert list(table) == list(MEASUREMENTS)
        types = {name: str(kind) for name, kind in table.dtypes.items()}
        for name, kind in types.items():
            assert kind == TYPES[MEASUREMENTS[name].type], name
    together = pd.concat(tables[:2], ignore_index=True)
    together.to_parquet(tmp_path / "t.parquet", index=False)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "t.parquet"), together)


VALUES: list[Any] = [
    None, True, 3, -(2**63), 2**63, 0.5, float("nan"), "", "1.5", "größe", "\ud800", [1], {"a": 1},
]  # fmt: skip
# A column of each type -> those of these values that certainly become one.
SURE: dict[str, list[Any]] = {
    "node": [None, "", "1.5"],
    "round": [3, -(2**63)],
    "stale": [None, True],
    "time_s": [None, 3, -(2**63), 0.5, VALUES[6]],
}


@pytest.mark.parametrize("name", SURE)
def test_what_surely_becomes_a_table_becomes_one(name: str) -> None:
    assert [value for value in VALUES if is_sure({name: value})] == SURE[name]
    assert is_sure({"origin": [1, 2]}), "no column"
    row = {"site": "s", "case": "c", "layout": "l", "phase": "main", "round": 0, "state": "cold", "repeat": 0}
    table = tidy([{**row, name: value} for value in SURE[name]])
    assert len(table) == len(SURE[name])
    assert str(table[name].dtype) == TYPES[MEASUREMENTS[name].type]


def test_columns_are_described_with_their_units() -> None:
    for name, column in {**SUMMARY, **MEASUREMENTS}.items():
        assert column.meaning, name
        assert (column.unit == "s") == name.endswith("_s"), name
        assert (column.unit == "bytes") == name.endswith("_bytes"), name
        assert column.type == "number" or not column.unit, name


def test_the_memory_of_a_cell_is_described_as_what_is_summed() -> None:
    said = MEASUREMENTS["peak_memory_bytes"].meaning
    assert "workers, clients or ranks, summed" in said and "what made the test file" in said


def test_a_record_that_counts_no_files_is_of_one(tmp_path: Path) -> None:
    record = record_of(spec_of(study_of(tmp_path)), tmp_path)
    for name in ("files", "metadata_bytes"):
        record["file"].pop(name, None)
    table = table_of(record, tmp_path)
    assert (table["files"] == 1).all()
    assert table["metadata_bytes"].isna().all()


def test_times_that_no_summary_can_be_made_of_are_damage(tmp_path: Path) -> None:
    record = record_of(spec_of(study_of(tmp_path)), tmp_path)
    for changes, said in (
        ({"repeats": [{**record["repeats"][0], "time_s": None}]}, "NoneType"),
        ({"repeats": [{**record["repeats"][0], "time_s": 0.0}]}, r"repeat 0 \(warm\) has a time_s of 0.0"),
        ({"repeats": [{**record["repeats"][0], "time_s": float("inf")}]}, "has a time_s of inf"),
        ({"repeats": record["repeats"][:1] * 2}, r"repeat 0 \(warm\) is there twice"),
        ({"ended": {**record["ended"], "boottime_s": 0.5}}, "it ends before it begins"),
        ({"ended": {**record["ended"], "wall_s": float("nan")}}, "nobody knows when"),
    ):
        path = saved({**record, **changes}, tmp_path)
        with pytest.raises(DamagedRecord, match=said):
            rows_of(path, "mine", None, {})
    assert len(rows_of(saved(record, tmp_path), "mine", None, {})) == len(record["repeats"])


def test_rows_are_in_order(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    rows = []
    for layout, round_ in (("small", "r1"), ("contiguous", "r1"), ("small", "c0"), ("small", "r0")):
        path = saved(record_of(spec_of(study, layout, round_=round_), tmp_path), tmp_path, layout)
        rows += rows_of(path, "mine", None, {})
    keys = ["site", "case", "layout", "phase", "round", "state", "repeat"]
    found = [tuple(row) for row in tidy(rows)[keys].itertuples(index=False)]
    assert found == sorted(found)
    assert len(set(found)) == 4 * 5


def test_grid_values_of_a_layout(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    path = saved(record_of(spec_of(study, "2by25"), tmp_path), tmp_path, "2by25")
    for grid, expected in ((study.grid_values["2by25"], [2, 25]), ({"m": 7}, [7, None]), ({}, [None, None])):
        row = rows_of(path, "mine", None, grid)[0]
        assert [row["grid_m"], row["grid_n"]] == expected


# ---- stale: another specification, another protocol


def stale(record: Record, directory: Path, expected: str | None) -> bool:
    [value] = {row["stale"] for row in rows_of(saved(record, directory), "mine", expected, {})}
    return bool(value)


CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("seed", {"seed": 2}),
    ("repeats", {"repeats": {"cold": 2, "warm": 4}}),
    ("states", {"cases": {"slices": {"read": {"z": 5}, "states": ["cold"]}}}),
    ("extent", {"cases": {"slices": {"read": {"z": 6}, "states": ["cold", "warm"]}}}),
    ("dtype", {"dataset": {"axes": ["x", "y", "z"], "shape": [6, 8, 100], "dtype": "int16"}}),
    ("shape", {"dataset": {"axes": ["x", "y", "z"], "shape": [6, 8, 101]}}),
    ("chunks", {"layouts": {"small": {"chunks": [2, 3, 41], "filters": ["shuffle", {"gzip": 4}]}}}),
    ("filters", {"layouts": {"small": {"chunks": [2, 3, 40], "filters": ["shuffle", {"gzip": 5}]}}}),
    ("settings", {"settings": {"sieve_bytes": 4096}}),
]


@pytest.mark.parametrize(("what", "change"), CHANGES, ids=[what for what, _ in CHANGES])
def test_results_of_another_specification_are_stale(
    tmp_path: Path, what: str, change: dict[str, Any]
) -> None:
    record = record_of(spec_of(study_of(tmp_path)), tmp_path)
    today = specification.digest(spec_of(study_of(tmp_path, **change)))
    assert not stale(record, tmp_path, specification.digest(spec_of(study_of(tmp_path))))
    assert stale(record, tmp_path, today)


def test_results_that_the_study_has_no_more_are_stale(tmp_path: Path) -> None:
    assert stale(record_of(spec_of(study_of(tmp_path)), tmp_path), tmp_path, None)


def test_results_of_another_protocol_are_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = KINDS["read"].protocol
    record = record_of(spec_of(study_of(tmp_path)), tmp_path)
    monkeypatch.setattr(type(KINDS["read"]), "protocol", measured + 1)
    today = specification.digest(spec_of(study_of(tmp_path)))
    assert stale(record, tmp_path, today)
    # Those that came without a scheduler's notes tell by themselves what they were measured by.
    assert record["specification"]["protocol"] == measured


UNCHANGED: list[tuple[str, dict[str, Any]]] = [
    ("criteria", {"score": {"criteria": [{"case": "slices", "state": "cold", "below": 2}]}}),
    ("title", {"title": "another"}),
    ("rounds", {"rounds": 9}),
    ("confirming rounds", {"recommendation": {"confirm_rounds": 9, "size_bound": 2}}),
    ("a case's title", {"cases": {"slices": {"title": "S", "read": {"z": 5}, "states": ["cold", "warm"]}}}),
    ("another layout", {"layouts": {"b": {"chunks": [1, 1, 1]}, **yaml.safe_load(STUDY)["layouts"]}}),
    ("another case", {"cases": {**yaml.safe_load(STUDY)["cases"], "b": {"read": {"x": 1}}}}),
    ("repeats of another state", {"repeats": {"cold": 2, "warm": 3, "write": 5}}),
    ("a label", {"layouts": {"small": {**yaml.safe_load(STUDY)["layouts"]["small"], "label": "L"}}}),
    ("a default spelt out", {"settings": {"chunk_cache_w0": 0.75, "libver": "earliest"}}),
]


@pytest.mark.parametrize(("what", "change"), UNCHANGED, ids=[what for what, _ in UNCHANGED])
def test_what_does_not_bear_on_a_measurement_makes_none_stale(
    tmp_path: Path, what: str, change: dict[str, Any]
) -> None:
    before = specification.text(spec_of(study_of(tmp_path)))
    assert specification.text(spec_of(study_of(tmp_path, **change))) == before


def test_each_cell_and_round_has_a_specification_of_its_own(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    specs = [
        specification.digest(spec_of(study, layout, case, round_))
        for layout in study.layouts
        for case in study.cases
        for round_ in ("r0", "r1", "c0")
    ]
    assert len(set(specs)) == len(specs) == 4 * 2 * 3
    assert all(len(digest) == 16 and int(digest, 16) >= 0 for digest in specs)


def test_specifications_are_the_same_after_json_and_in_any_order(tmp_path: Path) -> None:
    spec = spec_of(study_of(tmp_path))
    turned: dict[str, Any] = dict(reversed(list(copy.deepcopy(spec).items())))
    turned["layout"] = dict(reversed(list(turned["layout"].items())))
    assert list(turned) != list(spec)
    assert specification.digest(turned) == specification.digest(spec)
    assert specification.digest(json.loads(specification.text(spec))) == specification.digest(spec)
    assert "\n" not in specification.text(spec)
    assert specification.text(spec).isascii()


def test_a_case_with_a_shape_of_its_own_has_its_own_file(tmp_path: Path) -> None:
    short = {"cases": {"short": {"write": "spectrum", "shape": {"z": 50}}}, "score": None}
    study = study_of(tmp_path, **short)
    assert spec_of(study, case="short")["dataset"]["shape"] == [6, 8, 50]
    file = specification.file_specification(study, "small", "short")
    assert file["dataset"]["shape"] == [6, 8, 50]
    assert set(file) == {"dataset", "layout"}
    assert "label" not in file["layout"]


# ---- what was measured where


def test_context_tells_platforms_apart_and_counts_their_cells(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    one = record_of(spec_of(study), tmp_path)
    same = {
        **one,
        "specification": spec_of(study, round_="r1"),
        "file_system": {"type": "ext4", "free_bytes": 9},
    }
    other = {**one, "specification": spec_of(study, round_="r2"), "versions": {"hdf5": "1"}}
    entries = context_of([saved(record, tmp_path) for record in (one, same, other)])
    assert [(entry["versions"]["hdf5"], entry["cells"]) for entry in entries] == [("2", 2), ("1", 1)]
    assert entries[0]["site"] == "here"
    assert "free_bytes" not in entries[0]["file_system"]
    assert entries[0]["settings"]["sieve_bytes"] == 65536
    assert entries[0]["settings"]["libver"][0] == "earliest"
