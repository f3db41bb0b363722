"""New datasets: their binary files first, and last the description, without which nobody finds a dataset.

So what a killed writer leaves does not look finished.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from hyperslab.formats.idx import description
from hyperslab.formats.idx import files as binary
from hyperslab.formats.idx.writing import file_of
from hyperslab.layouts.idx_files import DESCRIPTION, UNFINISHED, IdxFiles


def make_directory(path: str) -> None:
    """Make the directory of a dataset; raises FileExistsError where there is one."""
    os.makedirs(path)


def create_files(path: str, files: IdxFiles) -> None:
    """Make the directory and all binary files, with room for every block of no codec."""
    make_directory(path)
    for time in range(files.times):
        for first in files.files.tolist():
            create_file(path, files, time, first)


def create_file(path: str, files: IdxFiles, time: int, first: int) -> None:
    """Make a binary file with its headers."""
    size = files.file_bytes(first) if files.codec == "raw" else files.data_start
    binary.create(file_of(path, files, time, first), binary.planned_headers(files, first), size)


def describe(path: str, files: IdxFiles, dtype: np.dtype[Any]) -> None:
    """Write the description of a dataset whose files are all there; it appears whole."""
    Path(path, UNFINISHED).write_text(description.written(files, dtype.name), encoding="utf-8")
    finish(path)


def finish(path: str) -> None:
    """Give a description the name under which it is found."""
    os.replace(os.path.join(path, UNFINISHED), os.path.join(path, DESCRIPTION))
