"""What holds a measuring process back: a throttled cgroup, and bounds on its memory and its open files."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from hyperslab.measuring import job_nodes

# What one process of a batch leaves to the Snakemakes around it, in MB (10^6).
SNAKEMAKES_MB = 650
# Descriptors that a process has beside those of the files that it reads or writes.
OTHER_FILES = 64
# Files of a cgroup that say how its I/O is throttled -> what they limit (version 1; version 2 names it).
THROTTLES = {
    "blkio.throttle.read_bps_device": "rbps",
    "blkio.throttle.write_bps_device": "wbps",
    "blkio.throttle.read_iops_device": "riops",
    "blkio.throttle.write_iops_device": "wiops",
    "io.max": "",
}


def join_cgroup(directory: str | None, devices: Collection[str]) -> dict[str, Any] | None:
    """Move this process into a cgroup; returns what it limits (`limits_of`), None without one.

    Raises OSError where it cannot be joined or limits nothing.
    """
    if directory is None:
        return None
    found = limits_of(directory, devices)
    (Path(directory) / "cgroup.procs").write_text(str(os.getpid()))
    return found


def limits_of(directory: str, devices: Collection[str]) -> dict[str, Any]:
    """Return what a cgroup limits on `devices` ("major:minor").

    Keys: `cgroup`, `limits` (the text of each of its files), and `read_bytes_per_s`, `write_bytes_per_s`,
    `reads_per_s`, `writes_per_s` (None: no limit). Raises OSError where it limits none of the devices or is
    not there, for an unthrottled time must not pass for a throttled one.
    """
    group = Path(directory)
    if not group.is_dir():
        raise FileNotFoundError(f"there is no cgroup {directory}")
    texts = {}
    for name in THROTTLES:
        with suppress(OSError):
            texts[name] = (group / name).read_text().strip()
    found: dict[str, int] = {}
    for kind, limit in rules(texts, devices):
        # Of devices that lie on each other, as LVM on a disk, the least limit holds.
        found[kind] = min(limit, found.get(kind, limit))
    if not found:
        where = ", ".join(devices) or "no block device"
        raise OSError(f"the cgroup {directory} limits no I/O of the file system under test ({where})")
    return {
        "cgroup": directory,
        "limits": texts,
        "read_bytes_per_s": found.get("rbps"),
        "write_bytes_per_s": found.get("wbps"),
        "reads_per_s": found.get("riops"),
        "writes_per_s": found.get("wiops"),
    }


def rules(texts: Mapping[str, str], devices: Collection[str]) -> Iterator[tuple[str, int]]:
    """Yield ("rbps", limit) and the like for `devices`, from the text of each file of a cgroup."""
    for name, text in texts.items():
        for line in text.splitlines():
            device, *values = line.split()
            if device not in devices:
                continue
            for value in values:
                kind, _, limit = value.rpartition("=")
                if limit != "max":
                    yield kind or THROTTLES[name], int(limit)


def allow_files(count: int, doing: str) -> None:
    """Let this process have as many files open as it may, of which `doing` needs so many.

    Raises OSError where that is too few: the soft limit, often 1,024, is any process's own to raise.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most, named, needed = hard, "ulimit -Hn", count + OTHER_FILES
    if soft < hard and needed <= hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except ValueError:
            # The kernel refuses what is beyond fs.nr_open, which may have been lowered since the login.
            most, named = soft, "ulimit -n; fs.nr_open is less than ulimit -Hn"
    if needed > most:
        raise OSError(
            errno.EMFILE,
            f"{doing} {count:,} files at once takes a limit of {needed:,} open files, which is {most:,} here "
            f"({named}): have it raised, or take fewer files",
        )


def memory_error(error: MemoryError) -> MemoryError:
    """Return the error with what this process may take, where `limit_memory` has set that."""
    most, hard = resource.getrlimit(resource.RLIMIT_DATA)
    said = str(error).rstrip(".") or "there is not enough memory"
    if most == resource.RLIM_INFINITY:
        return MemoryError(said)
    why = (
        "the node's own limit (ulimit -Hd), which is less than memory_mb"
        if most == hard
        else "the smallest memory_mb of the platforms that use its root, of which Snakemake takes "
        f"{SNAKEMAKES_MB}"
    )
    return MemoryError(f"{said}; a cell may take {most // 10**6} MB here: {why}")


def limit_memory(memory_mb: int | None) -> None:
    """Let this process fail by itself (MemoryError) before a scheduler kills the whole batch around it.

    Outside of a job nobody does, though jobs may use the same root.
    """
    if memory_mb is None or not job_nodes.in_job():
        return
    most = (memory_mb - SNAKEMAKES_MB) * 10**6
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    # A node may allow less.
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
