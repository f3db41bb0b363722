"""Formats from outside: two lines register one, and every case that its flags allow goes through it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from outside_formats import planes_of, registered
from process_tree import alive, below
from samples import prepared, read_cell, values_of, write_cell
from studies import load, mistake, with_case
from test_workers import wait_until

from hyperslab import cases, formats
from hyperslab.cases.context import Context, Outcome
from hyperslab.planning.estimates import estimated_seconds
from hyperslab.planning.site_checks import largest_bytes, largest_files
from hyperslab.records import read_record
from hyperslab.results.tables import rows_of, tidy
from hyperslab.specifications import CaseSpecification, Specification
from hyperslab.studies.specification import text

pytestmark = pytest.mark.usefixtures("own_locks", "outside")
Spec = Specification
SHAPE, SECONDS = (12, 10, 500), 60
FILES = {"planes": 3, "served": 3}
STATES = {"cold": 3, "warm": 3, "session": 4}
STRATEGIES: dict[str, Any] = {
    "whole": None, "chunk": None, "spectrum": None, "spectra-block": None, "box": {"z": 120, "y": "chunk"},
}  # fmt: skip


@pytest.fixture
def outside(own_locks: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Both formats, in this process and in those that it starts."""
    registered(monkeypatch, tmp_path)


@pytest.fixture
def disk_root(disk: Path) -> Iterator[Path]:
    with prepared(disk) as root:
        yield root


def outcome_of(spec: Spec, directory: Path, memory_resident: bool = False) -> Outcome:
    """The outcome of a cell whose artifact is made and, where it is a server, started for it."""
    format_ = formats.load(spec["layout"]["format"])
    context = Context(spec, format_, str(directory / "data.planes"), values_of(spec), memory_resident)
    if spec["case"]["kind"] != "write":
        format_.generate(context.path, spec, values_of(spec))
    context.artifact.start(spec["layout"])
    try:
        return cases.load(spec["case"]["kind"])(context)
    finally:
        context.artifact.stop()


def reduce_cell(spec: Spec, workers: int) -> Spec:
    """What measure is told of a variance of 50 planes along z by processes that share y."""
    case: CaseSpecification = {
        "name": f"v-{workers}p", "family": "v", "kind": "reduce", "planes": "z", "split": "y",
        "extent": [*SHAPE[:-1], 50], "by": "processes", "workers": workers, "states": list(STATES),
    }  # fmt: skip
    return {**spec, "case": case, "repeats": STATES, "study": "mine", "seed": 1, "round": "r0", "protocol": 1}


# ---- cases


@pytest.mark.parametrize("format_", FILES)
def test_selections_are_read_in_every_state_and_counted(disk_root: Path, format_: str) -> None:
    outcome = outcome_of(read_cell(planes_of(SHAPE, FILES[format_], format_), (5, 6, 100), STATES), disk_root)
    assert outcome.skipped == {}
    assert {row["state"] for row in outcome.repeats} == set(STATES)
    cold = [row for row in outcome.repeats if row["state"] == "cold"]
    # The server's own process has read the files; nobody else has.
    assert [row["requested_bytes"] for row in cold] == [row["requested_predicted_bytes"] for row in cold]
    assert all(row["device_bytes"] >= row["chunk_bytes"] > 0 for row in cold)
    assert all(row["requested_reads"] == row["chunks_touched"] for row in cold)
    assert outcome.report["files"] == 4 + 1


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_array_is_written_by_every_strategy(disk_root: Path, strategy: str) -> None:
    spec = write_cell(planes_of(SHAPE, 5), strategy, 2, STRATEGIES[strategy])
    outcome = outcome_of(spec, disk_root)
    assert [row["written_bytes"] for row in outcome.repeats] == [
        outcome.report["file_bytes"] for _ in outcome.repeats
    ]
    assert not list(disk_root.glob("data*"))


@pytest.mark.parametrize("format_", FILES)
@pytest.mark.parametrize("workers", [1, 2])
def test_processes_reduce_and_are_counted(disk_root: Path, workers: int, format_: str) -> None:
    outcome = outcome_of(reduce_cell(planes_of(SHAPE, FILES[format_], format_), workers), disk_root)
    assert outcome.skipped == {}
    cold = [row for row in outcome.repeats if row["state"] == "cold"]
    assert [row["requested_bytes"] for row in cold] == [row["requested_predicted_bytes"] for row in cold]
    # To open it, the workers have read the description: a page of about thirty.
    assert all(row["resident_before"] < 0.1 for row in cold)


