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

# Only so many seconds of throttled I/O have a mean that says something.
ENOUGH_SECONDS = 2.0
# Operations that take less than this at the limit mostly go at the speed of bursts.
BURST_SECONDS = 0.1
# However little each repeat moves, one state has no more of them, and takes no longer to have enough.
MOST_REPEATS = 1000
MOST_SECONDS = 60.0

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


def recorded(row: dict[str, Any], throttle: Throttle | None, device_counted: bool) -> dict[str, Any]:
    """Return a repeat as its record holds it.

    Device bytes are None where the kernel does not count them for this process. On a throttled site,
    `throttled_s` is how many seconds the limit alone would take for what the repeat moved.
    """
    row = dict(row)
    if not device_counted:
        row |= {name: None for name in row if name.endswith("device_bytes")}
    write = row["state"] == "write"
    limit = rate(throttle, "write" if write else "read")
    moved = row.get("written_bytes" if write else "device_bytes")
    if limit and moved is not None:
        row["throttled_s"] = moved / limit
    return row
