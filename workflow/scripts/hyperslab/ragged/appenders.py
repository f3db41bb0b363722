"""One appender of rows at a time: by name within a process, and by a lock of the file between processes.

HDF5's own lock refuses a second writer where it is in force. Where it is not (HDF5_USE_FILE_LOCKING=FALSE, or
a file system without it), two writers would write over each other. So whoever appends locks one byte far
behind the file's end, which no reader of HDF5 asks for, and no lock of HDF5 covers on Linux.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
import weakref
from typing import TYPE_CHECKING, Any

import h5py

from .convention import RaggedError

if TYPE_CHECKING:
    from .writing import RaggedDataset

# Those that append in this process, by file and address of the primary dataset.
_APPENDERS: weakref.WeakValueDictionary[tuple[int, Any], RaggedDataset] = weakref.WeakValueDictionary()
# The byte that is locked, and C's struct flock on Linux: type, whence, start, length, process.
BYTE = 2**62
FLOCK = struct.Struct("hhqqi4x")


def key_of(primary: h5py.Dataset) -> tuple[int, Any]:
    """Return what tells a dataset from all others that this process has open."""
    info = h5py.h5o.get_info(primary.id)
    return (info.fileno, info.addr)


def enter(rows: RaggedDataset, place: str) -> tuple[int, Any]:
    """Note who appends, and return the key to `leave` with; raises RaggedError where somebody else does."""
    key = key_of(rows.primary)
    if _APPENDERS.get(key) is not None:
        raise RaggedError(f"{place} has another appender; close that first")
    if not _locked(rows.primary.file, lock=True):
        raise RaggedError(f"{place}: another process appends to this file; it has to close it first")
    _APPENDERS[key] = rows
    return key


def leave(rows: RaggedDataset, key: tuple[int, Any]) -> None:
    """Let others append; the file is theirs, too, when nobody here appends to any rows of it."""
    _APPENDERS.pop(key, None)
    if rows.primary and not any(fileno == key[0] for fileno, _ in _APPENDERS):
        _locked(rows.primary.file, lock=False)


def _locked(file: h5py.File, lock: bool) -> bool:
    """Hold the file for this process, or let go of it; returns False where another process holds it.

    The lock is that of the open file (F_OFD_SETLK): closing the file ends it. Where there are no such locks
    nothing is locked.
    """
    return file.driver != "sec2" or _asked(file.id.get_vfd_handle(), lock)


def free(descriptor: int) -> bool:
    """Return whether nobody appends to an open file, which is then held by this descriptor."""
    return _asked(descriptor, lock=True)


def open_elsewhere(descriptor: int) -> bool:
    """Return whether HDF5 has a file open, as far as its locks say: one writer with many readers has none."""
    if sys.platform != "linux":
        return False
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    except OSError as error:
        return error.errno in (errno.EAGAIN, errno.EACCES)
    # Over NFS all bytes were let go of, that of the appender among them.
    return not free(descriptor)


def _asked(descriptor: int, lock: bool) -> bool:
    if sys.platform != "linux":
        return True
    import fcntl

    kind = fcntl.F_WRLCK if lock else fcntl.F_UNLCK
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, FLOCK.pack(kind, os.SEEK_SET, BYTE, 1, 0))
    except OSError as error:
        return error.errno not in (errno.EAGAIN, errno.EACCES)
    return True
