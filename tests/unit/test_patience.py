"""A controller that is away costs no job: those that the plug-in forgets are kept until somebody answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from hyperslab.planning import slurm, slurm_patches
from hyperslab.planning.slurm_patches import Patience


class Submits:
    """What the plug-in does, where squeue answers and where it does not."""

    def __init__(self) -> None:
        self.answers = True
        self.ended: list[Any] = []
        self.submitted: list[Any] = []

    async def check_active_jobs(self, active_jobs: Sequence[Any]) -> AsyncIterator[Any]:
        for job in active_jobs if self.answers else ():
            if job in self.ended:
                self.report_job_success(job)
            else:
                yield job

    def report_job_success(self, job: Any) -> None:
        """Nothing more to do."""

    def report_job_error(self, job: Any, msg: str | None = None) -> None:
        """Nothing more to do."""

    def run_jobs(self, jobs: Sequence[Any]) -> None:
        self.submitted += jobs


def still_active(submits: Any, jobs: Sequence[Any]) -> list[Any]:
    """What the executor looks at again."""

    async def all_of() -> list[Any]:
        return [job async for job in submits.check_active_jobs(jobs)]

    return asyncio.run(all_of())


def test_no_job_is_forgotten_while_nobody_answers(capfd: pytest.CaptureFixture[str]) -> None:
    submits = Submits()
    Patience(submits).begin()
    jobs = [SimpleNamespace(number=number) for number in range(2)]
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
    submits.run_jobs(["job"])
    assert submits.submitted == ["job"]
    assert capfd.readouterr().err.count("does not answer") == 1
