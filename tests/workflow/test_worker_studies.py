"""Cases of several workers through the whole workflow: processes anywhere, MPI ranks where MPI is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from clones import Clone, make_clone
from own_environments import ranks_environment

from hyperslab.records import read_record

REPORT = "results/team/report.html"
STUDY: dict[str, Any] = {
    "title": "A tiny team",
    "dataset": {"axes": ["x", "y", "z"], "shape": [9, 8, 512], "dtype": "uint16"},
    "layouts": {"4x4x64": {"chunks": [4, 4, 64], "filters": [{"gzip": 1}]}},
    "cases": {"slices": {"title": "variance of 40 slices", "reduce": {"z": 40}, "processes": [1, 2, 3]}},
    "sites": ["disk"],
    "rounds": 1,
    "repeats": {"cold": 3, "warm": 4},
    "recommendation": {"confirm_rounds": 0, "mix": {"slices-1p": 1}},
}
# With a count of ranks among its cells.
WITH_RANKS: dict[str, Any] = {
    **STUDY,
    "layouts": {"contiguous": None},
    "cases": {"slices": {**STUDY["cases"]["slices"], "processes": [1], "ranks": [1, 2]}},
}
# What the first access is called on a disk and in memory.
COLD = {"cold", "library-cold"}
NO_MPI = "there is no MPI here: no mpicc (Debian, Ubuntu: apt-get install mpich)"


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A clone without MPI whose study `team` was measured up to its report, and `ranks` up to its table."""
    clone = make_clone(tmp_path_factory.mktemp("team") / "clone")
    (clone.directory / ".venv-mpi").mkdir()
    (clone.directory / ".venv-mpi" / "made").write_text(NO_MPI + "\n", encoding="utf-8")
    clone.write_study("team", STUDY)
    clone.write_study("ranks", WITH_RANKS)
    clone.build("--", REPORT, "results/ranks/measurements.parquet")
    return clone


def table_of(clone: Clone, study: str = "team") -> pd.DataFrame:
    return pd.read_parquet(clone.directory / "results" / study / "measurements.parquet")


def test_each_count_has_its_rows_and_its_key_in_the_summary(processes: Clone) -> None:
    table = table_of(processes)
    assert len(table) == 3 * (3 + 4)
    assert set(zip(table["case"], table["processes"], strict=True)) == {
        ("slices-1p", 1), ("slices-2p", 2), ("slices-3p", 3),
    }  # fmt: skip
    summary = pd.read_csv(processes.directory / "results/team/summary.csv")
    assert len(summary) == 3 * 2
    assert not summary.duplicated(["site", "layout", "case", "state", "round"]).any()
    assert not table["overlap"].any()


def test_every_count_reads_the_same_planes_and_what_arithmetic_says(processes: Clone) -> None:
    table = table_of(processes)
    alone = table_of(processes, "ranks")
    for measured in (table, alone):
        cold = measured[measured["state"].isin(COLD)]
        assert len(cold) == 3 * measured["processes"].nunique()
        assert (cold["requested_bytes"] == cold["requested_predicted_bytes"]).all()
    # 9 rows in chunks of 4: three workers of 3 rows each cut the first chunk row and the second.
    shared = table.groupby("processes")["chunks_shared"].max()
    assert shared[1] == 0 and shared[3] > shared[2] == 0
    asked = table[table["state"].isin(COLD)].groupby(["layout", "round", "repeat"])["chunk_bytes"].nunique()
    assert (asked == 1).all()


def test_the_report_shows_time_and_speed_up(processes: Clone) -> None:
    page = (processes.directory / REPORT).read_text(encoding="utf-8")
    assert "variance of 40 slices" in page and "Efficiency" in page
    assert "speedup-slices" in {
        path.stem for path in (processes.directory / "results/team/figures/disk").glob("*.svg")
    }
    assert "has not been drawn" not in page


