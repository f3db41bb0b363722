"""What the kernel counts for this process: bytes and calls asked for, bytes from the device."""

from __future__ import annotations

import os
from typing import NamedTuple


class _Parsed(NamedTuple):
    """/proc/self/io at one moment; `own_bytes` is what reading it adds to the next reading."""

    requested_bytes: int
    requested_reads: int
    written_bytes: int
    writes: int
    device_bytes: int
    own_bytes: int


class Counters:
    """An open /proc/self/io; nothing, which counts as zeros, where the kernel does not offer it."""

    def __init__(self) -> None:
        try:
            self._descriptor: int | None = os.open("/proc/self/io", os.O_RDONLY)
        except OSError:
            self._descriptor = None

    def read(self) -> bytes:
        """The counters now, for `between`; not parsed, because a stopwatch is near."""
        return b"" if self._descriptor is None else os.pread(self._descriptor, 4096, 0)


def _parsed(text: bytes) -> _Parsed:
    if not text:
        return _Parsed(0, 0, 0, 0, 0, 0)
    fields = dict(line.split(": ") for line in text.decode().splitlines())
    return _Parsed(
        int(fields["rchar"]), int(fields["syscr"]), int(fields["wchar"]), int(fields["syscw"]),
        int(fields["read_bytes"]), len(text),
    )  # fmt: skip


def between(first: bytes, second: bytes) -> dict[str, int]:
    """What happened between two readings; the reading of the counters itself is taken off."""
    before, after = _parsed(first), _parsed(second)
    return {
        "requested_bytes": max(after.requested_bytes - before.requested_bytes - before.own_bytes, 0),
        "requested_reads": max(after.requested_reads - before.requested_reads - 1, 0),
        "written_bytes": after.written_bytes - before.written_bytes,
        "requested_writes": after.writes - before.writes,
        "device_bytes": after.device_bytes - before.device_bytes,
    }
