"""The kernel's page cache: how much of a file it holds, and how to empty, fill or write it."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
# Numbers of asm-generic system calls since Linux 5.x are the same on every architecture.
CACHESTAT = 451
# OVERLAYFS_SUPER_MAGIC of linux/magic.h; more words than a struct statfs has, of which the first is the type.
OVERLAY, WORDS = 0x794C7630, 32
# SYNC_FILE_RANGE_WRITE of linux/fs.h: begin, and do not wait.
BEGIN = 2
_libc = ctypes.CDLL(None, use_errno=True)


class NotInState(Exception):
    """The page cache could not be brought into the state that was asked for, or does not tell."""


class _Range(ctypes.Structure):
    _fields_ = [("offset", ctypes.c_uint64), ("length", ctypes.c_uint64)]


class _Statistics(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64) for name in ("cache", "dirty", "writeback", "evicted", "recently_evicted")
    ]


def _lies_over_another(descriptor: int) -> bool:
    """Return whether a file is one of overlayfs: its pages are those of another, which mmap alone sees."""
    found = (ctypes.c_long * WORDS)()
    return bool(_libc.fstatfs(descriptor, found) == 0 and found[0] == OVERLAY)


def _cachestat(descriptor: int) -> _Statistics | None:
    if _lies_over_another(descriptor):
        return None
    whole, found = _Range(0, 0), _Statistics()
    failed = _libc.syscall(CACHESTAT, descriptor, ctypes.byref(whole), ctypes.byref(found), 0)
    return None if failed else found


def _mincore(descriptor: int, size: int) -> int:
    """Return resident pages by mincore(2), for kernels before 6.5; it reports nothing for files of others."""
    pages = -(-size // PAGE)
    try:
        mapped = mmap.mmap(descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ)
    except OSError as error:
        # FUSE with direct I/O keeps no pages and gives no mapping.
        raise NotInState(f"the kernel does not tell what the page cache holds: {error.strerror}") from None
    with mapped:
        vector = (ctypes.c_ubyte * pages)()
        # A read-only mapping has no writable buffer for ctypes, so its address comes through numpy.
        import numpy as np

        address = np.frombuffer(mapped, np.uint8).ctypes.data
        _libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), vector)
        return sum(entry & 1 for entry in vector)


def begin_writeback(descriptor: int, offset: int, size: int) -> None:
    """Have the kernel begin to put bytes of a file on its device; nothing is promised before fsync."""
    if hasattr(_libc, "sync_file_range"):
        begin, length = ctypes.c_int64(offset), ctypes.c_int64(size)
        _libc.sync_file_range(descriptor, begin, length, ctypes.c_uint(BEGIN))


def method(descriptor: int) -> str:
    """Return which system call tells residency here: "cachestat" or "mincore"."""
    return "mincore" if _cachestat(descriptor) is None else "cachestat"


def resident_share(descriptors: Iterable[int]) -> float:
    """Return the share of the files' pages that are in the page cache, 0 … 1 (holes of a file never are).

    Raises NotInState where the kernel does not tell.
    """
    resident = pages = 0
    for descriptor in descriptors:
        if size := os.fstat(descriptor).st_size:
            found = _cachestat(descriptor)
            resident += _mincore(descriptor, size) if found is None else int(found.cache)
            pages += -(-size // PAGE)
    return round(resident / pages, 6) if pages else 0.0


def evict(files: Callable[[], Iterable[int]], enough: float, attempts: int = 20) -> float:
    """Drop files from the page cache; returns the share of all that stayed, or where more than `enough` of
    one of them did, the largest share of one. `files` gives their descriptors.

    Only clean pages can be dropped. Pages between the kernel's lists escape a first call, so it is repeated
    until at most `enough` of each file stays: a small one that all selections share is no hundredth of many.
    """
    largest = 1.0
    for attempt in range(attempts):
        for descriptor in files():
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        largest = max((resident_share([descriptor]) for descriptor in files()), default=0.0)
        if largest <= enough:
            return resident_share(files())
        time.sleep(0.005 * attempt)
    return largest


def evict_file(descriptor: int, enough: float, attempts: int = 20) -> float:
    """Write one file's dirty pages and drop it from the page cache; returns the share that stayed."""
    os.fsync(descriptor)
    return evict(lambda: [descriptor], enough, attempts)


def read_whole(descriptor: int, step: int = 8 * 2**20) -> None:
    """Read the file once, so that the page cache holds it as far as memory allows."""
    offset = 0
    # Not into memory of the C library's, which serves later requests otherwise once it had a large one back.
    with mmap.mmap(-1, step) as buffer:
        while count := os.preadv(descriptor, [buffer], offset):
            offset += count


def sync_file_system(path: str | Path) -> None:
    """Have the file system of `path` do now what a removed file left to do (syncfs(2)); raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if _libc.syncfs(descriptor):
            number = ctypes.get_errno()
            if number != errno.ENOSYS:
                raise OSError(number, os.strerror(number), str(path))
            os.sync()
    finally:
        os.close(descriptor)
