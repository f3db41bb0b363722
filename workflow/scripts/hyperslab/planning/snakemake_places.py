"""The places that are touched inside Snakemake and its plug-in for Slurm, and what each is for.

Each touch names its place and the version on which it was tried. Where another version lacks the place, a run
that needs it ends with one line before it begins, and a run that is only more robust with it goes on.
"""

from __future__ import annotations

import functools
import importlib
from dataclasses import dataclass
from importlib import metadata

from hyperslab.validation.errors import ConfigurationError

SNAKEMAKE = "snakemake"
PLUGIN = "snakemake-executor-plugin-slurm"
# What was tried: the versions of the lock.
TRIED = {SNAKEMAKE: "9.27.1", PLUGIN: "2.8.0"}


@dataclass(frozen=True)
class Touch:
    """A place inside a package, as module:name, and its use; without a needed one results are wrong."""

    package: str
    place: str
    use: str
    needed: bool = True

    def missing(self) -> bool:
        """Tell whether the installed version lacks the place."""
        module, _, name = self.place.partition(":")
        try:
            # The modules of Snakemake import each other in circles; this one is a way in.
            importlib.import_module("snakemake.api")
            functools.reduce(getattr, name.split("."), importlib.import_module(module))
        except (ImportError, AttributeError):
            return True
        return False


TOUCHES = (
    Touch(SNAKEMAKE, "snakemake.cli:parse_args", "know its targets and its executor"),
    Touch(SNAKEMAKE, "snakemake.workflow:Workflow.register_resource", "keep timed jobs apart"),
    Touch(SNAKEMAKE, "snakemake.workflow:Workflow.ruleorder", "tell cells of ranks from others"),
    Touch(SNAKEMAKE, "snakemake.workflow:Workflow._prepare_dag", "measure cells again"),
    Touch(SNAKEMAKE, "snakemake.workflow:Workflow.dag", "measure cells again"),
    Touch(SNAKEMAKE, "snakemake.workflow:Workflow._build_dag", "check what it is about to measure"),
    Touch(SNAKEMAKE, "snakemake.workflow:Workflow.execute", "check what it is about to measure"),
    Touch(SNAKEMAKE, "snakemake.dag:DAG.needrun_jobs", "check what it is about to measure"),
    Touch(SNAKEMAKE, "snakemake.dag:DAG.update_needrun", "measure only what is missing"),
    Touch(SNAKEMAKE, "snakemake.dag:DAG.bfs", "measure only what is missing"),
    Touch(SNAKEMAKE, "snakemake.io:_IOFile.exists", "measure only what is missing"),
    Touch(SNAKEMAKE, "snakemake.settings.types:DeploymentSettings.deployment_method", "find its programs"),
    Touch(SNAKEMAKE, "snakemake.io:_IOFile.remove", "keep a record until there is another"),
    Touch(SNAKEMAKE, "snakemake.jobs:Job.cleanup", "keep a record until there is another"),
    Touch(
        SNAKEMAKE,
        "snakemake.persistence.file:FilePersistence._delete_locks",
        "end beside another",
        needed=False,
    ),
    Touch(
        SNAKEMAKE,
        "snakemake.persistence.file:FilePersistence._read_record",
        "say what has changed",
        needed=False,
    ),
    Touch(
        SNAKEMAKE,
        "snakemake.persistence.file:FilePersistence.cleanup_metadata",
        "take what a pack brings as it is",
        needed=False,
    ),
    Touch(
        SNAKEMAKE,
        "snakemake.scheduling.job_scheduler:JobScheduler.run",
        "start nothing once it is stopped",
        needed=False,
    ),
    Touch(SNAKEMAKE, "snakemake.common:get_function_params", "plan quickly", needed=False),
    Touch(
        SNAKEMAKE,
        "snakemake.scheduling.job_scheduler:JobRateLimiter",
        "leave the processor to what is measured",
        needed=False,
    ),
    Touch(PLUGIN, "snakemake_executor_plugin_slurm:Executor.sleep", "see at once that a batch has ended"),
    Touch(PLUGIN, "snakemake_executor_plugin_slurm:Executor.check_active_jobs", "wait for a controller"),
    Touch(PLUGIN, "snakemake_executor_plugin_slurm:Executor.run_jobs", "wait for a controller"),
    Touch(PLUGIN, "snakemake_executor_plugin_slurm:Executor.report_job_success", "wait for a controller"),
    Touch(PLUGIN, "snakemake_executor_plugin_slurm:Executor.report_job_error", "say why a batch ended"),
    Touch(PLUGIN, "snakemake_executor_plugin_slurm:is_query_tool_available", "do without accounting"),
    Touch(SNAKEMAKE, "snakemake.logging:get_event", "show no line of each job", needed=False),
)


def check(slurm: bool) -> None:
    """Raise ConfigurationError where the installed Snakemake lacks what a run needs.

    `slurm`: whether Slurm's executor belongs to that.
    """
    for touch in TOUCHES:
        if touch.needed and (slurm or touch.package == SNAKEMAKE) and touch.missing():
            raise lacking(touch)


def lacking(touch: Touch) -> ConfigurationError:
    """Return what to say where the installed version has no such place."""
    return ConfigurationError(
        f"{touch.package} {metadata.version(touch.package)}",
        touch.place,
        f"is not there, and a run could not {touch.use} without it; install "
        f"{touch.package}=={TRIED[touch.package]}, on which it was tried",
    )


def there(place: str) -> bool:
    """Tell whether the installed version has a place of TOUCHES."""
    return not next(touch for touch in TOUCHES if touch.place == place).missing()
