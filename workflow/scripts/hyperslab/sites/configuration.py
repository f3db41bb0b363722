"""Sites as config/sites.yaml gives them: platforms, file systems, and the pairs that a study may name."""

from __future__ import annotations

import getpass
import itertools
import os
import re
import shlex
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from hyperslab.sites import roots, striping
from hyperslab.sites.object_stores import Store
from hyperslab.validation.errors import ConfigurationError, validate
from hyperslab.validation.models import Count, Name, Strict, Text, Whole
from hyperslab.validation.nearest import choices
from hyperslab.validation.yaml_files import read_yaml

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
# In the directory of the project: the committed example, and a user's own file, which stands in for it.
EXAMPLE, OWN = "config/sites.yaml", "config/sites.local.yaml"
# And what names another one for every run.
CONFIGURATION = "config/config.yaml"
# What the marker of a root, or the root itself, has one of for all who measure there.
OF_A_ROOT = ("store", "cgroup", "read_ahead_bytes", "node_local", "stripe")
# A variable of the environment in a root.
VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
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


Resolved = dict[str, Any]
Expansion = Annotated[
    dict[str, Resolved], "name of a site -> what its platform and file system say, and its expanded root"
]


def usual_file(directory: Path) -> Path:
    """Return the user's own file of sites, config/sites.local.yaml, or else the committed example."""
    own = directory / OWN
    return own if own.exists() else directory / EXAMPLE


def named_file(directory: Path, named: str) -> Path:
    """Return the file of sites that a configuration in a project's directory names.

    The user's own stands in for the committed example.
    """
    beside = directory / named
    if named == EXAMPLE and (usual := usual_file(directory)) != beside:
        return usual
    return next((file for file in (Path(named), beside) if file.exists()), beside)


def configured_file(directory: Path) -> Path:
    """Return the file of sites that config/config.yaml names, or the usual one.

    Raises ConfigurationError where that cannot be read.
    """
    file = directory / CONFIGURATION
    content = read_yaml(file) if file.exists() else None
    named = content.get("sites") if isinstance(content, dict) else None
    return named_file(directory, str(named or EXAMPLE))


def load_sites(file: Path, inside: str = "") -> Expansion:
    """Return every site with its root expanded; raises ConfigurationError with the first mistake.

    `inside` names the site on whose node this runs. What only a node can see may depend on variables that
    only it has, so elsewhere those stay as they are written.
    """
    sites = validate(Sites, read_yaml(file), file)
    resolved: Expansion = {}
    known: dict[str, Collection[str]] = {"platform": sites.platforms, "file_system": sites.file_systems}
    for name, site in sites.sites.items():
        for key, names in known.items():
            if (given := getattr(site, key)) not in names:
                message = f"unknown {given!r}; there are {choices(given, names)}"
                raise ConfigurationError(file, f"sites.{name}.{key}", message)
        file_system = sites.file_systems[site.file_system]
        platform = sites.platforms[site.platform]
        if site.concurrency and platform.executor == "local":
            raise ConfigurationError(
                file,
                f"sites.{name}.concurrency",
                "a local platform is one node, where one cell runs at a time",
            )
        if wrong := _shared_with_store(sites, site.file_system):
            raise ConfigurationError(file, f"file_systems.{site.file_system}.root", wrong)
        resolved[name] = {
            "name": name,
            "platform": site.platform,
            **platform.model_dump(),
            "file_system": site.file_system,
            "root": _expanded(
                file,
                f"file_systems.{site.file_system}.root",
                file_system.root,
                strict=name == inside or not (file_system.node_local and platform.executor == "slurm"),
            ),
            **file_system.model_dump(exclude={"root"}),
            "concurrency": site.concurrency,
        }
    check_shared_roots(resolved, file)
    return resolved


def _shared_with_store(sites: Sites, name: str) -> str | None:
    """Return why a file system with an object store cannot have its root, None where it can."""
    own = sites.file_systems[name]
    others = [
        other
        for other, described in sites.file_systems.items()
        if other != name and described.root == own.root and described.store != own.store
    ]
    return f"{own.root} is that of {others[0]}, too; a store's root is its own" if others else None


