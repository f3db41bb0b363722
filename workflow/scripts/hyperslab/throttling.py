"""Measuring under a cgroup's limit: enough I/O for a mean, no credit saved up, and what records say of it.

A limit lets bursts pass (block/blk-throttle.c of the kernel): it counts by slices of 0.1 s, all bytes of a
slice may go at its start, and what a pause leaves unused is there for the next operation. Many small reads
then go at the speed of memory until one waits. So means count, over seconds of I/O, and what pauses between
operations leave is used up outside the stopwatch.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Only so many seconds of throttled I/O have a mean that says something.
ENOUGH_SECONDS = 2.0
# Operations that take less than this at the limit mostly go at the speed of bursts; a pause saves no more.
BURST_SECONDS = 0.1
# However little each repeat moves, one state has no more of them, and takes no longer to have enough.
MOST_REPEATS = 1000
MOST_SECONDS = 60.0
BLOCK_BYTES = 2**16

Throttle = Mapping[str, Any]


def rate(throttle: Throttle | None, direction: str) -> int | None:
    """The limit in bytes a second for "read" or "write" (`limits.limits_of`); None without one."""
    limit: int | None = throttle[f"{direction}_bytes_per_s"] if throttle else None
    return limit


class Limiter:
    """The limit that this process is under, if any; `file` lies on the same file system and may change."""

    def __init__(self, throttle: Throttle | None = None, file: Path | None = None) -> None:
        self._throttle = throttle
        self._file = file
        self._used = time.perf_counter()
        self._saved = 0.0
        self._deadline = 0.0

    def begin(self) -> None:
        """A state begins, whose repeats are to be enough."""
        self._deadline = time.perf_counter() + MOST_SECONDS

    def enough(self, direction: str, moved: int, repeats: int) -> bool:
        """Whether `moved` bytes in `repeats` make a mean; any do without a limit, and where nothing moves."""
        limit = rate(self._throttle, direction)
        if limit is None or moved == 0 or repeats >= MOST_REPEATS:
            return True
        return moved >= limit * ENOUGH_SECONDS or time.perf_counter() > self._deadline

    def used(self) -> None:
        """An operation has ended; from now on the limit saves up."""
        self._used = time.perf_counter()

    def spend(self, direction: str) -> None:
        """Move what the limit has left over since the last operation, so that the next has to keep to it."""
        limit = rate(self._throttle, direction)
        if limit is None or self._file is None:
            return
        self._saved += limit * min(time.perf_counter() - self._used, BURST_SECONDS)
        count = int(self._saved // BLOCK_BYTES)
        self._saved -= count * BLOCK_BYTES
        descriptor = os.open(self._file, os.O_RDWR | os.O_DIRECT)
        try:
            blocks = os.fstat(descriptor).st_size // BLOCK_BYTES
            with mmap.mmap(-1, BLOCK_BYTES) as buffer:
                # Random, so that no file system makes it smaller.
                buffer.write(os.urandom(BLOCK_BYTES))
                move = os.preadv if direction == "read" else os.pwritev
                for number in range(count):
                    move(descriptor, [buffer], number % blocks * BLOCK_BYTES)
            if direction == "write":
                # Some file systems (btrfs) write directly only in name.
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


def recorded(row: dict[str, Any], throttle: Throttle | None, device_counted: bool) -> dict[str, Any]:
    """A repeat as its record holds it.

    Device bytes are None where the kernel does not count them for this process. On a throttled site,
    `throttled_s` is how many seconds the limit alone would take for what the repeat moved.
    """
    row = dict(row)
    if not device_counted and "device_bytes" in row:
        row["device_bytes"] = None
    write = row["state"] == "write"
    limit = rate(throttle, "write" if write else "read")
    moved = row.get("written_bytes" if write else "device_bytes")
    if limit and moved is not None:
        row["throttled_s"] = moved / limit
    return row
