"""The test file of a cell with what belongs to it, and its removal."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from hyperslab.formats.hdf5.split_metadata import remove_companions

# What the writer tells the reader lies beside the test file and goes with it.
NOTE = ".note.json"


def remove_test_file(path: Path) -> None:
    """Remove a test file, its note and what belongs to it elsewhere, if they are there."""
    # Ranks may have a file each, named after it.
    for name in (path, Path(f"{path}{NOTE}"), *path.parent.glob(f"{path.name}.part*")):
        with suppress(FileNotFoundError):
            name.unlink()
    remove_companions(path)


def stop_cleanly(test_file: Path, *others: Path) -> None:
    """On SIGTERM (scancel, a time limit) or SIGINT, remove test file, note and `others`, and end at once.

    Not by an exception: one raised in a destructor or a weak reference's callback, of which h5py has many,
    is ignored, and the signal with it.
    """

    def stop(number: int, _: object) -> None:
        remove_test_file(test_file)
        for path in others:
            path.unlink(missing_ok=True)
        os._exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
