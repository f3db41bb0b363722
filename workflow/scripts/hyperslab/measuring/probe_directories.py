"""Directories that probes of an advice have in a root; of a probe that was killed its own stay there."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from hyperslab.measuring import locks

# What they are called first.
PREFIX = ".hyperslab-advice-"


def sweep(root: Path) -> None:
    """Remove the directories of dead probes from a root: a living one holds the lock of its root."""
    with suppress(OSError, locks.HeldElsewhere):
        if left := list(root.glob(f"{PREFIX}*")):
            with locks.exclusive(root / locks.ROOT_LOCK, wait=False) as lock:
                for directory in left if lock.held else []:
                    shutil.rmtree(directory, ignore_errors=True)