def test_another_count_adds_its_own_cells_alone(processes: Clone) -> None:
    study = {**STUDY, "cases": {"slices": {**STUDY["cases"]["slices"], "processes": [1, 2, 3, 4]}}}
    processes.write_study("team", study)
    try:
        planned = processes.planned("--", REPORT)
        assert planned["measure_disk"] == 1
    finally:
        processes.write_study("team", STUDY)


# ---- ranks

PARALLEL: dict[str, Any] = {
    "title": "Tiny parallel access",
    "dataset": {"axes": ["dataset", "element"], "shape": [3, 8192], "dtype": "uint32"},
    "layouts": {"contiguous": None},
    "cases": {
        "alone": {"parallel": {"datasets": 3, "bytes": 16384, "transfer": 4096}, "ranks": [2]},
        "together": {
            "parallel": {
                "apis": ["hdf5", "mpiio"], "datasets": 2, "bytes": 16384, "transfer": 16384,
                "interleaved": True, "block": 1024, "collective": True,
            },
            "ranks": [2],
        },
    },
    "sites": ["disk"],
    "rounds": 1,
    "repeats": {"cold": 2, "warm": 2, "write": 2},
    "recommendation": {"confirm_rounds": 0},
}  # fmt: skip


def test_a_case_of_ranks_is_known_by_what_it_is(processes: Clone) -> None:
    selection = {"read": {"z": 4}, "states": ["cold"]}
    # Named like one of ranks, and just as one of ranks in another study.
    cases = {
        "mine-4r": selection,
        "slices-2r": selection,
        "slices": {**STUDY["cases"]["slices"], "ranks": [1]},
    }
    processes.write_study("alike", {**WITH_RANKS, "cases": cases})
    processes.write_study("again", WITH_RANKS)
    planned = processes.planned("--", "results/again/report.html", "results/alike/report.html")
    assert planned["measure_mpi_disk@again"] == 2
    assert planned["measure_mpi_disk@alike"] == 1
    # One count of processes in one study, and in the other three counts beside two selections.
    assert planned["measure_disk"] == 1 + 3 + 2


@pytest.mark.mpi
@pytest.mark.usefixtures("any_launcher")
def test_ranks_reduce_and_move_the_same_bytes(tmp_path: Path, require: Callable[[str | None], None]) -> None:
    environment = ranks_environment(require)
    clone = make_clone(tmp_path / "clone")
    clone.write_study("ranks", WITH_RANKS)
    clone.write_study("parallel", PARALLEL)
    (clone.directory / ".venv-mpi").symlink_to(environment)
    clone.build("--", "results/ranks/measurements.parquet", "results/parallel/report.html")
    table = table_of(clone, "ranks")
    assert {*table["case"]} == {"slices-1p", "slices-1r", "slices-2r"}
    assert (table.groupby("case").size() == 7).all()
    moved = table_of(clone, "parallel")
    apis = ("hdf5", "mpiio", "posix", "file-per-process")
    wanted = {f"alone-{api}-2r" for api in apis}
    assert {*moved["case"]} == wanted | {"together-hdf5-2r", "together-mpiio-2r"}
    assert (moved.groupby(["case", "state"]).size() == 2).all()
    assert {*moved["state"]} - COLD == {"write", "warm"}
    assert (
        moved["asked_bytes"] == moved["processes"] * 16384 * moved["chunks"].fillna(3).replace(0, 3)
    ).any()
    assert (moved[moved["state"] == "cold"]["device_bytes"] > 0).all()
    assert (moved[moved["state"].isin(COLD)]["requested_bytes"] >= 2 * 16384).all()
    page = (clone.directory / "results/parallel/report.html").read_text(encoding="utf-8")
    assert "Rates of parallel access" in page and "MB/s" in page
    assert not list((clone.directory / "testfiles").rglob("*.h5*"))


def test_without_mpi_the_cells_of_ranks_say_so_and_all_else_is_measured(processes: Clone) -> None:
    assert {*table_of(processes, "ranks")["case"]} == {"slices-1p"}
    results = processes.directory / "results" / "ranks"
    record = read_record(results / "cells/disk/contiguous/slices-2r.r0.json")
    assert record["skipped"] == {"cold": NO_MPI, "warm": NO_MPI}
