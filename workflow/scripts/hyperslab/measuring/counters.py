"""What the kernel counts for this process: bytes and calls asked for, bytes from the device."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple


class _Parsed(NamedTuple):
    """/proc/self/io at one moment; `own_bytes` is what reading it adds to the next reading."""

    requested_bytes: int
    requested_reads: int
    written_bytes: int
    writes: int
    device_bytes: int
    own_bytes: int


# Enough for the seven numbers of an io file. A bytes object this short is no memory of the C library's: a
# piece of that, kept between two results, would have the next one lie in pages that it has to fault in.
LONGEST = 256

# What the kernel says of this process and of others that count, not parsed.
Reading = tuple[bytes, ...]


class Counters:
    """An open /proc/self/io, and those of other processes that work for this one (a server's).

    With `itself` false only those of the others, which `between` has to be told as well.
    Nothing, which counts as zeros, where the kernel does not offer it.
    """

    def __init__(self, processes: Sequence[int] = (), itself: bool = True) -> None:
        self._descriptors: list[int | None] = []
        for process in (*(("self",) if itself else ()), *processes):
            try:
                self._descriptors.append(os.open(f"/proc/{process}/io", os.O_RDONLY))
            except OSError:
                self._descriptors.append(None)

    def read(self) -> Reading:
        """Return the counters now, for `between`; not parsed, because a stopwatch is near."""
        return tuple(b"" if one is None else os.pread(one, LONGEST, 0) for one in self._descriptors)


def _parsed(text: bytes) -> _Parsed:
    if not text:
        return _Parsed(0, 0, 0, 0, 0, 0)
    fields = dict(line.split(": ") for line in text.decode().splitlines())
    return _Parsed(
        int(fields["rchar"]), int(fields["syscr"]), int(fields["wchar"]), int(fields["syscw"]),
        int(fields["read_bytes"]), len(text),
    )  # fmt: skip


def between(first: Reading, second: Reading, itself: bool = True) -> dict[str, int]:
    """Return what happened between two readings, summed; the reading of the counters itself is taken off."""
    before, after = [_parsed(one) for one in first], [_parsed(one) for one in second]
    # This process reads all of them, one call each.
    own_bytes, own_reads = (sum(one.own_bytes for one in before), len(before)) if itself else (0, 0)
    return {
        "requested_bytes": max(_risen(before, after, "requested_bytes") - own_bytes, 0),
        "requested_reads": max(_risen(before, after, "requested_reads") - own_reads, 0),
        "written_bytes": _risen(before, after, "written_bytes"),
        "requested_writes": _risen(before, after, "writes"),
        "device_bytes": _risen(before, after, "device_bytes"),
    }


def _risen(before: Sequence[_Parsed], after: Sequence[_Parsed], name: str) -> int:
    return sum(getattr(b, name) - getattr(a, name) for a, b in zip(before, after, strict=True))
