"""Timed jobs never disturb each other: one lock a node and one a root, held while a cell is timed."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hyperslab.sites import roots

ROOT_LOCK = ".hyperslab-lock"
EVERYBODYS = "/tmp"  # noqa: S108
# Of a node without Slurm.
NODE_LOCK = "hyperslab-node.lock"
# Where the lock of a node lies instead, as for tests that run beside each other.
VARIABLE = "HYPERSLAB_LOCKS"
# Between two looks for a free one of several locks.
POLL_SECONDS = 0.1


def _opened(path: Path) -> int:
    """Return an open lock file, which any user may lock, whatever the umask of whoever comes first."""
    # Another user's file in a sticky directory may be opened, but not with O_CREAT (fs.protected_regular).
    with suppress(FileNotFoundError):
        try:
            return os.open(path, os.O_RDWR)
        except PermissionError:
            # Of whoever came before this was so. NFS alone locks nothing that cannot be written.
            return os.open(path, os.O_RDONLY)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    with suppress(OSError):
        os.fchmod(descriptor, 0o666)
    return descriptor


class HeldElsewhere(Exception):
    """A lock that another process holds; the text is its path."""


@dataclass(frozen=True)
class Lock:
    """An open lock file; `held` is False where the file system knows no locks."""

    descriptor: int
    held: bool


@contextmanager
def exclusive(path: Path, passing: bool = False, waiting: str = "", wait: bool = True) -> Iterator[Lock]:
    """Hold an exclusive flock on `path`, which is made if need be and, if `passing`, removed afterwards.

    `waiting` is printed where another process holds it; without `wait` that raises HeldElsewhere.
    """
    lock = _locked(path, waiting, wait=wait)
    while passing and not _is(lock.descriptor, path):
        # Who held it before has removed it meanwhile.
        os.close(lock.descriptor)
        lock = _locked(path, waiting, wait=wait)
    try:
        yield lock
        if passing:
            path.unlink(missing_ok=True)
    finally:
        os.close(lock.descriptor)


def _locked(path: Path, waiting: str, how: int = fcntl.LOCK_EX, wait: bool = True) -> Lock:
    descriptor = _opened(path)
    try:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                os.close(descriptor)
                raise HeldElsewhere(str(path)) from None
            if waiting:
                print(waiting, flush=True)
            fcntl.flock(descriptor, how)
    except OSError:
        return Lock(descriptor, held=False)
    return Lock(descriptor, held=True)


def _is(descriptor: int, path: Path) -> bool:
    """Return whether an open file is the one that has this path now."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _first_free(descriptors: list[int]) -> bool:
    """Wait until one of several locks is free and take it; False where the file system knows no locks."""
    while True:
        for descriptor in descriptors:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                continue
            except OSError:
                return False
        time.sleep(POLL_SECONDS)


@contextmanager
def one_of(path: Path, count: int) -> Iterator[bool]:
    """Do as `exclusive` does, for `count` holders at once, none of them beside one who is alone."""
    if count == 1:
        with exclusive(path) as lock:
            yield lock.held
        return
    descriptors = [_opened(path.with_name(f"{path.name}.{number}")) for number in range(count)]
    try:
        held = _first_free(descriptors)
        # Whoever expects to be alone there holds this one.
        beside = _locked(path, "", fcntl.LOCK_SH)
        descriptors.append(beside.descriptor)
        yield held and beside.held
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _of_node() -> Path:
    """Return the lock file of this node."""
    # Several nodes and clusters may be on one machine, as those of tests are.
    slurm = map(os.environ.get, ("SLURM_CLUSTER_NAME", "SLURMD_NODENAME"))
    # Each job and user may have a directory of temporary files of its own, which locks nothing.
    shared = EVERYBODYS if os.access(EVERYBODYS, os.W_OK) else tempfile.gettempdir()
    directory = os.environ.get(VARIABLE) or shared
    return Path(directory) / "-".join(["hyperslab", *filter(None, slurm), "node.lock"])


@contextmanager
def on_node() -> Iterator[bool]:
    """Hold the lock of this node; yields False where the file system knows no locks."""
    own = _of_node()
    with exclusive(own) as lock:
        if own.name == NODE_LOCK:
            yield lock.held
            return
        # Jobs of Slurm share what a run without Slurm on this machine has for itself.
        beside = _locked(own.with_name(NODE_LOCK), "", fcntl.LOCK_SH)
        try:
            yield lock.held and beside.held
        finally:
            os.close(beside.descriptor)


@contextmanager
def in_root(root: str) -> Iterator[bool]:
    """Wait until whoever times something else in `root` lets it, then hold its lock; yields as `one_of` does.

    A root that no run has used yet lets in one.
    """
    count = roots.read(root).concurrency if roots.is_prepared(root) else 1
    with one_of(Path(root) / ROOT_LOCK, count) as held:
        yield held


@contextmanager
def alone(root: str) -> Iterator[dict[str, bool]]:
    """Wait until no other timed job runs on this node or in `root`, then hold both locks.

    A root whose sites ask for a concurrency above one lets as many in, each on a node of its own.
    """
    with (
        on_node() as node_held,
        one_of(Path(root) / ROOT_LOCK, roots.read(root).concurrency) as root_held,
    ):
        yield {"node": node_held, "root": root_held}
