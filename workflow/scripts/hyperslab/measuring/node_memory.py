"""Workers as nodes of little memory: each in a control group of its own, whose limit counts page cache, too.

The kernel charges a page of its cache to the group that read it first, and a group at its limit gives up
pages of its own. So workers on one machine keep together what as many nodes would. A real node would not find
what another one has read, which workers of one machine do.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from hyperslab.sites import mounts

# The groups of workers begin so; the rest is the worker's process.
NAME = "hyperslab-node-"
# Version of the groups -> the file of one that holds the limit.
LIMITS = {1: "memory.limit_in_bytes", 2: "memory.max"}


def join(limit: int | None) -> None:
    """Hold this process, with the page cache that it fills, to so many bytes; to nothing without a limit.

    Raises OSError, with the reason in one line, where that cannot be had.
    """
    if limit is None:
        return
    if wrong := mistake():
        raise OSError(wrong)
    top, version = next(_hierarchies())
    group = top / f"{NAME}{os.getpid()}"
    if version == 2:
        (top / "cgroup.subtree_control").write_text("+memory")
    group.mkdir(exist_ok=True)
    (group / LIMITS[version]).write_text(str(limit))
    (group / "cgroup.procs").write_text(str(os.getpid()))


def tidy() -> None:
    """Remove the groups of workers that have ended, also those of a cell that was killed."""
    for top, _ in _hierarchies():
        for group in top.glob(f"{NAME}*"):
            # One whose worker lives is not removed.
            with suppress(OSError):
                group.rmdir()


def mistake() -> str | None:
    """Return why no worker can be held to a memory of its own, None where that can be had."""
    found = next(_hierarchies(), None)
    if found is None:
        return "node_memory_bytes: no control groups of memory are mounted here"
    if not os.access(found[0], os.W_OK):
        return f"node_memory_bytes: a control group of memory cannot be made in {found[0]}; only root may"
    return None


def leaves_others() -> bool:
    """Return whether a worker in a group of its own is in no other, as in version 2 of the groups."""
    return any(version == 2 for _, version in _hierarchies())


def _hierarchies() -> Iterator[tuple[Path, int]]:
    """Yield where groups that limit memory are made, and their version."""
    return mounts.control_groups("memory", "memory")