def test_a_format_need_not_derive_from_the_seam(disk_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def alike(given: Any) -> Any:
        return SimpleNamespace(**{name: getattr(given, name) for name in dir(given) if name[0] != "_"})

    planes = alike(formats.load("planes"))
    opened, created = planes.open, planes.create
    planes.open = lambda path, spec: alike(opened(path, spec))
    planes.create = lambda path, spec: alike(created(path, spec))
    monkeypatch.setattr("fake_formats.planes.FORMAT", planes)
    read = outcome_of(read_cell(planes_of(SHAPE, 3), (5, 6, 100), STATES), disk_root)
    assert {row["state"] for row in read.repeats} == set(STATES)
    (written,) = outcome_of(write_cell(planes_of(SHAPE, 5), "whole", 1), disk_root).repeats
    assert written["written_bytes"] > 0


# ---- what flags exclude, in one line before anything runs

EXCLUDED: dict[str, tuple[dict[str, Any], str]] = {
    "objects": ({"objects": "x"}, "Planes does not hold many arrays in a file"),
    "ranks": ({"reduce": {"z": 25}, "ranks": [2]}, "MPI ranks cannot open Planes together"),
    "type in memory": (
        {"read": {"z": 25}, "memory_dtype": "float64"}, "Planes is read in the type that is stored"
    ),
    "strides": (
        {"read": {"z": {"extent": 40, "step": 4, "block": 1}}},
        "Planes cannot be asked for every so many elements",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", EXCLUDED)
def test_what_the_format_cannot_do_is_refused_in_one_line(tmp_path: Path, case: str) -> None:
    given, said = EXCLUDED[case]
    content = with_case(**given, layouts=["mine"])
    content["layouts"]["mine"] = {"format": "planes", "planes": 4}
    assert said in mistake(tmp_path, content)


def test_parts_of_a_piece_are_refused_where_pieces_are_written_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fake_formats.planes_layout import PlanesLayout

    from hyperslab.layouts.layout import Abilities

    content = with_case(write="spectrum", layouts=["mine"])
    content["layouts"]["mine"] = {"format": "planes", "planes": 4}
    content["cases"]["write"]["layouts"] = ["mine"]
    assert load(tmp_path, content).cases["team"]["strategy"] == "spectrum"
    monkeypatch.setattr(PlanesLayout, "abilities", Abilities(partial_writes=False))
    assert "Planes is written in whole pieces of [4, 30, 400] only" in mistake(tmp_path, content)
    content["cases"]["team"]["write"] = "whole"
    assert load(tmp_path, content).cases["write"]["strategy"] == "chunk"


def test_a_setting_of_another_format_is_refused(tmp_path: Path) -> None:
    content = with_case(read={"z": 25})
    content["layouts"]["mine"] = {"format": "planes", "filters": ["gzip"]}
    assert "layouts.mine.filters" in mistake(tmp_path, content)
    content["layouts"]["mine"] = {"format": "plains"}
    assert "'planes'" in mistake(tmp_path, content)


# ---- planner and tables


def test_a_study_of_it_is_planned(tmp_path: Path) -> None:
    content = with_case(reduce={"z": 25}, processes=[1, 2])
    content["layouts"]["mine"] = {"format": "planes", "planes": 4}
    study = load(tmp_path, content)
    cells = [cell for cell in study.cells("disk", "r0") if cell[0] == "mine"]
    assert {case for _, case, _ in cells} == {"slices", "write", "team-1p", "team-2p"}
    for layout, case, round_ in cells:
        assert 0 < estimated_seconds(study, layout, case) < 60
        assert set(json.loads(study.cell_text(layout, case, round_))["layout"]) == {
            "format", "planes_of", "order",
        }  # fmt: skip
    assert (
        study.report_meta["layouts"]["mine"]["words"] == "chunks of 4x30x400 (x, y, z; 93.75 KiB), no filters"
    )
    del content["layouts"]["contiguous"], content["layouts"]["auto"], content["layouts"]["4x4x64"]
    content["grids"] = []
    alone = load(tmp_path, content)
    assert largest_files(alone) == 5 + 2
    assert largest_bytes(alone) >= 20 * 30 * 400 * 2


# ---- servers


def measure_command(program: str, spec: Spec, artifact: Path, *more: str) -> list[str]:
    start = [sys.executable, "-m", f"hyperslab.{program}", "--specification", text(spec)]
    return [*start, "--artifact", str(artifact), *more]


def served(root: Path, record: Path, **repeats: int) -> tuple[list[str], list[str]]:
    """Commands that write and measure a cell of the format with a server."""
    spec = read_cell(planes_of(SHAPE, 2, "served"), (5, 6, 100), repeats)
    artifact = root / "study" / "layout" / "box.r0"
    more = ("--record", str(record), "--site", "here")
    return measure_command("generate", spec, artifact), measure_command("measure", spec, artifact, *more)


def test_records_of_a_server_make_a_table(disk_root: Path, tmp_path: Path) -> None:
    record = tmp_path / "cells" / "mine" / "box.r0.json"
    for words in served(disk_root, record, **STATES):
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS)
        assert (done.returncode, done.stderr) == (0, "")
    found: Any = read_record(record)
    assert "h5py" not in found["versions"]
    assert found["writer"]["writer"] == "file by file"
    table = tidy(rows_of(record, "mine", None, {}))
    assert (table["chunks"] == 6).all()
    assert (table["filters"] == "").all()
    cold = table[table["state"] == "cold"]
    pd.testing.assert_series_equal(
        cold["requested_bytes"], cold["requested_predicted_bytes"], check_names=False
    )
    assert not list((disk_root / "study").rglob("*.raw"))


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_server_ends_with_a_cell_that_is_killed(disk_root: Path, tmp_path: Path, how: int) -> None:
    write, measure = served(disk_root, tmp_path / "box.r0.json", session=10**6)
    subprocess.run(write, check=True, timeout=SECONDS)
    cell = subprocess.Popen(measure)
    try:
        assert wait_until(lambda: len(below(cell.pid)) == 2)
        server, worker = below(cell.pid)
        os.kill(cell.pid, how)
        assert cell.wait(SECONDS) == (-how if how == signal.SIGKILL else 128 + how)
        assert wait_until(lambda: not alive(server) and not alive(worker))
    finally:
        cell.kill()
        cell.wait()
