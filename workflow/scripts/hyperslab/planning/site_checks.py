"""What is checked of sites before anything runs: that a study names them, and that roots have room."""

from __future__ import annotations

import fnmatch
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hyperslab.layouts import layout_of
from hyperslab.measuring import limits, machine, read_ahead
from hyperslab.sites import mounts
from hyperslab.sites.configuration import Expansion, Resolved
from hyperslab.studies.case_kinds import kind_of, measured_at
from hyperslab.studies.case_kinds.workers import RankWrites
from hyperslab.studies.dataset_schema import Dataset
from hyperslab.studies.study import LoadedStudy
from hyperslab.text import megabytes
from hyperslab.validation.errors import ConfigurationError
from hyperslab.validation.nearest import choices

# Kept free on every file system: the probe file, the notes of writers, and the file system's own structures.
RESERVE_BYTES = 64 * 2**20
RESERVE_FILES = 16
# Where less is left, neither records nor the logs that would say why can be written.
RESULTS_BYTES = 2**20


def sites_of(study: LoadedStudy, sites: Expansion, file: Path, elsewhere: Sequence[str] = ()) -> list[str]:
    """Return the names of the sites that a study wants;
    raises ConfigurationError for one that is not described.

    All sites are those that can hold its layouts. Those of `elsewhere` need no description: their results
    were measured on other machines.
    """
    known = [*sites, *elsewhere]
    without = unfit(study, sites)
    fit = [name for name in known if name not in without]
    wanted = fit if study.study.sites == "all" else list(study.study.sites)
    for name in wanted:
        if name not in known:
            own = study.study.sites_file
            how = f"; its own are in another file: --config sites={own.file}" if own else ""
            message = f"no site {name!r}; {file} has {choices(name, sites)}{how}"
            raise ConfigurationError(study.file, "sites", message)
        if wanted.count(name) > 1:
            raise ConfigurationError(study.file, "sites", f"{name!r} is named twice")
    prices = study.study.prices
    for key in ("stored_at", "out_at") if prices else ():
        for name in getattr(prices, key):
            if name not in known:
                message = f"no site {name!r}; {file} has {choices(name, sites)}"
                raise ConfigurationError(study.file, f"prices.{key}", message)
    for case, resolved in study.cases.items():
        for pattern in resolved["sites"]:
            if not fnmatch.filter(known, pattern):
                where = f"cases.{case}.sites"
                raise ConfigurationError(
                    study.file, where, f"{pattern!r} matches no site; {file} has {choices(pattern, sites)}"
                )
        if not any(fnmatch.filter(wanted, pattern) for pattern in resolved["sites"]):
            message = f"none of them is a site of this study, which has {', '.join(wanted)}"
            raise ConfigurationError(study.file, f"cases.{case}.sites", message)
    return wanted


def unfit(study: LoadedStudy, sites: Expansion) -> dict[str, str]:
    """Return why a study that is measured at all sites leaves some out: they can hold none of its layouts.

    There are none where no site would be left.
    """
    found: dict[str, str] = {}
    for name, site in sites.items() if study.study.sites == "all" else ():
        store = site["store"] is not None
        here = [kept for case, kept in study.kept_in_stores.items() if measured_at(study.cases[case], name)]
        if here and not any(store in kept for kept in here):
            is_a = "it is an object store" if store else "it is no object store"
            found[name] = f"{is_a}, and no layout of the study can lie there"
    return found if len(found) < len(sites) else {}


def largest_bytes(study: LoadedStudy, sites: Sequence[str] = ()) -> int:
    """Return an upper bound of the bytes of one cell's test artifact, at any of `sites`, or of all cells."""

    @cache
    def bound(name: str, shape: tuple[int, ...], arrays: int) -> int:
        return layout_of(study.layouts[name]).largest_bytes(_array(study, shape), arrays)

    found = 0
    for case in _cases(study, sites):
        kind = kind_of(case)
        for name in case["layouts"]:
            beyond = kind.beyond_bytes(case, study.dataset, layout_of(study.layouts[name]))
            found = max(found, bound(name, tuple(case["shape"]), kind.arrays(case)) + beyond)
    return found


def largest_files(study: LoadedStudy, sites: Sequence[str] = ()) -> int:
    """Return an upper bound of the files and directories of one cell's test artifact, as `largest_bytes`."""
    wanted = {(name, tuple(case["shape"])) for case in _cases(study, sites) for name in case["layouts"]}
    return max(
        (layout_of(study.layouts[name]).largest_files(_array(study, shape)) for name, shape in wanted),
        default=0,
    )


def _cases(study: LoadedStudy, sites: Sequence[str]) -> list[Mapping[str, Any]]:
    """Return the cases of a study that are measured at one of `sites`; all if none is named."""
    cases = study.cases.values()
    return [case for case in cases if not sites or any(measured_at(case, site) for site in sites)]


def _array(study: LoadedStudy, shape: tuple[int, ...]) -> Dataset:
    """Return the part of the dataset that a case stores."""
    return study.dataset.model_copy(update={"shape": list(shape)})


def _copies(study: LoadedStudy, site: Resolved, sites: Sequence[str]) -> int:
    """Return how often a root holds data once more: copied to be read, or written plainly while what ranks
    wrote still lies there, and as objects of a store there.
    """
    store, cases = site["store"] or {}, _cases(study, sites)
    beside = any(case.get("fetch") or isinstance(kind_of(case), RankWrites) for case in cases)
    return beside + (store.get("start") == "versitygw")