def check_shared_roots(sites: Expansion, file: Path, place: Callable[[str], str] = os.path.normpath) -> None:
    """Raise ConfigurationError where file systems have one root and do not say the same of it.

    `place` says where a root lies: os.path.realpath for those that this machine sees.
    """
    for one, other in itertools.combinations(sites.values(), 2):
        if place(one["root"]) != place(other["root"]) or _apart(one, other):
            continue
        for key in OF_A_ROOT:
            if one[key] != other[key]:
                raise ConfigurationError(
                    file,
                    f"file_systems.{other['file_system']}.root",
                    f"{other['root']} is that of {one['file_system']}, too, which has another {key}; "
                    "give each a root of its own",
                )


def _apart(one: Resolved, other: Resolved) -> bool:
    """Return whether a path may be two places: a disk in each node, and what another machine has there."""
    in_nodes = any(site["node_local"] and site["executor"] == "slurm" for site in (one, other))
    return in_nodes and one["platform"] != other["platform"]


def _expanded(file: Path, path: str, root: str, strict: bool) -> str:
    """Return a root with ~ and environment variables filled in, absolute as far as can be known here.

    Raises ConfigurationError for a variable that is not set and for a directory that is none of test files.
    """

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if os.environ.get(name):
            return os.environ[name]
        if name in os.environ:
            raise ConfigurationError(file, path, f"{root}: the environment variable {name} is empty")
        if name == "USER":
            return getpass.getuser()
        if not strict:
            return match[0]
        raise ConfigurationError(file, path, f"{root}: the environment variable {name} is not set")

    if "$" in VARIABLE.sub("", root):
        message = f"{root}: a $ begins the name of an environment variable, $NAME or ${{NAME}}"
        raise ConfigurationError(file, path, message)
    expanded = VARIABLE.sub(value, root)
    try:
        absolute = Path(expanded).expanduser().absolute()
    except RuntimeError:
        raise ConfigurationError(file, path, f"{root}: there is no such user") from None
    if wrong := _no_root(expanded, absolute) if strict else None:
        raise ConfigurationError(file, path, wrong)
    # Only the node knows where something lies that begins with a variable of its own.
    return expanded if expanded.startswith("$") and not strict else str(absolute)


def _no_root(given: str, absolute: Path) -> str | None:
    """Return why a directory cannot hold test files wherever it lies, None where it can."""
    if not given.strip():
        return f"{given!r} names no directory"
    if "\n" in given:
        return f"{given!r} has a line break"
    if "{" in given or "}" in given:
        return f"{given}: a root with braces would be a pattern to Snakemake"
    place = Path(os.path.normpath(absolute))
    if place in (Path("/"), Path.cwd()):
        return f"{given}: test files need a directory of their own"
    if place.is_relative_to(Path.cwd() / "results"):
        return f"{given}: test files never lie inside results/"
    return None


def prepare_root(
    sites: Expansion, name: str, file: Path, concurrency: Callable[[str], int], identity: str | None = ""
) -> None:
    """Make the root of a site with its marker and striping; raises ConfigurationError.

    A root that has none gets `identity`, which its site's records have, or a new one ("": they have none), or
    stays without (None: its node tells which it is).

    `concurrency` says of a site how many cells may be timed there at once; a root that several sites share
    lets in as many as the most generous of them, and a cell in a job takes no more memory than the smallest
    allows.
    What is local to a node is a root of its own on each, which lets in one.
    """
    site = sites[name]
    # A link may lead there, too.
    place = os.path.realpath(site["root"])
    sharing = [
        other
        for other in sites.values()
        if os.path.realpath(other["root"]) == place and not _apart(site, other)
    ]
    memory = [other["memory_mb"] for other in sharing if other["executor"] == "slurm"]
    described = roots.Root(
        concurrency=1 if site["node_local"] else max(concurrency(other["name"]) for other in sharing),
        node_local=site["node_local"],
        cgroup=site["cgroup"],
        read_ahead_bytes=site["read_ahead_bytes"],
        memory_mb=min(memory, default=None),
        store=site["store"],
        identity=identity or "",
    )
    try:
        roots.prepare(site["root"], described, judged=identity is not None)
        if site["stripe"]:
            striping.apply(site["root"], site["stripe"]["count"], site["stripe"]["size_bytes"])
    except (OSError, striping.StripingError) as error:
        path = f"file_systems.{site['file_system']}"
        raise ConfigurationError(file, path, f"{site['root']} cannot be prepared: {error}") from None
