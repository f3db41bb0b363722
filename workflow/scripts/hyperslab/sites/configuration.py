"""Sites as a file gives them: which file that is, every site with its root expanded, and roots prepared."""

from __future__ import annotations

import getpass
import itertools
import os
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Any

from hyperslab.sites import mounts, roots, striping
from hyperslab.sites.schema import Sites
from hyperslab.validation.errors import ConfigurationError, validate
from hyperslab.validation.nearest import choices
from hyperslab.validation.yaml_files import read_yaml

# In the directory of the project: the committed example, and a user's own file, which stands in for it.
EXAMPLE, OWN = "config/sites.yaml", "config/sites.local.yaml"
# And what names another one for every run.
CONFIGURATION = "config/config.yaml"
# What the marker of a root, or the root itself, has one of for all who measure there.
OF_A_ROOT = ("store", "cgroup", "read_ahead_bytes", "node_local", "stripe")
# A variable of the environment in a root.
VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
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
    place = os.path.realpath(site["root"])
    # A link may lead there, too; a server that this site does without may be away.
    sharing = [
        other
        for other in sites.values()
        if other is site or (not _apart(site, other) and mounts.leads_to(other["root"], place))
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