def check_roots(
    study: LoadedStudy,
    names: list[str],
    sites: Expansion,
    file: Path,
    at_once: Mapping[str, int] | None = None,
    copied: int = 0,
) -> None:
    """Raise ConfigurationError, before anything runs, for a root that cannot be written or is too small.

    `at_once` says of sites how many test artifacts lie there side by side, where it is more than one. Bytes
    `copied` of a donor come to lie beside the results, which may be on the same file system.
    """
    # Parts of what is measured at one site may lie at another.
    spread = any(layout_of(layout).other_file_systems() for layout in study.layouts.values())
    for name in names:
        site, measured = sites[name], names if spread else [name]
        copies, number = _copies(study, site, measured), (at_once or {}).get(name, 1)
        needed = number * (1 + copies) * largest_bytes(study, measured) + RESERVE_BYTES
        files = number * largest_files(study, measured) + RESERVE_FILES
        artifacts = "one test artifact" if number == 1 else f"{number} test artifacts at once"
        what = f"{artifacts} and what is copied of {'it' if number == 1 else 'them'}" if copies else artifacts
        root = Path(site["root"])
        path = f"file_systems.{site['file_system']}"
        existing = mounts.existing(root)
        if not _writable(existing):
            raise ConfigurationError(file, f"{path}.root", f"{root} cannot be written (tried in {existing})")
        there = os.statvfs(existing)
        free = there.f_bavail * there.f_frsize
        in_memory = mounts.mount_of(existing).in_memory
        if in_memory and not free and not there.f_blocks:
            # A ramfs, and a tmpfs without a limit, count no blocks.
            free = sys.maxsize
        leave = ""
        if copied and os.stat(existing).st_dev == os.stat(mounts.existing(Path("results").absolute())).st_dev:
            free, leave = free - copied, " beside what is copied of its donor"
        free = min(free, site["cap_bytes"] or free)
        if in_memory and (left := machine.available_memory_bytes()) < free:
            # How large it may become says nothing of what programs hold.
            free, leave = left, " of memory that programs leave"
        if free < needed:
            raise ConfigurationError(
                file,
                f"{path}.root",
                f"{root} has {free / 1e9:.2f} GB{leave}, but study {study.name} needs "
                f"{needed / 1e9:.2f} GB for {what}",
            )
        # A file system that makes inodes as it needs them counts none, or says -1.
        if there.f_files and 0 <= there.f_favail < files:
            raise ConfigurationError(
                file,
                f"{path}.root",
                f"{root} has room for {there.f_favail:,} files, but study {study.name} needs {files:,} for "
                f"{artifacts}; take shards or larger chunks, or a file system with more inodes",
            )


def check_read_ahead(names: Sequence[str], sites: Expansion, file: Path) -> None:
    """Raise ConfigurationError where a site of this node sets the read-ahead of its device, and cannot."""
    for name in names:
        site = sites[name]
        if site["read_ahead_bytes"] is None:
            continue
        existing = str(mounts.existing(Path(site["root"])))
        if wrong := read_ahead.mistake(existing, mounts.read_ahead_setting(existing)):
            raise ConfigurationError(file, f"file_systems.{site['file_system']}.read_ahead_bytes", wrong)


def check_cgroups(names: Sequence[str], sites: Expansion, file: Path) -> None:
    """Raise ConfigurationError where a site of this node has a cgroup that does not throttle it, or that
    nobody here may join.
    """
    for name in names:
        site = sites[name]
        if site["cgroup"] is None:
            continue
        members = Path(site["cgroup"]) / "cgroup.procs"
        try:
            limits.limits_of(site["cgroup"], mounts.block_devices(mounts.existing(Path(site["root"]))))
            if not os.access(members, os.W_OK):
                raise PermissionError(f"{members} cannot be written")
        except OSError as error:
            path = f"file_systems.{site['file_system']}.cgroup"
            raise ConfigurationError(file, path, str(error)) from None


def check_results(needed: int = 0, what: str = "") -> None:
    """Raise ConfigurationError where results cannot be written, or their file system is full or lacks room.

    `needed` bytes of `what` come to lie there beside records and logs.
    """
    results = Path("results").absolute()
    if results.is_symlink() and not results.exists():
        raise ConfigurationError(results, "", f"leads to {results.readlink()}, which is not there")
    there = os.statvfs(mounts.existing(results))
    free = there.f_bavail * there.f_frsize
    if needed and free < RESULTS_BYTES + needed:
        raise ConfigurationError(results, "", f"has no room for {megabytes(needed)} of {what}")
    if free < RESULTS_BYTES or (there.f_files and 0 <= there.f_favail < RESERVE_FILES):
        said = (
            f"its file system is full ({free / 1e6:.1f} MB, {max(there.f_favail, 0):,} files left): neither "
        )
        raise ConfigurationError(results, "", f"{said}records nor logs can be written")
    if not _writable(mounts.existing(results)):
        raise ConfigurationError(results, "", "cannot be written")


def _writable(directory: Path) -> bool:
    # Permissions tell a superuser nothing; a nameless file leaves no trace.
    try:
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


def check_reader(study: LoadedStudy, names: list[str], sites: Expansion) -> None:
    """Raise ConfigurationError where another node is to read than wrote, and a site cannot do that."""
    if study.study.reader == "any":
        return
    for name in names:
        if sites[name]["executor"] == "local" or sites[name]["node_local"]:
            raise ConfigurationError(
                study.file,
                "reader",
                f"other-node needs a file system that nodes share, which {name!r} has not",
            )
