"""What writing and measuring processes share: their options, their memory, and errors as one line."""

from __future__ import annotations

import argparse
import re
import resource
from pathlib import Path


def peak_memory_bytes() -> int:
    """The largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def arguments(description: str) -> argparse.ArgumentParser:
    """The options that writing and measuring share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--specification", required=True, help="the cell's specification as JSON")
    parser.add_argument("--file", required=True, type=Path, help="the test file")
    parser.add_argument("--donor", nargs="?", help="prepared donor (.npy) that fills the array, if any")
    return parser


def one_line(error: BaseException) -> str:
    """An error as the one line that a log needs."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def storage_error(error: BaseException) -> OSError | None:
    """What the file system said, where that is behind an error of h5py's; None where it is not.

    A file that could not be written cannot be closed either, which h5py reports as a RuntimeError: it hides
    the OSError of the write, or comes alone where the library wrote nothing before the close.
    """
    behind: BaseException | None = error
    while behind is not None:
        if isinstance(behind, OSError):
            return behind
        if said := re.search(r"errno = (\d+), error message = '([^']*)'", str(behind)):
            return OSError(int(said[1]), said[2])
        behind = behind.__context__
    return None
