"""Where a donor lies: a path in a study may hold ~ and $VARIABLES, and name a dataset as FILE::DATASET."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SEPARATOR = "::"
VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")


# An HDF5 file begins with it, or has it after a user block of this size, or twice, four times ... of it.
SIGNATURE = b"\x89HDF\r\n\x1a\n"
SMALLEST_USER_BLOCK = 512


class NotThere(ValueError):
    """A donor's path cannot be known; one line that says why."""


def located(donor: Mapping[str, Any]) -> tuple[Path, str | None]:
    """Return the file and dataset of a donor as a study gives it;
    raises NotThere for a variable that is not set.
    """

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name not in os.environ:
            raise NotThere(
                f"{donor['path']}: the environment variable {name} is not set; it should name a file of real "
                f"data, as FILE or FILE{SEPARATOR}DATASET"
            )
        return os.environ[name]

    file, _, dataset = VARIABLE.sub(value, donor["path"]).partition(SEPARATOR)
    try:
        return Path(file).expanduser(), donor.get("dataset") or dataset or None
    except RuntimeError:
        raise NotThere(f"{donor['path']}: there is no such user") from None


def identity(donor: Mapping[str, Any]) -> str | None:
    """Return which donor a path with variables stands for here, without the directory it lies in.

    None for a path without variables, which says it itself, and where a variable is not set.
    """
    if not VARIABLE.search(donor["path"]):
        return None
    try:
        file, dataset = located(donor)
    except NotThere:
        return None
    # A dataset's path begins at the root, whether or not somebody wrote so.
    return f"{file.name}{SEPARATOR}/{dataset.lstrip('/')}" if dataset else file.name


def is_hdf5(file: Path) -> bool:
    """Return whether a file is HDF5 by its content, whatever it is called; raises OSError."""
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        size, place = file.stat().st_size, 0
        while place + len(SIGNATURE) <= size:
            opened.seek(place)
            if opened.read(len(SIGNATURE)) == SIGNATURE:
                return True
            place = 2 * place or SMALLEST_USER_BLOCK
    return False
