"""A clone of the workflow whose cells are measured by a real cluster, and what its queue says."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml
from clones import Clone, make_clone

from cluster import Cluster, missing, running_cluster

NODES: dict[str, Any] = {"executor": "slurm", "memory_mb": 1000, "minutes": 30}


@contextlib.contextmanager
def short_lived_cluster(require: Callable[[str | None], None], **options: Any) -> Iterator[Cluster]:
    """A cluster in a short directory, or a skip (in CI a failure) where there can be none."""
    require(missing())
    with tempfile.TemporaryDirectory(prefix="hs-") as path, running_cluster(Path(path), **options) as cluster:
        yield cluster


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
