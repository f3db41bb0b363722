"""Files of a test artifact on other file systems, such as metadata that HDF5's split driver puts there.

They lie below that file system's root under the whole path of the data, so that no two can be mistaken.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from hyperslab.measuring import pagecache

# Roots by name of their file system, for the processes that measure: a root is no part of a specification.
VARIABLE = "HYPERSLAB_FILE_SYSTEMS"


def roots() -> dict[str, str]:
    """Return name -> root of every file system that a layout may name; empty outside of a run."""
    found: dict[str, str] = json.loads(os.environ.get(VARIABLE, "{}"))
    return found


def keep(names: Collection[str]) -> None:
    """Keep the file systems of these names alone, here and in processes that this one starts.

    A cell looks at no others: one that hangs or fails would take it along.
    """
    os.environ[VARIABLE] = json.dumps({name: root for name, root in roots().items() if name in names})


def template(file_system: str) -> str:
    """Return how the name of the other file is made from that of the data (%s); raises KeyError."""
    return f"{roots()[file_system]}%s"


def file_on(data: str | Path, file_system: str) -> Path:
    """Return the file that belongs to `data` on another file system; raises KeyError for an unknown one."""
    return _below(roots()[file_system], data)


def _below(root: str, data: str | Path) -> Path:
    return Path(f"{root}{Path(data).absolute()}")


def files_of(data: str | Path) -> list[Path]:
    """Return the files that belong to `data` on other file systems."""
    return [found for name in roots() if (found := file_on(data, name)).is_file()]


def remove(data: str | Path, known: Mapping[str, str] | None = None) -> None:
    """Remove them and the directories that were made for them alone, and let their file systems finish.

    `known` are the roots by name, where the environment does not say which there are.
    """
    for root in (roots() if known is None else known).values():
        found = _below(root, data)
        if not found.exists():
            continue
        found.unlink(missing_ok=True)
        for directory in found.parents:
            if directory == Path(root):
                break
            with suppress(OSError):
                directory.rmdir()
        pagecache.sync_file_system(root)
