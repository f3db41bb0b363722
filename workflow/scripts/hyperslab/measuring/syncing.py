"""Making what was written last: the bytes of a file, and its name in a directory."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def fsync(path: Path) -> None:
    """Hand one file to the device."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(directory: Path) -> None:
    """Make a renaming last; some file systems cannot."""
    with suppress(OSError):
        fsync(directory)
