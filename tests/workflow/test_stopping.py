"""Whoever stops a run stops all of it, confirming rounds included: no other cell begins, no lock stays."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from adaptive_studies import study
from clones import LONGEST_SECONDS, TINY, Clone, Kept, make_clone
from faulty import catch, half_records, left_behind, snapshot, wait_for
from test_faults import with_sites

pytestmark = [pytest.mark.faults, pytest.mark.slow]

# Cells as small as they get, so that starting one takes as long as measuring it.
SMALL = {**{key: TINY[key] for key in ("dataset", "layouts", "cases", "repeats")}, "rounds": 12}
# After a signal the shell of a job that was under way may still make its log.
SECONDS_UNDER_WAY = 0.05


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> tuple[Clone, Kept]:
    top = tmp_path_factory.mktemp("stopping")
    made = make_clone(top / "clone")
    return made, Kept(made, top / "kept")


@pytest.fixture
def clone(fresh: tuple[Clone, Kept], tmp_path: Path) -> Iterator[Clone]:
    """A clone with the study `stopped`, at a site of its own, and without results; it is put back."""
    made, kept = fresh
    with_sites(made, "stopped", {"here": tmp_path / "root"}, **SMALL)
    yield made
    kept.put_back()


def begun_after(clone: Clone, moment: float) -> list[str]:
    """The cells whose logs were made after a moment (s since 1970)."""
    logs = (clone.directory / "results/stopped/logs/here").rglob("*.log")
    return [log.name for log in logs if log.stat().st_ctime > moment + SECONDS_UNDER_WAY]


def count(results: Path, wanted: int) -> bool:
    """Whether there are so many records."""
    # Nothing of them is read: this is asked hundreds of times a second, beside the run.
    return len(list(results.glob("*/cells/*/*/*.json"))) >= wanted


def locks(clone: Clone) -> list[Path]:
    return list((clone.directory / ".snakemake/locks").glob("*.lock"))


def inside(clone: Clone, rule: str) -> Path:
    """The log of the run inside a job of this rule."""
    return clone.directory / f"results/stopped/logs/{rule}.log"


def await_understood(clone: Clone, rule: str) -> None:
    """Wait until such a run has said that it was told to stop: a signal passes through a command to it."""
    said = "Will exit after finishing currently running jobs"
    wait_for(lambda: said in inside(clone, rule).read_text(encoding="utf-8"), "word of the signal")


def test_no_cell_begins_after_sigterm(clone: Clone, tmp_path: Path) -> None:
    results, late = clone.directory / "results", []
    for wanted in (3, 7, 11):
        with clone.running("results/stopped/summary.csv") as process:
            # A record has just come, so that the next cell is about to begin.
            wait_for(partial(count, results, wanted), "cells", pause=0.001)
            process.send_signal(signal.SIGTERM)
            moment = time.time()
        assert process.returncode == 1
        late += begun_after(clone, moment)
        assert not locks(clone)
    # A busy machine may hold up the shell of a job that was under way; what begins cells does so each time.
    assert len(late) <= 1
    assert not half_records(results) + left_behind(tmp_path / "root")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_run_that_is_stopped_while_it_plans_leaves_no_lock(clone: Clone, number: signal.Signals) -> None:
    with clone.running("results/stopped/summary.csv") as process:
        # Between the lock and the first job nobody else heeds signals.
        wait_for(lambda: locks(clone), "the lock", pause=0.0005)
        process.send_signal(number)
    assert process.returncode != 0
    assert not locks(clone)
    assert not snapshot(clone.directory / "results")


def test_who_stops_a_run_stops_its_confirming_rounds(clone: Clone, tmp_path: Path) -> None:
    root = tmp_path / "root"
    confirming = {"rounds": 1, "recommendation": {"confirm_rounds": 20}}
    with_sites(clone, "stopped", {"here": root}, **SMALL | confirming)
    clone.build("results/stopped/recommendation.json")
    records = clone.directory / "results/stopped/cells/here"

    def confirmed() -> int:
        return len(list(records.glob("*/*.c*.json")))

    def more_than(number: int) -> bool:
        return confirmed() > number

    for number in (signal.SIGTERM, signal.SIGINT):
        before = confirmed()
        inside(clone, "confirm").unlink(missing_ok=True)
        with clone.running("results/stopped/confirmation.json") as process:
            wait_for(partial(more_than, before), "a confirming round")
            caught = catch("measure", root)
            # To the run alone: a terminal would tell all of them.
            os.kill(process.pid, number)
            await_understood(clone, "confirm")
            caught.send(signal.SIGCONT)
            measured = confirmed()
        assert process.returncode != 0
        # The one that was under way.
        assert confirmed() <= measured + 1
        assert not left_behind(root) + half_records(clone.directory / "results")
        assert not (clone.directory / "results/stopped/confirmation.json").exists()
        assert not locks(clone)


def test_who_stops_a_run_stops_its_added_rounds(clone: Clone, tmp_path: Path) -> None:
    root, cells = tmp_path / "root", clone.directory / "results/stopped/cells/here"
    # Twins cannot be told apart, so that rounds are added to the last.
    without_writes = {"cases": {"slices": TINY["cases"]["slices"]}, "sites": ["here"]}
    with_sites(clone, "stopped", {"here": root}, **study({"first": 3, "most": 40}) | without_writes)
    with clone.running("results/stopped/summary.csv") as process:
        wait_for(lambda: list(cells.glob("*/*.r3.json")), "an added round")
        caught = catch("measure", root)
        os.kill(process.pid, signal.SIGTERM)
        await_understood(clone, "add-rounds")
        caught.send(signal.SIGCONT)
        measured = len(list(cells.glob("*/*.json")))
    assert process.returncode != 0
    assert len(list(cells.glob("*/*.json"))) <= measured + 1
    assert not left_behind(root) + half_records(clone.directory / "results")
    assert not locks(clone)


def test_a_run_that_ends_takes_no_lock_of_another(clone: Clone, tmp_path: Path) -> None:
    one = {"sites": ["here"], "rounds": 1, "layouts": {"4x4x64": {"chunks": [4, 4, 64]}}}
    clone.write_study("other", {**TINY, **one})
    clone.build("results/other/summary.csv")
    (clone.directory / "results/other/summary.csv").unlink()
    with clone.running("results/stopped/summary.csv") as process:
        caught = catch("measure", tmp_path / "root")
        try:
            clone.build("--config", "measure=false", "--", "results/other/summary.csv")
            # A run that is not refused would wait for the cell that was caught.
            second = clone.run("results/stopped/summary.csv", timeout=120)
        finally:
            process.terminate()
            caught.send(signal.SIGCONT)
    assert second.returncode == 1
    assert "cannot be locked" in second.stderr


def test_a_terminal_that_is_closed_stops_a_run_as_ctrl_c_does(clone: Clone, tmp_path: Path) -> None:
    # Started as by a shell, which all other runs that are stopped are not.
    process = subprocess.Popen(
        clone.command("results/stopped/summary.csv"),
        cwd=clone.directory,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        caught = catch("measure", tmp_path / "root")
        os.killpg(process.pid, signal.SIGHUP)
        caught.send(signal.SIGCONT)
        assert process.wait(LONGEST_SECONDS) != 0
    finally:
        process.kill()
        process.wait()
    assert not left_behind(tmp_path / "root") + half_records(clone.directory / "results")
    assert not locks(clone)
