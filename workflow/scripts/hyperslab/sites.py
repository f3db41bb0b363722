"""Sites as config/sites.yaml gives them: platforms, file systems, and the pairs that a study may name."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveInt

from hyperslab.errors import ConfigurationError, read_yaml, validate
from hyperslab.study import LoadedStudy, Name, Strict

# Kept free on every file system: the probe file, the notes of writers, and the file system's own structures.
RESERVE_BYTES = 64 * 2**20
MARKER = ".hyperslab-root"


class Platform(Strict):
    """Where jobs run: this machine, or nodes of a Slurm partition."""

    executor: Literal["local", "slurm"] = "local"


class FileSystem(Strict):
    """Where test files lie."""

    root: str
    cap_bytes: PositiveInt | None = None


class Site(Strict):
    """One platform with one file system."""

    platform: Name = "local"
    file_system: Name
    label: str | None = None


class Sites(Strict):
    """The whole of config/sites.yaml."""

    platforms: dict[Name, Platform] = {"local": Platform()}
    file_systems: dict[Name, FileSystem] = Field(min_length=1)
    sites: dict[Name, Site] = Field(min_length=1)


Resolved = dict[str, Any]
Expansion = Annotated[dict[str, Resolved], "name of a site -> platform, executor, root"]


def load_sites(file: Path) -> Expansion:
    """Every site with its root expanded; raises ConfigurationError with the first mistake."""
    sites = validate(Sites, read_yaml(file), file)
    resolved: Expansion = {}
    for name, site in sites.sites.items():
        if site.platform not in sites.platforms:
            raise ConfigurationError(
                file, f"sites.{name}.platform", f"unknown {site.platform!r}; there are {', '.join(sites.platforms)}"
            )
        if site.file_system not in sites.file_systems:
            raise ConfigurationError(
                file,
                f"sites.{name}.file_system",
                f"unknown {site.file_system!r}; there are {', '.join(sites.file_systems)}",
            )
        file_system = sites.file_systems[site.file_system]
        resolved[name] = {
            "name": name,
            "platform": site.platform,
            "executor": sites.platforms[site.platform].executor,
            "file_system": site.file_system,
            "root": _expanded(file, f"file_systems.{site.file_system}.root", file_system.root),
            "cap_bytes": file_system.cap_bytes,
        }
    return resolved


def _expanded(file: Path, path: str, root: str) -> str:
    """A root with ~ and environment variables filled in, absolute."""
    environment: Mapping[str, str] = {"USER": getpass.getuser(), **os.environ}
    for name in sorted(environment, key=len, reverse=True):
        root = root.replace("${" + name + "}", environment[name]).replace("$" + name, environment[name])
    if "$" in root:
        raise ConfigurationError(file, path, f"{root}: an environment variable in it is not set")
    return str(Path(root).expanduser().absolute())


def sites_of(study: LoadedStudy, sites: Expansion, file: Path) -> list[str]:
    """Names of the sites that a study wants; raises ConfigurationError for one that is not described."""
    wanted = list(sites) if study.study.sites == "all" else list(study.study.sites)
    for name in wanted:
        if name not in sites:
            raise ConfigurationError(study.file, "sites", f"no site {name!r}; {file} has {', '.join(sites)}")
    return wanted


def largest_file_bytes(study: LoadedStudy) -> int:
    """An upper bound of the largest test file: whole unfiltered chunks, their index, and a little."""
    from hyperslab import chunks as arithmetic

    largest = 0
    for layout in study.layouts.values():
        size = study.dataset.nbytes
        if layout["chunks"]:
            shape = study.dataset.shape
            size += arithmetic.padding_bytes(shape, layout["chunks"], study.dataset.itemsize)
            nodes = arithmetic.btree_nodes(arithmetic.chunk_count(shape, layout["chunks"]))
            size += nodes * arithmetic.btree_node_bytes(len(shape))
        largest = max(largest, size)
    return largest + 2**16


def check_roots(study: LoadedStudy, names: list[str], sites: Expansion, file: Path) -> None:
    """Refuse roots that cannot be written or are too small; raises ConfigurationError before anything runs."""
    needed = largest_file_bytes(study) + RESERVE_BYTES
    for name in names:
        site = sites[name]
        root = Path(site["root"])
        path = f"file_systems.{site['file_system']}"
        existing = next(parent for parent in (root, *root.parents) if parent.exists())
        if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK) or _read_only(existing):
            raise ConfigurationError(file, f"{path}.root", f"{root} cannot be written (looked at {existing})")
        free = os.statvfs(existing).f_bavail * os.statvfs(existing).f_frsize
        free = min(free, site["cap_bytes"] or free)
        if free < needed:
            raise ConfigurationError(
                file,
                f"{path}.root",
                f"{root} has {free / 1e9:.2f} GB, but study {study.name} needs {needed / 1e9:.2f} GB for one test file",
            )


def _read_only(directory: Path) -> bool:
    return bool(os.statvfs(directory).f_flag & os.ST_RDONLY)


def prepare_root(root: str) -> None:
    """Make a root and its marker, which keeps Snakemake from removing the directory when it is empty."""
    Path(root).mkdir(parents=True, exist_ok=True)
    (Path(root) / MARKER).touch()
