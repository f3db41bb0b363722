"""All that touches the inside of Snakemake, which no document promises to keep as it is.

snakemake_places.py lists the places, and tells whether the installed version has them.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import os
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from hyperslab.planning.outliving import Outliving
from hyperslab.planning.snakemake_places import there

# What a run is asked for


def parsed(arguments: Sequence[str]) -> Namespace | None:
    """Return Snakemake's options, profiles applied; None where the arguments are no call of it.

    Its own parser knows profiles, abbreviations and environment variables.
    """
    from snakemake.cli import parse_args

    try:
        # It has said already which profile it uses.
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            _, found = parse_args(list(arguments))
    except (SystemExit, Exception):  # noqa: BLE001
        return None
    options: Namespace = found
    return options


def unlock(workflow: Any) -> None:
    """Let go of the results, for a run that ends here and now."""
    workflow.persistence.unlock()


def deployed(workflow: Any) -> bool:
    """Tell whether rules run in environments of their own (--sdm)."""
    return bool(workflow.deployment_settings.deployment_method)


# What is said to the workflow


def limit(workflow: Any, slots: Mapping[str, int]) -> None:
    """Limit the resources named `slots`; a limit from the command line stays."""
    for slot, most in slots.items():
        if slot not in workflow.global_resources:
            workflow.register_resource(slot, most)


def prefer(workflow: Any, first: str, second: str) -> None:
    """Take the rule named `first` where `second` would fit, too: the directive takes no variables."""
    workflow.ruleorder(first, second)


def plan_quickly() -> None:
    """Have Snakemake look at the parameters of a rule's function once, not thrice a job: a saving of 12 %."""
    if not there("snakemake.common:get_function_params"):
        return
    from snakemake import common, rules

    if not hasattr(common.get_function_params, "cache_info"):
        rules.get_function_params = common.get_function_params = functools.lru_cache(maxsize=1000)(
            common.get_function_params
        )


def force(workflow: Any, files: set[str]) -> None:
    """Have Snakemake make those of `files` again that the targets of this run need.

    Its option --forcerun would make targets of them all. Which jobs there are is settled after the Snakefile
    was read: this steps in then.
    """
    prepare = workflow._prepare_dag

    def prepare_with_forced(*arguments: Any, **options: Any) -> None:
        prepare(*arguments, **options)
        workflow.dag.forcefiles |= files

    if files:
        workflow._prepare_dag = prepare_with_forced


class _Triggering:
    """Jobs behind a job, without those that need nothing of it but ancient files."""

    def __init__(self, depending: Mapping[Any, Mapping[Any, Any]]) -> None:
        self._depending = depending

    def __getitem__(self, job: Any) -> dict[Any, Any]:
        found = self._depending[job].items()
        return {other: files for other, files in found if not all(file.is_ancient for file in files)}


def make_beside(outdated: Collection[str]) -> None:
    """Have Snakemake make what is needed as an ancient file, where it is missing or among `outdated`, for the
    jobs that run anyway, and run no other job for it.

    Snakemake (9.27.1) runs all that need an ancient file which is missing, though their results are there.
    And behind a job that it finds outdated it looks at no other, so that what lies behind ancient files
    alone does not run, though its results are missing: such a run ends without a word.
    """
    from snakemake.dag import DAG
    from snakemake.io import _IOFile

    update, search, exists = DAG.update_needrun, DAG.bfs, _IOFile.exists

    def search_what_is_triggered(self: Any, direction: Any, *jobs: Any, **options: Any) -> Any:
        return search(
            self, _Triggering(direction) if direction is self.depending else direction, *jobs, **options
        )

    async def exists_or_is_ancient(self: Any, *arguments: Any, **options: Any) -> bool:
        # Whoever makes a file does not have it as an ancient one.
        return self.is_ancient or (str(self) not in outdated and await exists(self, *arguments, **options))

    @functools.wraps(update)
    async def update_and_make_beside(self: Any, create_inventory: bool = False) -> None:
        if create_inventory:
            # It looks at the times of all that exists.
            await self.workflow.iocache.mtime_inventory(self.jobs)
        DAG.bfs, _IOFile.exists = search_what_is_triggered, exists_or_is_ancient
        try:
            await update(self)
        finally:
            DAG.bfs, _IOFile.exists = search, exists

    DAG.update_needrun = update_and_make_beside


def when_planned(workflow: Any, look: Callable[[list[str]], None]) -> None:
    """Have `look` see the files that the jobs of this run make, once they are known and before any begins."""
    build, execute = workflow._build_dag, workflow.execute

    def build_and_look(*arguments: Any, **options: Any) -> Any:
        built = build(*arguments, **options)
        look([str(file) for job in workflow.dag.needrun_jobs() for file in job.output])
        return built

    def execute_and_look(*arguments: Any, **options: Any) -> Any:
        # A summary, an archive or a list of jobs knows them, too, and runs none.
        workflow._build_dag = build_and_look
        return execute(*arguments, **options)

    workflow.execute = execute_and_look


def noted(workflow: Any, file: Path) -> bool:
    """Tell whether Snakemake has noted how a file was made: only then does it see that this has changed."""
    if not there("snakemake.persistence.file:FilePersistence._read_record"):
        return True
    return workflow.persistence._read_record(str(file)) is not None


