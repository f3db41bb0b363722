"""Timed jobs never disturb each other: one lock a node and one a root, held while a cell is timed."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Keeps a root when it is empty (Snakemake removes emptied directories), and tells which directory is one.
MARKER = ".hyperslab-root"
ROOT_LOCK = ".hyperslab-lock"


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Hold an exclusive flock on `path`; yields False where the file system knows no locks."""
    # Another user's file in a sticky directory may be opened, but not with O_CREAT (fs.protected_regular).
    descriptor = os.open(path, os.O_RDWR if path.exists() else os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            held = True
        except OSError:
            held = False
        yield held
    finally:
        os.close(descriptor)


@contextmanager
def alone(root: str) -> Iterator[dict[str, bool]]:
    """Wait until no other timed job runs on this node or in `root`, then hold both locks."""
    node = Path(tempfile.gettempdir()) / "hyperslab-node.lock"
    if not node.exists():
        # Any user's jobs share this lock, whatever the umask of whoever comes first.
        os.close(os.open(node, os.O_RDWR | os.O_CREAT, 0o666))
        node.chmod(0o666)
    with _locked(node) as node_held, _locked(Path(root) / ROOT_LOCK) as root_held:
        yield {"node": node_held, "root": root_held}
