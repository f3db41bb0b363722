"""A clone of the workflow whose cells are measured by a real cluster, and what its queue says."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from clones import Clone, make_clone

from cluster import Cluster, all_idle, missing, running_cluster
from cluster_processes import wait_until

NODES: dict[str, Any] = {"executor": "slurm", "memory_mb": 1000, "minutes": 30}
IDLE_SECONDS = 5


class Clusters:
    """At most one cluster, since all have one /etc/slurm/slurm.conf: modules that want the same share it."""

    def __init__(self, require: Callable[[str | None], None]) -> None:
        self._require = require
        self._stack = contextlib.ExitStack()
        self._up: tuple[dict[str, Any], Cluster] | None = None

    def of(self, **options: Any) -> Cluster:
        """A cluster of these options that has nothing to do; a skip (in CI a failure) where there can be
        none.
        """
        if self._up and self._up[0] == options:
            cluster = self._up[1]
            # A job of the tests before may still be ending.
            if wait_until(lambda: all_idle(cluster), IDLE_SECONDS):
                return cluster
        self.end()
        self._require(missing())
        # A short directory.
        path = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="hs-"))
        cluster = self._stack.enter_context(running_cluster(Path(path), **options))
        self._up = options, cluster
        return cluster

    def end(self) -> None:
        """Stop the cluster, if there is one."""
        self._up = None
        self._stack.close()


def make_slurm_clone(
    directory: Path,
    platforms: dict[str, Any],
    file_systems: dict[str, Any],
    sites: dict[str, tuple[str, str] | dict[str, Any]],
) -> Clone:
    """A clone for `snakemake --profile slurm`; a site is a pair (platform, file system), or all of it."""
    clone = make_clone(directory)
    clone.profile = "slurm"
    described = {
        name: dict(zip(("platform", "file_system"), site, strict=True)) if isinstance(site, tuple) else site
        for name, site in sites.items()
    }
    content = {"platforms": platforms, "file_systems": file_systems, "sites": described}
    text = yaml.safe_dump(content, allow_unicode=True, sort_keys=False)
    (directory / "config" / "sites.local.yaml").write_text(text, encoding="utf-8")
    return clone


def look_early(clone: Clone) -> None:
    """Have runs of a clone look at the queue for the first time after 1 s, instead of 10, and once at a time.

    The plug-in asks a controller that is away five times in a row, for 10 s each, before a run says so.
    """
    profile = clone.directory / "profiles" / "slurm" / "config.yaml"
    settings = yaml.safe_load(profile.read_text(encoding="utf-8"))
    settings |= {"slurm-init-seconds-before-status-checks": 1, "slurm-status-attempts": 1}
    profile.write_text(yaml.safe_dump(settings), encoding="utf-8")


def queue(cluster: Cluster) -> dict[str, str]:
    """Comment (rule, study and batch) of every job in the queue -> its id."""
    return dict(line.split("|") for line in cluster.run("squeue", "-h", "-o", "%k|%A").splitlines())


def batch_job(cluster: Cluster, site: str, study: str, batch: str = "r0of1") -> str:
    """The id of the job that measures a batch; KeyError where it is not in the queue."""
    return queue(cluster)[f"rule_batch_{site}_wildcards_{study}_{batch}"]


def job_state(cluster: Cluster, job: str) -> str:
    """A job's state in Slurm's words, such as TIMEOUT."""
    words = cluster.run("scontrol", "show", "job", job).split()
    return next(word.partition("=")[2] for word in words if word.startswith("JobState="))
