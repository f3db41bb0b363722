"""How Snakemake was called: what decides which sites a run can reach, and what runs inside it are given."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hyperslab.planning import snakemake_patches
from hyperslab.planning.inner_run import TRIGGERS
from hyperslab.planning.targets import spelt
from hyperslab.validation.errors import ConfigurationError

DEFAULT_JOBS = 20
# Options of Snakemake that show something, and for which it runs no job.
SHOWING = (
    "dryrun", "summary", "detailed_summary", "list_rules", "list_target_rules", "list_changes",
    "list_input_changes", "list_params_changes", "list_untracked", "dag", "rulegraph", "filegraph", "d3dag",
    "lint", "print_compilation",
)  # fmt: skip


@dataclass(frozen=True)
class Invocation:
    """One call of Snakemake, its profile read."""

    targets: tuple[str, ...] = ()
    # "local", "slurm" or another cluster's plugin, also in a dry run.
    executor: str = "local"
    # Or another look at what there is, such as a summary: nothing is made or written.
    dry_run: bool = False
    # False in the processes that Snakemake starts for single jobs.
    main: bool = True
    # True in those of a cluster's job, where the executor no longer says so.
    in_job: bool = False
    # Studies of the jobs for which Snakemake started this process.
    studies: tuple[str, ...] = ()
    # Options with which a run inside this one submits its jobs, and waits for them, as this one does.
    executing: tuple[str, ...] = ()
    # What has a job be made again whose result is there.
    triggers: tuple[str, ...] = TRIGGERS
    # What is made again although it is there, as targets are spelt; and whether that is all.
    forced: tuple[str, ...] = ()
    forces_all: bool = False

    @property
    def local(self) -> bool:
        """Whether jobs run on the machine on which Snakemake was started."""
        return self.executor == "local" and not self.in_job


def _executing(executor: str, found: Namespace) -> Iterator[str]:
    """Yield the options that say how jobs are submitted and awaited, as a command line has them."""
    yield from ("--executor", executor, "--jobs", str(found.jobs or DEFAULT_JOBS))
    yield from ("--latency-wait", str(found.latency_wait), "--retries", str(found.retries))
    for name, value in vars(found).items():
        # What was not given is an object of Snakemake's own.
        if not name.startswith(f"{executor}_") or not isinstance(value, str | int | Path) or value is False:
            continue
        yield f"--{name.replace('_', '-')}"
        if value is not True:
            yield str(value)
    resources = [str(entry) for entry in found.default_resources.args] if found.default_resources else []
    if given := [entry for entry in resources if not entry.startswith("tmpdir=")]:
        yield from ("--default-resources", *given)


def read(arguments: Sequence[str]) -> Invocation:
    """Return the call with these arguments, profiles applied as Snakemake applies them.

    Raises ConfigurationError for a profile that is not found from the directory of the results.
    """
    if (found := snakemake_patches.parsed(arguments)) is None:
        given = {word.partition("=")[0] for word in arguments}
        if "--profile" in given and given & {"--directory", "-d"}:
            # Snakemake has read it where it was called, and has gone to that directory since.
            raise ConfigurationError("--profile", "", "beside --directory, name it by an absolute path")
        # Not a call of the command line (a test, a notebook).
        return Invocation()
    executor = found.executor or "local"
    mode = str(getattr(found.mode, "name", found.mode)).upper()
    studies = [job.wildcards_dict.get("study") for job in found.target_jobs or ()]
    return Invocation(
        targets=tuple(spelt(str(target)) for target in found.targets or ()),
        executor=executor,
        dry_run=any(getattr(found, option, None) for option in SHOWING),
        main=mode == "DEFAULT",
        in_job=mode == "REMOTE",
        studies=tuple(dict.fromkeys(map(str, filter(None, studies)))),
        executing=() if executor == "local" else tuple(_executing(executor, found)),
        triggers=tuple(sorted(map(str, found.rerun_triggers))),
        forced=tuple(map(spelt, [*found.forcerun, *(found.targets or () if found.force else ())])),
        forces_all=found.forceall,
    )
