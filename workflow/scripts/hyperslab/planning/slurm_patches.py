"""All that touches the inside of Snakemake's plug-in for Slurm; snakemake_places.py lists the places.

The plug-in asks the queue how its jobs are. Where nobody answers, it forgets the jobs for good: here they are
kept until somebody does. It asks sacct where the program is installed: here only where it answers.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from glob import glob
from typing import Any

from hyperslab.planning import slurm, snakemake_places
from hyperslab.planning.snakemake_places import PLUGIN, Touch
from hyperslab.records import written_at

# What the jobs of a run are named, for the runs inside it.
OUTER_VARIABLE = "HYPERSLAB_JOBS"
# Between two looks at the markers of batches and at what jobs print, which ask nothing of Slurm.
LOOK_SECONDS = 1.0
# Between two looks at whether there is anything left to wait for.
REST_SECONDS = 0.1
# So long after its marker or its last words a job takes to end, and Slurm is asked this often meanwhile.
ENDING_SECONDS = 20.0
SOON_SECONDS = 2.0
# Between two attempts to reach a controller that is away.
RETRY_SECONDS = 5.0
# A job that so many looks at the queue in a row do not find is not there any more.
MOST_LOOKS = 3

# What says of a job, and Slurm's word for its end, what there is to say ("" for nothing), and whether another
# attempt may do better.
Judge = Callable[[Any, str], tuple[str, bool]]


def executor(workflow: Any) -> Any:
    """Return what submits the jobs of the run of `workflow`; None before there is anything to submit."""
    return getattr(workflow.scheduler, "_executor", None)


def job_name(workflow: Any) -> str:
    """Return the name of all Slurm jobs of the run of `workflow`; "" where it submits none."""
    return str(getattr(executor(workflow), "run_uuid", ""))


# What an executor has only when it was made, and what for.
OF_EXECUTORS = {
    "run_uuid": "name its jobs",
    "_fallback_account_arg": "do without an account",
    "next_seconds_between_status_checks": "see at once that a batch has ended",
    "active_jobs": "see at once that a job has ended without its marker",
    "wait": "see at once that a batch has ended",
}


def begin(workflow: Any, name: str, markers: str, judge: Judge) -> None:
    """Patch the executor of `workflow` from now on.

    The names of its jobs begin with `name`, or with that of the jobs around this run; files like `markers`
    say that a batch has ended, and `judge` what to make of a job that failed. Raises ConfigurationError where
    the executor lacks what is patched.
    """
    submits = executor(workflow)
    for attribute, use in OF_EXECUTORS.items():
        if not hasattr(submits, attribute):
            place = f"{type(submits).__module__}:{type(submits).__name__}.{attribute}"
            raise snakemake_places.lacking(Touch(PLUGIN, place, use))
    # The plug-in tells its jobs from others by their name, which is one for a run.
    begins = os.environ.get(OUTER_VARIABLE) or re.sub("[^A-Za-z0-9-]", "-", name)[:40]
    submits.run_uuid = os.environ[OUTER_VARIABLE] = f"{begins}_{submits.run_uuid}"
    # It would guess one of jobs of the past, and complain where none can be had. Slurm has a default itself.
    submits._fallback_account_arg = ""
    if not slurm.has_accounting():
        _do_without_sacct(submits)
    Looks(submits, markers).begin()
    Patience(submits).begin()
    _report(submits, judge)


def _do_without_sacct(submits: Any) -> None:
    """Have the plug-in ask squeue alone: sacct may be installed and have nothing to say."""
    plugin: Any = sys.modules[type(submits).__module__]
    available = plugin.is_query_tool_available
    plugin.is_query_tool_available = lambda tool: tool != "sacct" and available(tool)
    submits.workflow.executor_settings.status_command = "squeue"


def _report(submits: Any, judge: Judge) -> None:
    """Say why a batch ended, and submit none again that cannot do better."""
    report = submits.report_job_error

    def report_job_error(job_info: Any, msg: str | None = None, **more: Any) -> None:
        job = job_info.job
        found = re.search("SLURM status is: '([A-Z_]+)'", msg or "")
        said, again = judge(job, found[1] if found else "")
        if said:
            print(f"hyperslab: {said}", file=sys.stderr, flush=True)
        if not again:
            # Snakemake compares this with the retries that a job has.
            job.attempt = job.restart_times + 1
        report(job_info, msg=msg, **more)

    submits.report_job_error = report_job_error


class Patience:
    """Waits for a controller that is away: no job is forgotten, and none submitted, until it is back."""

    def __init__(self, submits: Any) -> None:
        self._submits = submits
        self._check = submits.check_active_jobs
        self._run = submits.run_jobs
        self._reported: set[int] = set()
        self._away = False
        self._held_up: dict[str, str] = {}
        # Looks in a row that did not find a job, and when its outputs of before it were written.
        self._unseen: dict[str, int] = {}
        self._before: dict[int, list[int | None]] = {}

    def begin(self) -> None:
        """Have the executor be patient from now on."""
        for name in ("report_job_success", "report_job_error"):
            self._remember(name)
        self._submits.check_active_jobs = self.check_active_jobs
        self._submits.run_jobs = self.run_jobs

    def _remember(self, name: str) -> None:
        report = getattr(self._submits, name)

        def remembering(job_info: Any, *arguments: Any, **options: Any) -> None:
            self._reported.add(id(job_info))
            report(job_info, *arguments, **options)

        setattr(self._submits, name, remembering)

    async def check_active_jobs(self, active_jobs: Sequence[Any]) -> AsyncIterator[Any]:
        """Yield the jobs that go on: all that the plug-in neither yields nor reports, too.

        But not those that a controller which answers has forgotten, for which the plug-in waits for ever.
        """
        self._reported.clear()
        kept = [job async for job in self._check(active_jobs)]
        lost = [job for job in active_jobs if id(job) not in {*map(id, kept), *self._reported}]
        self._say(away=bool(lost))
        known = None if lost else slurm.jobs()
        if known is not None:
            self._say_what_is_held_up(known)
        for job in [*kept, *lost]:
            if known is None or not self._forgotten(job, known):
                yield job

    def _say_what_is_held_up(self, known: Mapping[str, slurm.Queued]) -> None:
        """Say once of each job why it does not start: nodes that are drained, a limit, a job on hold."""
        found = slurm.held_up(known, self._submits.run_uuid)
        for job, reason in found.items() - self._held_up.items():
            print(f"hyperslab: {job} waits in the queue: {reason}", file=sys.stderr, flush=True)
        self._held_up = found

    def _forgotten(self, job: Any, known: Mapping[str, slurm.Queued]) -> bool:
        """Tell whether the controller has forgotten a job, and report then how it ended, by its outputs."""
        number = str(job.external_jobid)
        self._unseen[number] = 0 if number in known else self._unseen.get(number, 0) + 1
        if self._unseen[number] < MOST_LOOKS:
            return False
        now = _written(job.job)
        ended = all(now) and now != self._before.get(id(job.job))
        how = "it has made what it was to make" if ended else "it has not made what it was to make"
        print(f"hyperslab: Slurm has forgotten job {number}; {how}", file=sys.stderr, flush=True)
        if ended:
            self._submits.report_job_success(job)
        else:
            self._submits.report_job_error(job, msg=f"Slurm has forgotten job {number}")
        return True

    def run_jobs(self, jobs: Sequence[Any]) -> None:
        """Submit jobs as soon as the controller answers."""
        while not slurm.answers():
            self._say(away=True)
            time.sleep(RETRY_SECONDS)
        self._before |= {id(job): _written(job) for job in jobs}
        self._run(jobs)

    def _say(self, away: bool) -> None:
        if away != self._away:
            said = "does not answer; this run waits for it" if away else "answers again"
            print(f"hyperslab: Slurm's controller {said}", file=sys.stderr, flush=True)
        self._away = away


def _written(job: Any) -> list[int | None]:
    """Return when each output of a job was written, in ns since 1970; None where it is not there."""
    return list(map(written_at, job.output))


class Looks:
    """Shortens the sleep between two looks at the queue, which else grows to minutes while a batch runs."""

    def __init__(self, executor: Any, markers: str) -> None:
        """Take a cluster's executor of Snakemake, and a pattern of the files that end a batch (`markers`)."""
        self._executor = executor
        self._pattern = markers
        self._markers = self._present()
        self._seen = -ENDING_SECONDS

    def begin(self) -> None:
        """Have the executor sleep as `sleep` does from now on."""
        self._executor.sleep = self.sleep

    async def sleep(self) -> None:
        """Wait until the executor's own time is over, a batch has ended, or nothing is left to wait for.

        A job prints as it starts and as it ends, also where Slurm ends it, and hardly anything in between.
        """
        began = time.monotonic()
        own = self._executor.next_seconds_between_status_checks
        while self._executor.wait:
            present = self._present()
            if present.items() - self._markers.items():
                self._seen = time.monotonic()
            self._markers = present
            ending = time.monotonic() - self._seen < ENDING_SECONDS
            left = began + (min(own, SOON_SECONDS) if ending else own) - time.monotonic()
            if left <= 0:
                return
            await self._rest(min(left, LOOK_SECONDS))

    async def _rest(self, seconds: float) -> None:
        """Wait so long, while there is something to wait for: the end of a run waits for this."""
        end = time.monotonic() + seconds
        while self._executor.wait and (left := end - time.monotonic()) > 0:
            await asyncio.sleep(min(left, REST_SECONDS))

    def _present(self) -> dict[str, int]:
        """Return every marker, and the output of every job, that is there -> when it was written."""
        jobs = [job.aux or {} for job in tuple(self._executor.active_jobs)]
        printed = [str(job["slurm_logfile"]) for job in jobs if "slurm_logfile" in job]
        found = ((name, written_at(name)) for name in [*glob(self._pattern), *printed])
        return {name: written for name, written in found if written is not None}
