"""A dataset of ragged rows in a file that is rewritten: its rows, however kept, and what differs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from h5py import h5d, h5f, h5t

from hyperslab import ragged
from hyperslab.ragged import convention
from hyperslab.ragged.opening import enumerations
from hyperslab.ragged.vlen import element_type, same, vlen_blocks
from hyperslab.rewriting import RewriteError
from hyperslab.rewriting.opening import access_for_reading, dataset_at
from hyperslab.rewriting.survey import address_of

# What the convention says of rows in attributes, which are no user's.
ATTRIBUTES = frozenset(
    name.encode()
    for name in (convention.MARK, convention.NUMBER, convention.TYPE, convention.VECTOR, convention.REUSE)
)
Block = tuple[npt.NDArray[np.int64], npt.NDArray[Any]]


class StoredRows:
    """The rows of a dataset of the variable-length type, or of `hyperslab.ragged`.

    Raises RewriteError for any other. `vector` is the dataset of their bytes; None: the variable-length type.
    """

    def __init__(self, dataset: h5d.DatasetID) -> None:
        self._dataset = h5py.Dataset(dataset)
        self._rows: ragged.RaggedDataset | None = None
        self.vector: h5d.DatasetID | None = None
        try:
            # An attribute of this name may be a user's own.
            if convention.MARK in self._dataset.attrs and dataset.get_type().get_class() != h5t.VLEN:
                self._rows = ragged.open(self._dataset)
                self.vector, self.dtype = self._rows.vector.id, self._rows.dtype
            else:
                self.dtype = element_type(self._dataset)
        except ragged.RaggedError as error:
            # The text begins with the names of file and dataset, which whoever catches this says himself.
            raise RewriteError(f"is not to be had as rows: {error}") from None

    def __len__(self) -> int:
        return len(self._dataset if self._rows is None else self._rows)

    @property
    def most_bytes(self) -> int:
        """Bytes of all rows; of the variable-length type those of its file, which are no fewer."""
        return self._dataset.file.id.get_filesize() if self.vector is None else len(h5py.Dataset(self.vector))

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        """Yield each row, read in blocks."""
        for lengths, values in self.blocks():
            yield from ragged.split(lengths, values)

    def blocks(self) -> Iterator[Block]:
        """Yield lengths and values of all rows, some 16 MiB at a time; raises RewriteError for damage."""
        try:
            yield from vlen_blocks(self._dataset, self.dtype) if self._rows is None else self._rows.blocks()
        except ragged.RaggedError as error:
            raise RewriteError(str(error)) from None


def holds_rows(file: Path, path: str) -> bool:
    """Return whether a dataset of a file, if there is one of this name, can be had as rows."""
    opened = h5f.open(os.fsencode(file), h5f.ACC_RDONLY, fapl=access_for_reading())
    try:
        StoredRows(dataset_at(opened, path))
    except RewriteError:
        return False
    finally:
        opened.close()
    return True


def vector_address(file: h5f.FileID, path: bytes) -> int | None:
    """Return where the bytes of rows lie that are kept by `hyperslab.ragged`, None where there are none."""
    with suppress(RewriteError):
        vector = StoredRows(dataset_at(file, os.fsdecode(path))).vector
        return None if vector is None else address_of(vector)
    return None


def row_differences(where: str, ours: h5d.DatasetID, theirs: h5d.DatasetID) -> Iterator[str]:
    """Yield a line where two datasets of rows differ in type or number, or in a row."""
    try:
        first, second = StoredRows(ours), StoredRows(theirs)
    except RewriteError as error:
        yield f"{where}: {error}"
        return
    if first.dtype != second.dtype or enumerations(first.dtype) != enumerations(second.dtype):
        yield f"{where}: the type of the elements of rows differs"
    elif len(first) != len(second):
        yield f"{where}: has {len(first):,} rows, and its copy {len(second):,}"
    else:
        pairs = enumerate(zip(first, second, strict=True))
        wrong = next((number for number, (row, other) in pairs if not same(row, other)), None)
        if wrong is not None:
            yield f"{where}: row {wrong} differs"
