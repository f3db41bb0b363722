"""Measuring under a cgroup's limit: how much I/O is enough for a mean, and what records say of it.

A limit lets bursts pass (block/blk-throttle.c of the kernel): it counts by slices of 0.1 s, and all bytes of
a slice may go at its start. Many small reads go at the speed of memory until one waits, so means count. They
can still be shorter than the limit alone would allow, since it also lets pass what pauses between operations
have left; so records say how long the limit alone would take.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from hyperslab.records import Row

# Only so many seconds of throttled I/O have a mean that says something.
ENOUGH_SECONDS = 2.0
# Operations that take less than this at the limit mostly go at the speed of bursts.
BURST_SECONDS = 0.1
# However little each repeat moves, one state has no more of them, and takes no longer to have enough.
MOST_REPEATS = 1000
MOST_SECONDS = 60.0
# How names of columns end that hold what the kernel counts.
COUNTED = (
    "requested_bytes", "requested_reads", "requested_writes", "written_bytes", "device_bytes",
    "written_by_rank", "writes_by_rank",
)  # fmt: skip

Throttle = Mapping[str, Any]


def rate(throttle: Throttle | None, direction: str) -> int | None:
    """Return the limit in bytes a second for "read" or "write" (`limits.limits_of`); None without one."""
    limit: int | None = throttle[f"{direction}_bytes_per_s"] if throttle else None
    return limit


class Limiter:
    """The limit that this process is under, if any, and when repeats under it are enough."""

    def __init__(self, throttle: Throttle | None = None) -> None:
        self._throttle = throttle
        self._deadline = 0.0

    def begin(self) -> None:
        """Begin a state, whose repeats are to be enough."""
        self._deadline = time.perf_counter() + MOST_SECONDS

    def enough(self, direction: str, moved: int, repeats: int) -> bool:
        """Return whether `moved` bytes in `repeats` make a mean; any do without a limit,
        and where nothing moves.
        """
        limit = rate(self._throttle, direction)
        if limit is None or moved == 0 or repeats >= MOST_REPEATS:
            return True
        return moved >= limit * ENOUGH_SECONDS or time.perf_counter() > self._deadline


def moved(row: Row) -> int | None:
    """Return the bytes of a repeat that a limit holds back at least; None where nobody counted them."""
    # Rewritten in memory they reach the device once; of a large page all counts, however little is written.
    names = ("written_bytes", "written_device_bytes") if row["state"] == "write" else ("device_bytes",)
    counts: list[int] = [row[name] for name in names if row.get(name) is not None]
    return min(counts, default=None)


def recorded(row: Row, throttle: Throttle | None, device_counted: bool, offered: bool) -> Row:
    """Return a repeat as its record holds it.

    What the kernel counts is None where it is not `offered` at all, and device bytes where they are not
    counted for this process. On a throttled site, `throttled_s` is how many seconds the limit alone would
    take for what the repeat moved.
    """
    of_device: tuple[str, ...] = () if device_counted else ("device_bytes",)
    uncounted = of_device if offered else COUNTED
    found = {name: None if name.endswith(uncounted) else value for name, value in row.items()}
    limit = rate(throttle, "write" if row["state"] == "write" else "read")
    # What goes to a loop device is limited and counted, whoever caches its image.
    if limit and offered and (count := moved(row)) is not None:
        found["throttled_s"] = count / limit
    return found
