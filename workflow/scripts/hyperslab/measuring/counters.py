"""What the kernel counts for this process: bytes and calls asked for, bytes from the device."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple


class _Parsed(NamedTuple):
    """/proc/self/io at one moment; `own_bytes` is what reading it adds to the next reading."""

    requested_bytes: int
    requested_reads: int
    written_bytes: int
    writes: int
    device_bytes: int
    dirtied_bytes: int
    own_bytes: int


# Enough for the seven numbers of an io file. A bytes object this short is no memory of the C library's: a
# piece of that, kept between two results, would have the next one lie in pages that it has to fault in.
LONGEST = 256

# Less than glibc ever maps by itself, and together nearly what a thread's heap can hold (64 MiB): how much of
# that it keeps (M_TRIM_THRESHOLD) grows with what the process has freed. Pages in between are not touched.
BLOCK_BYTES, BLOCKS = 100_000, 600

# What the kernel counts of reads.
OF_READS = ("requested_bytes", "requested_reads", "device_bytes")
# What it counts of writes, with all that belongs to them.
OF_WRITES = (
    "written_bytes", "written_device_bytes", "requested_writes", "requested_bytes", "requested_reads"
)  # fmt: skip
# What is said of servers apart.
SERVER_COUNTS = ("requested_bytes", "device_bytes", "written_bytes")
# What the kernel says of this process and of others that count, not parsed.
Reading = tuple[bytes, ...]


class Counters:
    """An open /proc/self/io, and those of other processes that work for this one (a server's).

    With `itself` false only those of the others, which `between` has to be told as well.
    Nothing, which counts as zeros, where the kernel does not offer it.
    """

    def __init__(self, processes: Sequence[int] = (), itself: bool = True) -> None:
        _ask_of_overcommit()
        self._own = [_opened("self")] if itself else []
        self._processes = tuple(processes)
        self._others = [_opened(process) for process in processes]
        for descriptors in (self._own, self._others):
            # Not at the end of a process: a fork that did not close them has none of its own to close.
            weakref.finalize(self, _close, descriptors).atexit = False

    def follow(self, processes: Sequence[int]) -> None:
        """Take these other processes from now on, where they are not the same as before."""
        if self._processes == tuple(processes):
            return
        _close(self._others)
        self._processes = tuple(processes)
        self._others.extend(map(_opened, processes))

    def read(self) -> Reading:
        """Return the counters now, for `between`; not parsed, because a stopwatch is near."""
        return tuple(_said(one) for one in (*self._own, *self._others))


def offered() -> bool:
    """Return whether the kernel counts for this process at all."""
    if (descriptor := _opened("self")) is None:
        return False
    os.close(descriptor)
    return True


def _opened(process: int | str) -> int | None:
    try:
        return os.open(f"/proc/{process}/io", os.O_RDONLY)
    except OSError:
        return None


def _close(descriptors: list[int | None]) -> None:
    while descriptors:
        if (descriptor := descriptors.pop()) is not None:
            os.close(descriptor)


def _said(descriptor: int | None) -> bytes:
    if descriptor is None:
        return b""
    try:
        return os.pread(descriptor, LONGEST, 0)
    except ProcessLookupError:
        # A server that has ended; who asked it will find out.
        return b""


@cache
def _ask_of_overcommit() -> None:
    """Have the C library read now what it reads once in a process, so that no selection is counted for it.

    When a thread's heap first shrinks, glibc reads one byte of /proc/sys/vm/overcommit_memory
    (check_may_shrink_heap in its malloc-sysdep.h). Which selection that falls into is chance.
    """
    thread = threading.Thread(target=_shrink_own_heap)
    thread.start()
    thread.join()


def _shrink_own_heap() -> None:
    """Take memory from this thread's heap and give all of it back."""
    library = ctypes.CDLL(None)
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    library.free.argtypes = [ctypes.c_void_p]
    # The last one first: what is freed lies at the end of the heap, which can shrink.
    for block in reversed([library.malloc(BLOCK_BYTES) for _ in range(BLOCKS)]):
        library.free(block)


def _parsed(text: bytes) -> _Parsed:
    if not text:
        return _Parsed(0, 0, 0, 0, 0, 0, 0)
    fields = dict(line.split(": ") for line in text.decode().splitlines())
    return _Parsed(
        int(fields["rchar"]), int(fields["syscr"]), int(fields["wchar"]), int(fields["syscw"]),
        int(fields["read_bytes"]), int(fields["write_bytes"]) - int(fields["cancelled_write_bytes"]),
        len(text),
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
        # Fewer where what was written before is removed before the device has it.
        "written_device_bytes": max(_risen(before, after, "dirtied_bytes"), 0),
    }


def of_servers(first: Reading, second: Reading, itself: bool = True) -> dict[str, int]:
    """Return the same of the other processes alone, each name with server_ before it; nothing without any."""
    mine = 1 if itself else 0
    if len(first) <= mine:
        return {}
    found = between(first[mine:], second[mine:], itself=False)
    return {f"server_{name}": found[name] for name in SERVER_COUNTS}


def _risen(before: Sequence[_Parsed], after: Sequence[_Parsed], name: str) -> int:
    return sum(getattr(b, name) - getattr(a, name) for a, b in zip(before, after, strict=True))


# Columns of requests by kind -> what a gateway calls requests of that kind.
WIRE_KINDS = {"gets": ("get",), "heads": ("head",), "lists": ("list",), "puts": ("put", "post")}


class Passed(NamedTuple):
    """What has passed on the wire to an object store: requests, those of each of WIRE_KINDS, bytes to the
    client and from it, requests that failed, and those that the gateway refused.
    """

    requests: int
    kinds: Mapping[str, int]
    sent: int
    received: int
    failures: int
    refused: int

    def columns(self, opening: bool = False) -> dict[str, int]:
        """Return columns of a repeat: of a selection, or of opening what it is read from."""
        before = "open" if opening else "wire"
        return {
            f"{before}_requests": self.requests,
            f"{before}_wire_bytes" if opening else "wire_bytes": self.sent,
            **{f"{before}_{name}": number for name, number in self.kinds.items()},
            "wire_failures": self.failures,
            "wire_refused": self.refused,
        }

    def upload_columns(self) -> dict[str, int]:
        """Return columns of what was put: requests that put, bytes from the client, failures."""
        return {
            "upload_requests": self.kinds["puts"],
            "upload_bytes": self.received,
            "upload_failures": self.failures,
        }


def on_wire(before: Mapping[str, int], after: Mapping[str, int]) -> Passed | None:
    """Return what has passed between two readings of `Artifact.wire`; None where there is no wire."""
    if not after:
        return None

    def risen(*names: str) -> int:
        return sum(after.get(name, 0) - before.get(name, 0) for name in names)

    kinds = {name: risen(*(f"{kind}_requests" for kind in of)) for name, of in WIRE_KINDS.items()}
    failed, refused = risen("failed"), risen("refused")
    return Passed(risen("requests"), kinds, risen("sent"), risen("received"), failed, refused)
