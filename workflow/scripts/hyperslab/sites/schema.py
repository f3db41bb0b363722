"""What config/sites.yaml may say: platforms, file systems, and the pairs of both that a study may name."""

from __future__ import annotations

import shlex
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from hyperslab.sites.object_stores import Store
from hyperslab.validation.models import Count, Name, Strict, Text, Whole

# Three Snakemakes (the job's step, the batch and its cells) of 170 MB each, and a small cell.
LEAST_MEMORY_MB = 900
# Options of sbatch that have a key of their own; Snakemake's plugin refuses them elsewhere.
OWN_KEYS = {
    "--account": "account", "-A": "account", "--partition": "partition", "-p": "partition",
    "--constraint": "constraint", "-C": "constraint", "--qos": "qos", "-q": "qos",
    "--exclusive": "exclusive", "--mem": "memory_mb", "--mem-per-cpu": "memory_mb",
    "--time": "minutes", "-t": "minutes", "--nodes": "nodes", "-N": "nodes",
    "--cpus-per-task": "cpus", "-c": "cpus",
}  # fmt: skip
# Others that the plugin refuses, because it sets them itself or has no way for them.
REFUSED = frozenset({
    "--job-name", "-J", "--output", "-o", "--error", "-e", "--parsable", "--export", "--comment", "--workdir",
    "-D", "--ntasks", "-n", "--ntasks-per-gpu", "--cpus-per-gpu", "--clusters", "--gres", "--gpus",
})  # fmt: skip
# Beyond what any partition and node has: ten years, and in MB the memory of no node.
MOST_MINUTES, MOST_MEMORY_MB = 10 * 366 * 24 * 60, 2**40
MOST_NODES, MOST_CPUS = 100_000, 2**16
# Bytes, farther than any kernel reads ahead.
MOST_READ_AHEAD = 2**30
# As many storage targets as no file system has.
MOST_TARGETS = 100_000


def _word(text: str) -> str:
    """Return a text as it is; raises ValueError for one that would be several words of a command line."""
    if len(text.split()) != 1 or text != text.strip():
        raise ValueError("should be one word")
    return text


def _absolute(path: str) -> str:
    """Return a path as it is; raises ValueError for one that depends on where a process runs."""
    if not path.startswith("/"):
        raise ValueError(f"{path}: should be an absolute path")
    return path


Word = Annotated[Text, AfterValidator(_word)]


class Platform(Strict):
    """Where jobs run: this machine, or nodes of a Slurm partition. Memory in MB (10^6), time in minutes."""

    executor: Literal["local", "slurm"] = Field(default="local", description="this machine, or jobs of Slurm")
    partition: Word | None = Field(
        default=None, description="partition of Slurm; that which Slurm takes by itself if not given"
    )
    account: Word | None = Field(default=None, description="account of Slurm that is charged")
    constraint: Word | None = Field(default=None, description="features that a node must have")
    qos: Word | None = Field(default=None, description="quality of service")
    exclusive: bool = Field(default=True, description="whether a job has its whole node for itself")
    memory_mb: Annotated[Count, Field(le=MOST_MEMORY_MB)] = Field(
        default=4000, description="memory of a job, MB of 10^6 bytes"
    )
    minutes: Annotated[Count, Field(le=MOST_MINUTES)] = Field(
        default=240, description="time limit of a job, minutes"
    )
    cpus: Annotated[Count, Field(le=MOST_CPUS)] | None = Field(
        default=None,
        description="processors of a job on each of its nodes; by default all of a node that it has for "
        "itself, else one",
    )
    nodes: Annotated[Count, Field(le=MOST_NODES)] = Field(
        default=1,
        description="nodes of a job of a study that has MPI ranks or Dask workers, which it is spread over",
    )
    extra: str = Field(default="", description="further options of sbatch")

    @model_validator(mode="after")
    def _fits_the_executor(self) -> Platform:
        given = sorted(self.model_fields_set - {"executor"})
        if self.executor == "local" and given:
            raise ValueError(f"{', '.join(given)}: only a platform with `executor: slurm` has these")
        if self.executor == "slurm" and self.memory_mb < LEAST_MEMORY_MB:
            raise ValueError(
                f"memory_mb: a batch takes at least {LEAST_MEMORY_MB} (Snakemake itself, and a cell)"
            )
        try:
            options = shlex.split(self.extra)
        except ValueError as error:
            raise ValueError(f"extra: is no list of options: {error}") from None
        for option in options:
            # The value of one letter may follow at once.
            name = option.split("=")[0] if option.startswith("--") else option[:2]
            if key := OWN_KEYS.get(name):
                raise ValueError(f"extra: for {name} there is the key {key}")
            if name in REFUSED:
                raise ValueError(f"extra: Snakemake's plugin for Slurm refuses {name}; leave it out")
        return self


class Stripe(Strict):
    """How a parallel file system spreads new files: over how many targets, in pieces of how many bytes."""

    count: Annotated[Whole, Field(ge=-1, le=MOST_TARGETS)] = Field(
        default=1, description="storage targets; -1 for all"
    )
    size_bytes: Count | None = Field(default=None, description="bytes on one target before the next")


class FileSystem(Strict):
    """Where test files lie."""

    root: Text = Field(description="the directory of test files; may hold ~ and $VARIABLES")
    cap_bytes: Count | None = Field(
        default=None, description="what may be written, bytes, where free space does not show a quota"
    )
    stripe: Stripe | None = Field(default=None, description="how new files are spread over storage targets")
    node_local: bool = Field(default=False, description="whether only the node that wrote can see it")
    cgroup: Annotated[Text, AfterValidator(_absolute)] | None = Field(
        default=None, description="the directory of a cgroup that throttles whoever measures there"
    )
    read_ahead_bytes: Annotated[Whole, Field(ge=0, le=MOST_READ_AHEAD, multiple_of=4096)] | None = Field(
        default=None,
        description="how far the kernel reads ahead on its device while a cell is timed, bytes; needs root",
    )
    store: Store | None = Field(
        default=None, description="an object store; the root then holds what is on its way there"
    )


class Site(Strict):
    """One platform with one file system."""

    platform: Name = Field(default="local", description="where jobs run")
    file_system: Name = Field(description="where test files lie")
    label: Text | None = Field(default=None, description="a remark")
    concurrency: Count | None = Field(
        default=None,
        description="cells timed at once, each on its own node; by default one, or, of node-local disks, one "
        "a node but no more than rounds",
    )


class Sites(Strict):
    """The whole of config/sites.yaml."""

    # This machine is a platform, described or not.
    platforms: Annotated[
        dict[Name, Platform], AfterValidator(lambda given: {"local": Platform(), **given})
    ] = Field(default={"local": Platform()}, description="machines, by name; `local` is this one")
    file_systems: dict[Name, FileSystem] = Field(
        min_length=1, description="where test files may lie, by name"
    )
    sites: dict[Name, Site] = Field(min_length=1, description="pairs of both, which studies name")
