"""A run says how far it is and about how long it takes, and shows no line of a job that goes well."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from hyperslab.planning import progress, snakemake_patches
from hyperslab.planning.progress import Progress, about, coarse_duration


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LOOK_SECONDS", 0.01)


def records(tmp_path: Path, number: int) -> list[str]:
    return [str(tmp_path / f"{name}.json") for name in range(number)]


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What was printed, when something is."""
    for _ in range(500):
        if printed := capsys.readouterr().err.splitlines():
            return printed
        time.sleep(0.01)
    return []


def test_each_change_is_one_line_with_an_estimate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = records(tmp_path, 4)
    Path(wanted[0]).touch()
    running = Progress("tiny", wanted, cells_later=6)
    running.start()
    assert not capsys.readouterr().err, "nothing has been measured"
    # One in 20 s, so that two more and six later take 160 s, and the pages 12 s.
    monkeypatch.setattr(running, "_began", time.monotonic() - 20)
    Path(wanted[1]).touch()
    assert said(capsys) == ["hyperslab: tiny: 2 of 4 cells, about 3 min left"]
    for name in wanted[2:]:
        Path(name).touch()
    running.join(10)
    assert not running.is_alive()
    assert "tiny: 4 of 4 cells" in said(capsys)[-1]


def test_a_record_that_is_made_again_counts_when_it_is_new(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = records(tmp_path, 2)
    for name in wanted:
        Path(name).touch()
        os.utime(name, (1, 1))
    running = Progress("tiny", wanted, forced={wanted[1]})
    running.start()
    time.sleep(0.1)
    assert running.is_alive()
    os.utime(wanted[1])
    running.join(10)
    assert not running.is_alive()
    assert "tiny: 2 of 2 cells" in said(capsys)[-1]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "5 s"), (42, "40 s"), (99, "100 s"), (101, "2 min"), (3500, "58 min"), (4800, "1 h 20 min")],
)
def test_a_duration_is_what_a_person_says(seconds: float, text: str) -> None:
    assert coarse_duration(seconds) == text
    assert about(seconds) == f"about {text}"


@pytest.mark.parametrize(("verbose", "counted"), [(False, False), (False, True), (True, False)])
def test_jobs_that_go_well_are_not_shown_and_failures_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, verbose: bool, counted: bool
) -> None:
    # Not by whoever only collects tests: it takes a second.
    from snakemake.logging import logger

    shown: list[str] = []
    terminal, kept = logging.Handler(), logging.FileHandler(tmp_path / "run.log")
    terminal.emit = lambda record: shown.append(record.getMessage())  # type: ignore[method-assign]
    monkeypatch.setattr(logger, "handlers", [terminal, kept])
    monkeypatch.setattr(logger, "level", logging.INFO)
    logger.manager._clear_cache()
    workflow = SimpleNamespace(output_settings=SimpleNamespace(verbose=verbose))
    snakemake_patches.show_few_lines(workflow, counted)
    logger.info("Select jobs to execute...")
    for event in snakemake_patches.OF_SINGLE_JOBS:
        logger.info(event, extra={"event": event})
    logger.error("a job failed", extra={"event": "job_error"})
    kept.close()
    everything = ["Select jobs to execute...", *snakemake_patches.OF_SINGLE_JOBS, "a job failed"]
    few = [snakemake_patches.PROGRESS, "a job failed"] if counted else ["a job failed"]
    assert shown == (everything if verbose else few)
    assert (tmp_path / "run.log").read_text().splitlines() == everything