def forgetting() -> Callable[[Path], object]:
    """Return what has Snakemake forget how a file was made, below the directory in which this runs.

    A note outlasts its file, and would be taken for one of what is put in its place.
    """
    place = "snakemake.persistence.file:FilePersistence.cleanup_metadata"
    if not Path(".snakemake").is_dir() or not there(place):
        return lambda file: None
    from snakemake.io import IOFile
    from snakemake.persistence.file import FilePersistence

    notes = FilePersistence()
    return lambda file: notes.cleanup_metadata(IOFile(str(file)))


def rest_between_jobs(workflow: Any) -> None:
    """Have Snakemake's scheduler look for the next job when one has ended, and not also by the clock.

    A limit of jobs a second, which no option takes away, has every look start a timer for one more a second
    later, and every job adds two: after 1,000 jobs 2,000 looks a second, beside what is measured.
    """
    if there("snakemake.scheduling.job_scheduler:JobRateLimiter"):
        workflow.scheduler.job_rate_limiter = None


def start_nothing_once(workflow: Any, stopped: Callable[[], bool]) -> None:
    """Have Snakemake's scheduler start no job that it has chosen once `stopped` is true.

    Whether it was asked to end it looks up before it chooses, which takes as long as a small cell.
    """
    if not there("snakemake.scheduling.job_scheduler:JobScheduler.run"):
        return
    scheduler = workflow.scheduler
    run = scheduler.run

    def run_unless_stopped(jobs: Any, executor: Any = None) -> None:
        if not stopped():
            run(jobs, executor)
            return
        with scheduler._lock:
            scheduler.running.difference_update(jobs)
        scheduler._open_jobs.release()

    scheduler.run = run_unless_stopped


# What Snakemake does with files


def keep(stays: Callable[[str], bool]) -> None:
    """Let Snakemake remove no file of which `stays` is true from now on.

    Without this an output goes before its job begins, and again when the job fails.
    """
    from snakemake.io import _IOFile
    from snakemake.jobs import Job

    remove, cleanup = _IOFile.remove, Job.cleanup

    @functools.wraps(remove)
    async def attempt_removal(self: Any, *arguments: Any, **options: Any) -> None:
        if not stays(str(self)):
            await remove(self, *arguments, **options)

    @functools.wraps(cleanup)
    async def attempt_cleanup(self: Any, skipped: Any) -> None:
        await cleanup(self, [*skipped, *(file for file in self.output if stays(str(file)))])

    _IOFile.remove = attempt_removal
    Job.cleanup = attempt_cleanup


def leave_other_locks() -> None:
    """Let runs on other results of one directory keep their locks when this run ends.

    Snakemake removes one folder with all that is in it: whoever else measures would be unprotected from then
    on, and of runs that end in one moment one would fail. `--unlock` still removes all.
    """
    if not there("snakemake.persistence.file:FilePersistence._delete_locks"):
        return
    from snakemake.persistence.file import FilePersistence

    remove_all = FilePersistence._delete_locks

    def remove_own(self: Any) -> None:
        for file in self._lockfile.values():
            with contextlib.suppress(FileNotFoundError):
                os.remove(file)
        self._lockfile.clear()

    FilePersistence._delete_locks = remove_own
    FilePersistence.cleanup_locks = remove_all


# What Snakemake says

COMMAND = re.compile(r"^Command '.*' (?=returned|died)", re.MULTILINE | re.DOTALL)

# Events of a single job that goes well; what stands for them says how far a run is.
PROGRESS = "progress"
OF_SINGLE_JOBS = (
    "job_info", "job_started", "job_finished", "group_info", "shellcmd", PROGRESS, "resources_info",
)  # fmt: skip
# The same, a line that is no event.
SELECTING = "Select jobs to execute..."


def show_few_lines(workflow: Any, counted: bool) -> None:
    """Show on the terminal from now on no line of a single job that goes well; the run's log keeps them all.

    Failures are shown as ever, and so is everything with --verbose; `counted`: and how many jobs are done.
    """
    if not there("snakemake.logging:get_event") or workflow.output_settings.verbose:
        return
    from snakemake.logging import get_event, logger

    hidden = set(OF_SINGLE_JOBS) - ({PROGRESS} if counted else set())

    def shown(record: logging.LogRecord) -> bool:
        return get_event(record) not in hidden and record.msg != SELECTING

    for handler in logger.handlers:
        if not isinstance(handler, logging.FileHandler):
            handler.addFilter(shown)


def outlive_readers() -> None:
    """Let this process and what it starts go on when nobody reads its output any more."""
    from snakemake.logging import logger

    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, Outliving):
            continue
        outliving = Outliving(stream)
        setattr(sys, name, outliving)
        for handler in logger.handlers:
            if getattr(handler, "stream", None) is stream:
                handler.stream = outliving


def say_less() -> None:
    """Have Snakemake name a job that failed without its command, which carries whole specifications.

    The log that follows says why it failed, and stands in the file that is named.
    """
    from snakemake.logging import logger

    def shortened(record: logging.LogRecord) -> bool:
        if getattr(record, "shellcmd", None) and record.levelno >= logging.ERROR:
            record.shellcmd = ""
        if isinstance(record.msg, str) and "CalledProcessError" in record.msg:
            record.msg = COMMAND.sub("The command ", record.msg)
        return True

    logger.addFilter(shortened)
