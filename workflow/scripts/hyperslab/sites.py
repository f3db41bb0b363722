"""Sites as config/sites.yaml gives them: platforms, file systems, and the pairs that a study may name."""

from __future__ import annotations

import fnmatch
import getpass
import os
import re
import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from hyperslab import chunks as arithmetic
from hyperslab.errors import ConfigurationError, read_yaml, validate
from hyperslab.locks import MARKER
from hyperslab.schema import Count, Name, Strict
from hyperslab.study import LoadedStudy

# Kept free on every file system: the probe file, the notes of writers, and the file system's own structures.
RESERVE_BYTES = 64 * 2**20


class Platform(Strict):
    """Where jobs run: this machine, or nodes of a Slurm partition."""

    executor: Literal["local", "slurm"] = "local"


class FileSystem(Strict):
    """Where test files lie."""

    root: str
    cap_bytes: Count | None = None


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
                file,
                f"sites.{name}.platform",
                f"unknown {site.platform!r}; there are {', '.join(sites.platforms)}",
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

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name in os.environ:
            return os.environ[name]
        if name == "USER":
            return getpass.getuser()
        raise ConfigurationError(file, path, f"{root}: the environment variable {name} is not set")

    expanded = re.sub(r"\$(?:(\w+)|\{(\w+)\})", value, root)
    try:
        return str(Path(expanded).expanduser().absolute())
    except RuntimeError:
        raise ConfigurationError(file, path, f"{root}: there is no such user") from None


def sites_of(study: LoadedStudy, sites: Expansion, file: Path) -> list[str]:
    """Names of the sites that a study wants; raises ConfigurationError for one that is not described."""
    wanted = list(sites) if study.study.sites == "all" else list(study.study.sites)
    for name in wanted:
        if name not in sites:
            raise ConfigurationError(study.file, "sites", f"no site {name!r}; {file} has {', '.join(sites)}")
        if wanted.count(name) > 1:
            raise ConfigurationError(study.file, "sites", f"{name!r} is named twice")
    for case, resolved in study.cases.items():
        for pattern in resolved["sites"]:
            if not fnmatch.filter(sites, pattern):
                where = f"cases.{case}.sites"
                raise ConfigurationError(
                    study.file, where, f"{pattern!r} matches no site; {file} has {', '.join(sites)}"
                )
    return wanted


def largest_file_bytes(study: LoadedStudy) -> int:
    """An upper bound of the largest test file: whole unfiltered chunks, their index, and a little."""
    largest = 0
    for layout in study.layouts.values():
        size = study.dataset.nbytes
        if layout["chunks"]:
            shape = study.dataset.shape
            size += arithmetic.padding_bytes(shape, layout["chunks"], study.dataset.itemsize)
            chunks = arithmetic.chunk_count(shape, layout["chunks"])
            # What cannot be compressed grows by up to 0.1 % and 12 bytes a chunk (H5Z_DEFLATE_SIZE_ADJUST).
            size += len(layout["filters"]) * (size // 1000 + 16 * chunks)
            size += arithmetic.btree_nodes(chunks) * arithmetic.btree_node_bytes(len(shape))
        largest = max(largest, size)
    return largest + 2**16


def check_roots(study: LoadedStudy, names: list[str], sites: Expansion, file: Path) -> None:
    """ConfigurationError, before anything runs, for a root that cannot be written or is too small."""
    needed = largest_file_bytes(study) + RESERVE_BYTES
    for name in names:
        site = sites[name]
        root = Path(site["root"])
        path = f"file_systems.{site['file_system']}"
        existing = next(parent for parent in (root, *root.parents) if os.path.exists(parent))
        if not _writable(existing):
            raise ConfigurationError(file, f"{path}.root", f"{root} cannot be written (tried in {existing})")
        free = os.statvfs(existing).f_bavail * os.statvfs(existing).f_frsize
        free = min(free, site["cap_bytes"] or free)
        if free < needed:
            raise ConfigurationError(
                file,
                f"{path}.root",
                f"{root} has {free / 1e9:.2f} GB, but study {study.name} needs {needed / 1e9:.2f} GB for one "
                "test file",
            )


def _writable(directory: Path) -> bool:
    # Permissions tell a superuser nothing; a nameless file leaves no trace.
    try:
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


def prepare_root(root: str) -> None:
    """Make a root and its marker, which keeps Snakemake from removing the directory when it is empty."""
    Path(root).mkdir(parents=True, exist_ok=True)
    (Path(root) / MARKER).touch()
