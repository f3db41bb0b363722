"""A controller that is away costs no job: those that the plug-in forgets are kept until somebody answers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperslab.planning import slurm, slurm_patches
from hyperslab.planning.slurm_patches import Patience


class Submits:
    """What the plug-in does, where squeue answers and where it does not."""

    run_uuid = "mine_1"

    def __init__(self) -> None:
        self.answers = True
        self.ended: list[Any] = []
        self.submitted: list[Any] = []
        self.reported: list[tuple[Any, str | None]] = []

    async def check_active_jobs(self, active_jobs: Sequence[Any]) -> AsyncIterator[Any]:
        for job in active_jobs if self.answers else ():
            if job in self.ended:
                self.report_job_success(job)
            else:
                yield job

    def report_job_success(self, job: Any) -> None:
        self.reported.append((job, None))

    def report_job_error(self, job: Any, msg: str | None = None) -> None:
        self.reported.append((job, msg))

    def run_jobs(self, jobs: Sequence[Any]) -> None:
        self.submitted += jobs


@pytest.fixture(autouse=True)
def pending(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the queue says of jobs that wait: comment -> reason."""
    found: dict[str, str] = {}

    def said(command: str, *options: str) -> str | None:
        assert command == "squeue" and "--states=all" in options
        waiting = [f"1|PENDING|{comment}|mine_1|{reason}" for comment, reason in found.items()]
        return "\n".join(["0|RUNNING||mine_1|None", *waiting])

    monkeypatch.setattr(slurm, "_said", said)
    return found


def submitted(number: int, *outputs: Path) -> SimpleNamespace:
    """A job as the executor knows it; the controller knows number 0 alone."""
    return SimpleNamespace(external_jobid=str(number), job=SimpleNamespace(output=list(outputs)))


def still_active(submits: Any, jobs: Sequence[Any]) -> list[Any]:
    """What the executor looks at again."""

    async def all_of() -> list[Any]:
        return [job async for job in submits.check_active_jobs(jobs)]

    return asyncio.run(all_of())


def test_no_job_is_forgotten_while_nobody_answers(capfd: pytest.CaptureFixture[str]) -> None:
    submits = Submits()
    Patience(submits).begin()
    jobs = [submitted(0, Path(name)) for name in ("one", "other")]
    assert still_active(submits, jobs) == jobs
    submits.answers = False
    assert still_active(submits, jobs) == still_active(submits, jobs) == jobs
    assert capfd.readouterr().err == "hyperslab: Slurm's controller does not answer; this run waits for it\n"
    submits.answers, submits.ended = True, jobs[:1]
    assert still_active(submits, jobs) == jobs[1:]
    assert capfd.readouterr().err == "hyperslab: Slurm's controller answers again\n"


def test_nothing_is_submitted_to_nobody(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    answers = iter([False, False, True])
    monkeypatch.setattr(slurm, "answers", lambda: next(answers))
    monkeypatch.setattr(slurm_patches, "RETRY_SECONDS", 0.0)
    submits = Submits()
    Patience(submits).begin()
    job = SimpleNamespace(output=["not-there"])
    submits.run_jobs([job])
    assert submits.submitted == [job]
    assert capfd.readouterr().err.count("does not answer") == 1


def test_why_a_batch_does_not_start_is_said_once(
    pending: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    submits = Submits()
    Patience(submits).begin()
    job = "rule_batch_my_site_wildcards_a_study_r0of2"
    for reason in ("Priority", "Nodes required for job are DOWN, DRAINED", "launch failed requeued held"):
        pending[job] = reason
        still_active(submits, [submitted(0)])
        still_active(submits, [submitted(0)])
    said = "hyperslab: a_study: batch r0of2 of my_site waits in the queue: "
    reasons = ("Nodes required for job are DOWN, DRAINED", "launch failed requeued held")
    assert capfd.readouterr().err.splitlines() == [said + reason for reason in reasons]


def test_what_other_jobs_are_called_ends_no_run(pending: dict[str, str]) -> None:
    pending["a comment\nof two lines"] = "Priority"
    submits = Submits()
    Patience(submits).begin()
    jobs = [submitted(0)]
    assert still_active(submits, jobs) == jobs


def test_why_a_job_that_measures_nothing_does_not_start_is_said_once(
    pending: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    submits = Submits()
    Patience(submits).begin()
    job = "rule_donor_wildcards_a_study_0a1b2c3d"
    pending[job] = "PartitionTimeLimit"
    for _ in range(2):
        still_active(submits, [submitted(0)])
    assert capfd.readouterr().err == f"hyperslab: job {job} waits in the queue: PartitionTimeLimit\n"


@pytest.mark.parametrize("ended", [True, False])
def test_a_job_that_the_controller_has_forgotten_is_not_waited_for(
    tmp_path: Path, ended: bool, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "answers", lambda: True)
    marker = tmp_path / "r0of1.json"
    # The marker of an earlier run, which the job is to replace.
    marker.touch()
    os.utime(marker, ns=(1, 1))
    submits, job = Submits(), submitted(7, marker)
    Patience(submits).begin()
    submits.run_jobs([job.job])
    if ended:
        os.utime(marker, ns=(2, 2))
    for _ in range(slurm_patches.MOST_LOOKS - 1):
        assert still_active(submits, [job, submitted(0)])[0] == job
    assert job not in still_active(submits, [job, submitted(0)])
    assert submits.reported == [(job, None if ended else "Slurm has forgotten job 7")]
    how = "has made" if ended else "has not made"
    said = f"hyperslab: Slurm has forgotten job 7; it {how} what it was to make\n"
    assert capfd.readouterr().err == said


def test_a_task_of_an_array_is_not_forgotten_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """To squeue's %A each task is another number, and without --array one line stands for all that wait."""
    fields = {"%i": "4_1", "%A": "5", "%T": "RUNNING", "%k": "", "%j": "mine_1", "%r": "None"}

    def said(command: str, *options: str) -> str:
        assert command == "squeue" and "--array" in options
        (line,) = (each.removeprefix("--format=") for each in options if each.startswith("--format="))
        return "|".join(fields[field] for field in line.split("|"))

    monkeypatch.setattr(slurm, "_said", said)
    submits = Submits()
    Patience(submits).begin()
    job = SimpleNamespace(external_jobid="4_1", job=SimpleNamespace(output=[]))
    for _ in range(slurm_patches.MOST_LOOKS + 1):
        assert still_active(submits, [job]) == [job]
