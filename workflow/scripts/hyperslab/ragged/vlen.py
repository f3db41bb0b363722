"""From HDF5's variable-length type to rows with a vector of their own, and back; values are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from .convention import BLOCK_BYTES, RaggedError
from .opening import enumerations
from .reading import RaggedRows, split
from .writing import RaggedDataset, write_run

# Rows of a variable-length dataset that are read at once: as few at first, since nobody knows how long they
# are, and never more.
FIRST_ROWS, ROWS = 64, 4096
Block = tuple[npt.NDArray[np.int64], npt.NDArray[Any]]


def element_type(dataset: h5py.Dataset) -> np.dtype[Any]:
    """Return the type of the elements of a variable-length dataset of one axis; raises RaggedError."""
    place = f"{dataset.file.filename}: {dataset.name}"
    try:
        found = h5py.check_vlen_dtype(dataset.dtype)
    except (TypeError, ValueError):
        raise RaggedError(f"{place} is of a type that numpy has not, not rows of variable length") from None
    if found is None or not isinstance(found, np.dtype) or found.hasobject:
        raise RaggedError(f"{place} holds {dataset.dtype}, not rows of numbers of variable length")
    if dataset.ndim != 1:
        raise RaggedError(f"{place} has {dataset.ndim} axes; rows have one")
    return found


def from_vlen(dataset: h5py.Dataset, made: Callable[[np.dtype[Any]], RaggedDataset]) -> RaggedDataset:
    """Copy the rows of a variable-length dataset to those that `made` returns for their type.

    Every row is read back and compared with the original. Returns the rows, which are flushed; raises
    RaggedError for a dataset that holds no such rows, where `made` returns rows of another type, and where a
    row differs.
    """
    rows = made(element_type(dataset))
    _check_type(dataset, rows)
    for lengths, values in vlen_blocks(dataset, rows.dtype):
        rows.append_block(lengths, values)
    rows.flush()
    compare(dataset, rows)
    return rows


def to_vlen(rows: RaggedRows, group: h5py.Group, name: str) -> h5py.Dataset:
    """Copy rows to a new variable-length dataset `name` of `group`, compare them, and return it."""
    if name in group:
        raise RaggedError(f"{group.file.filename}: there is something called {name} already")
    made = group.create_dataset(name, (len(rows),), h5py.vlen_dtype(rows.dtype))
    fill_vlen(made, rows.blocks(BLOCK_BYTES))
    compare(made, rows)
    return made


def vlen_blocks(dataset: h5py.Dataset, dtype: np.dtype[Any]) -> Iterator[Block]:
    """Yield all rows of a variable-length dataset in blocks of about BLOCK_BYTES: lengths, and values."""
    raw = not dtype.isnative and _comes_raw()
    first, step = 0, FIRST_ROWS
    while first < len(dataset):
        found = dataset[first : first + step]
        lengths = np.fromiter(map(len, found), np.int64, len(found))
        # An empty row may come as an array of another type.
        rows = [row.view(dtype) if raw else row for row in found if len(row)]
        # Of another type than `dtype` there is nothing; bytes may be in another order.
        yield lengths, np.concatenate([np.empty(0, dtype), *rows], dtype=dtype, casting="equiv")
        first += len(found)
        mean = max(1, int(lengths.sum()) * dtype.itemsize // len(found))
        step = max(1, min(BLOCK_BYTES // mean, 4 * step, ROWS))


@cache
def _comes_raw() -> bool:
    """Return whether this h5py hands out rows of foreign byte order as if their bytes were native.

    3.16 does; what it writes is right.
    """
    dtype = np.dtype(np.int16).newbyteorder("S")
    with h5py.File("foreign", "w", driver="core", backing_store=False) as file:
        dataset = file.create_dataset("rows", (1,), h5py.vlen_dtype(dtype))
        dataset[0] = np.array([1], dtype)
        return bool(dataset[0][0] != 1)


def fill_vlen(dataset: h5py.Dataset, blocks: Iterable[Block]) -> None:
    """Write rows to a variable-length dataset that has room for all of them."""
    first = 0
    for lengths, values in blocks:
        rows = np.empty(len(lengths), dataset.dtype)
        # One by one: numpy, and h5py's indexing, would make rows of one length an array of two axes.
        for number, row in enumerate(split(lengths, values)):
            rows[number] = row
        if len(rows):
            write_run(dataset, first, rows)
        first += len(rows)


def compare(dataset: h5py.Dataset, rows: RaggedRows) -> None:
    """Raise RaggedError for the first row in which both differ, and where they are of different types."""
    _check_type(dataset, rows)
    place = f"{dataset.file.filename}: {dataset.name}"
    if len(dataset) != len(rows):
        raise RaggedError(f"{place} has {len(dataset):,} rows, and its copy {len(rows):,}")
    first = 0
    for lengths, values in vlen_blocks(dataset, rows.dtype):
        stop = first + len(lengths)
        pairs = zip(split(lengths, values), rows[first:stop], strict=True)
        for number, (there, here) in enumerate(pairs, first):
            if not same(there, here):
                raise RaggedError(f"{place}: row {number} differs from its copy")
        first = stop


def _check_type(dataset: h5py.Dataset, rows: RaggedRows) -> None:
    """Raise RaggedError where a variable-length dataset and rows have elements of different types."""
    found, place = element_type(dataset), f"{dataset.file.filename}: {dataset.name}"
    if found != rows.dtype:
        raise RaggedError(f"{place} holds rows of {found}, and their copy would be of {rows.dtype}")
    if enumerations(found) != enumerations(rows.dtype):
        raise RaggedError(f"{place} has names for values of its rows (an enumeration), and their copy others")


def same(there: npt.NDArray[Any], here: npt.NDArray[Any]) -> bool:
    """Return whether two rows have the same type and bytes."""
    return there.dtype == here.dtype and there.tobytes() == here.tobytes()
