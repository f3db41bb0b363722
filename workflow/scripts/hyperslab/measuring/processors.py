"""How many processors this process may use, and how many processes of it may share work."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from hyperslab.sites import mounts

MOST_PROCESSES = 4
# The control groups of this process (cgroups(7)).
OWN_GROUPS = Path("/proc/self/cgroup")


def processors() -> int:
    """Return how many processes may share work: one a core of this process, and not more than a few."""
    return min(MOST_PROCESSES, within_quota(len(os.sched_getaffinity(0))))


def within_quota(count: int) -> int:
    """Return `count`, or the whole processors, at least one, whose time this process may have if these are
    fewer.

    Which processors a container may use says nothing of how much of their time it is given.
    """
    granted = min(_quotas(), default=math.inf)
    return count if granted >= count else max(1, int(granted))


def _quotas() -> Iterator[float]:
    """Yield the quotas of this process's control group and of those around it, in processors."""
    # Without a table of mounts or of groups nothing is known of any.
    with suppress(OSError):
        for top, version in mounts.control_groups("cpu", "cpu"):
            group = top / _own(version)
            # A container may see its own group as the top, and call it by its name outside.
            for place in (group, *group.parents):
                yield _quota(place, version)
                if place == top:
                    break


def _own(version: int) -> str:
    """Return where this process's group lies below the top of those of a version."""
    for line in OWN_GROUPS.read_text("utf-8", "surrogateescape").splitlines():
        number, controllers, path = line.split(":", maxsplit=2)
        if "cpu" in controllers.split(",") if version == 1 else number == "0":
            return path.lstrip("/")
    return ""


def _quota(group: Path, version: int) -> float:
    """Return the processors whose time a control group grants; infinity where it sets no limit."""
    with suppress(OSError, ValueError):
        if version == 2:
            granted, period = map(int, (group / "cpu.max").read_text().split())
        else:
            files = (group / "cpu.cfs_quota_us", group / "cpu.cfs_period_us")
            granted, period = (int(file.read_text()) for file in files)
        # Without a limit version 2 says max, which is no number, and version 1 says -1.
        if granted > 0:
            return granted / period
    return math.inf
