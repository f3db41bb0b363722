"""The second file of a test file: metadata that HDF5's split driver keeps on another file system.

It lies below that file system's root under the test file's whole path, so that no two can be mistaken.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from hyperslab.measuring import pagecache

# Roots by name of their file system, for the processes that measure: a root is no part of a specification.
VARIABLE = "HYPERSLAB_FILE_SYSTEMS"


def file_systems() -> dict[str, str]:
    """Name -> root of every file system that a layout may name; empty outside of a run."""
    found: dict[str, str] = json.loads(os.environ.get(VARIABLE, "{}"))
    return found


def metadata_template(file_system: str) -> str:
    """How HDF5 makes the name of the metadata file from that of the test file; raises KeyError."""
    return f"{file_systems()[file_system]}%s"


def metadata_file(path: str | Path, file_system: str) -> Path:
    """The metadata file of the test file `path`; raises KeyError for a file system that is not known."""
    return Path(metadata_template(file_system).replace("%s", str(Path(path).absolute())))


def companions(path: str | Path) -> list[Path]:
    """The files that belong to the test file `path`, wherever they lie."""
    return [found for name in file_systems() if (found := metadata_file(path, name)).exists()]


def remove_companions(path: str | Path) -> None:
    """Remove them and the directories that were made for them alone, and let their file systems finish."""
    for name, root in file_systems().items():
        found = metadata_file(path, name)
        if not found.exists():
            continue
        found.unlink(missing_ok=True)
        for directory in found.parents:
            if directory == Path(root):
                break
            with suppress(OSError):
                directory.rmdir()
        pagecache.sync_file_system(root)
