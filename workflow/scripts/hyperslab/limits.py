"""What holds a measuring process back: a throttled cgroup, and a bound on its memory."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path

# What one process of a batch leaves to the Snakemakes around it, in MB (10^6).
SNAKEMAKES_MB = 650
# Files of a cgroup that say how its I/O is throttled (version 1, version 2).
THROTTLES = (
    "blkio.throttle.read_bps_device",
    "blkio.throttle.write_bps_device",
    "blkio.throttle.read_iops_device",
    "blkio.throttle.write_iops_device",
    "io.max",
)


def join_cgroup(directory: str | None) -> dict[str, str] | None:
    """Move this process into a cgroup; returns its limits by file ("major:minor value"), None without one.

    Raises OSError where it cannot be joined, for an unthrottled time must not pass for a throttled one.
    """
    if directory is None:
        return None
    group = Path(directory)
    (group / "cgroup.procs").write_text(str(os.getpid()))
    found = {}
    for name in THROTTLES:
        with suppress(OSError):
            found[name] = (group / name).read_text().strip()
    return found


def memory_error(error: MemoryError) -> MemoryError:
    """The error with what this process may take, where `limit_memory` has set that."""
    most, _ = resource.getrlimit(resource.RLIMIT_DATA)
    if most == resource.RLIM_INFINITY:
        return MemoryError(str(error) or "there is not enough memory")
    return MemoryError(
        f"{str(error).rstrip('.') or 'there is not enough memory'}; a cell may take {most // 10**6} MB here: "
        f"memory_mb of its platform, of which Snakemake takes {SNAKEMAKES_MB}"
    )


def limit_memory(memory_mb: int | None) -> None:
    """Let this process fail by itself (MemoryError) before a scheduler kills the whole batch around it."""
    if memory_mb is None:
        return
    most = (memory_mb - SNAKEMAKES_MB) * 10**6
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
