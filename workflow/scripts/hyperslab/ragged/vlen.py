"""From HDF5's variable-length type to rows with a vector of their own, and back; values are compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from hyperslab.ragged.convention import BLOCK_BYTES, RaggedError
from hyperslab.ragged.reading import RaggedRows, split
from hyperslab.ragged.writing import RaggedDataset

# Rows of a variable-length dataset, whose bytes are not known before, that are read at once.
ROWS = 4096


def element_type(dataset: h5py.Dataset) -> np.dtype[Any]:
    """Return the type of the elements of a variable-length dataset of one axis; raises RaggedError."""
    found = h5py.check_vlen_dtype(dataset.dtype)
    place = f"{dataset.file.filename}: {dataset.name}"
    if found is None or not isinstance(found, np.dtype) or found.hasobject:
        raise RaggedError(f"{place} holds {dataset.dtype}, not rows of numbers of variable length")
    if dataset.ndim != 1:
        raise RaggedError(f"{place} has {dataset.ndim} axes; rows have one")
    return found


def from_vlen(dataset: h5py.Dataset, made: Callable[[np.dtype[Any]], RaggedDataset]) -> RaggedDataset:
    """Copy the rows of a variable-length dataset to those that `made` returns for their type.

    Every row is read back and compared with the original. Returns the rows, which are flushed; raises
    RaggedError for a dataset that holds no such rows, and where a row differs.
    """
    rows = made(element_type(dataset))
    for first in range(0, len(dataset), ROWS):
        rows.append(dataset[first : first + ROWS])
    rows.flush()
    compare(dataset, rows)
    return rows


def to_vlen(rows: RaggedRows, group: h5py.Group, name: str) -> h5py.Dataset:
    """Copy rows to a new variable-length dataset `name` of `group`, compare them, and return it."""
    if name in group:
        raise RaggedError(f"{group.file.filename}: there is something called {name} already")
    made = group.create_dataset(name, (len(rows),), h5py.vlen_dtype(rows.dtype))
    first = 0
    for lengths, values in rows.blocks(BLOCK_BYTES):
        block = np.empty(len(lengths), object)
        block[:] = split(lengths, values) if len(lengths) > 1 else None
        if len(lengths) == 1:
            block[0] = values
        made[first : first + len(lengths)] = block
        first += len(lengths)
    compare(made, rows)
    return made


def compare(dataset: h5py.Dataset, rows: RaggedRows) -> None:
    """Raise RaggedError for the first row in which a variable-length dataset and rows differ."""
    place = f"{dataset.file.filename}: {dataset.name}"
    if len(dataset) != len(rows):
        raise RaggedError(f"{place} has {len(dataset):,} rows, and its copy {len(rows):,}")
    for first in range(0, len(rows), ROWS):
        pairs = zip(dataset[first : first + ROWS], rows[first : first + ROWS], strict=True)
        for number, (there, here) in enumerate(pairs, first):
            if not same(there, here):
                raise RaggedError(f"{place}: row {number} differs from its copy")


def same(there: npt.NDArray[Any], here: npt.NDArray[Any]) -> bool:
    """Return whether two rows have the same type and bytes."""
    return there.dtype == here.dtype and there.tobytes() == here.tobytes()
