"""Making a file so that there is either all of it or nothing: beside its place, then moved there.

The work is done by a child process. HDF5 heeds no signal while it copies a dataset, however large; the
parent does, ends the child and removes what it left.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from hyperslab.measuring.parent import end_with_parent
from hyperslab.measuring.syncing import sync_directory
from hyperslab.rewriting import RewriteError

# Whatever has such a name is of an earlier run: these are no names that files of a user have.
SUFFIX = ".hyperslab-partial"
# Where a directory waits that gives way to a new one.
ASIDE = ".hyperslab-replaced"
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# Between two looks at the child.
LOOK_S = 0.005


def partial_of(path: Path) -> Path:
    """Return where a file is made before it takes its place: beside it, on the same file system."""
    return path.with_name(path.name + SUFFIX)


def aside_of(path: Path) -> Path:
    """Return where a directory waits until another has taken its place; what lies there is removed before."""
    return path.with_name(path.name + ASIDE)


def made_whole(path: Path, work: Callable[[Path], None], directory: bool = False, mode: int = 0o666) -> int:
    """Run `work(partial)` in a child process and move what it made to `path`; returns an exit status.

    What is made is a file, or a `directory`, which `work` finds empty. It has the permissions `mode` less the
    umask, as `cp` gives them, also while it is made, when its owner may write.

    `work` raises for a failure, having said why. On failure or a signal the partial file is removed, and
    `path` stays as it was. What a killed run left is overwritten. Raises RewriteError where another run
    makes the same file, OSError where the directory cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = partial_of(path)
    made = mode | 0o700 | (mode & 0o444) >> 2 if directory else mode | 0o600
    held = _taken(partial, directory, made)
    child, moved = 0, False

    def stop(number: int, _: object) -> None:
        if child:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(child, 0)
        if not moved:
            _remove(partial)
        os._exit(128 + number)

    before = {number: signal.signal(number, stop) for number in SIGNALS}
    # A signal between fork and the note of the child's number would leave it alone.
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        _be_child(parent, work, partial)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    try:
        status = _status_of(child)
        child = 0
        if status < 0:
            sys.stderr.write(f"hyperslab.rewrite: {path}: was ended by {signal.Signals(-status).name}\n")
        if status == 0:
            os.fsync(held)
            _replace(partial, path)
            # What has this name from now on is another run's.
            moved = True
            _narrow(held, made if directory else mode)
            sync_directory(path.parent)
        return 1 if status < 0 else status
    finally:
        if not moved:
            _remove(partial)
        os.close(held)
        for number, handler in before.items():
            signal.signal(number, handler)


def _status_of(child: int) -> int:
    """Wait for a child process; returns its exit status, or that of the signal that ended it, negative."""
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        # A wait without end would not notice a signal that comes just before it begins.
        time.sleep(LOOK_S)


def _remove(path: Path) -> None:
    """Remove a file, or a directory with all that is in it, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _replace(partial: Path, path: Path) -> None:
    """Move what was made to its place; a directory that is there gives way just before."""
    if path.is_dir():
        aside = aside_of(path)
        _remove(aside)
        # A signal between the two would remove the new one while the old one has no name.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            os.rename(path, aside)
            os.rename(partial, path)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        _remove(aside)
    else:
        os.replace(partial, path)


def _narrow(descriptor: int, mode: int) -> None:
    """Take the permissions from a file that are not in `mode`; some file systems have none."""
    with suppress(OSError):
        os.fchmod(descriptor, os.fstat(descriptor).st_mode & (mode | ~0o777))


def _open_partial(partial: Path, directory: bool, mode: int) -> int:
    if not directory:
        return os.open(partial, os.O_RDWR | os.O_CREAT, mode)
    partial.mkdir(mode, exist_ok=True)
    return os.open(partial, os.O_RDONLY | os.O_DIRECTORY)


def _taken(partial: Path, directory: bool, mode: int) -> int:
    """Make or take over a partial file that nobody else is writing; returns its descriptor, locked.

    What a killed run left in a partial directory is removed.
    """
    while True:
        descriptor = _open_partial(partial, directory, mode)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise RewriteError(f"{partial}: another run is writing it") from None
        except OSError:
            # This file system knows no locks.
            return descriptor
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(partial)):
                _narrow(descriptor, mode)
                for left in partial.iterdir() if directory else ():
                    _remove(left)
                return descriptor
        # The run that held it has just moved or removed it.
        os.close(descriptor)


def _be_child(parent: int, work: Callable[[Path], None], partial: Path) -> NoReturn:
    """Live the child's whole life; it ends without running what belongs to the parent."""
    try:
        # A terminal's Ctrl-C reaches both; the parent decides.
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        end_with_parent(parent)
        work(partial)
    except BaseException:  # noqa: BLE001
        # At once: what is still open would complain about the same failure when it is destroyed.
        _leave(1)
    _leave(0)


def _leave(status: int) -> NoReturn:
    with suppress(BaseException):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)
