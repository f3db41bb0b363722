"""Padded rows: an array of two axes whose rows are filled up with zeros, and the length of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from h5py import h5t

from hyperslab.data.rows import Lengths, RowBlock
from hyperslab.formats.hdf5.settings import Lists
from hyperslab.formats.hdf5_rows.flattened import LENGTH
from hyperslab.formats.hdf5_rows.parts import TwofoldPart, chunks_of, make_dataset, stored, written
from hyperslab.formats.row_seam import Numbers
from hyperslab.specifications import LayoutSpecification


class PaddedPart(TwofoldPart):
    """An array of rows as long as the longest, and their lengths."""

    def writes(self, first: int, block: RowBlock) -> tuple[Callable[[], None], Callable[[], None]]:
        """Return the writes of rows, filled up, and of their lengths."""
        padded = np.zeros((len(block.lengths), self._values.shape[1]), self._values.dtype)
        padded[_inside(block.lengths, padded.shape[1])] = block.values
        values = self._run(self._values, first, padded)
        sizes = np.ascontiguousarray(block.lengths, LENGTH)
        return values, self._run(self._beside, first, sizes)

    def reader(self, numbers: Numbers) -> Callable[[], Any]:
        """Return a read of rows with what fills them up, and of their lengths."""
        values, lengths = self._values, self._beside
        index = slice(numbers.start, numbers.stop) if isinstance(numbers, range) else list(numbers)
        return lambda: (lengths[index], values[index])

    def look(self, known: int) -> int:
        """Look at lengths first, whose rows were there before them."""
        self._beside.refresh()
        self._values.refresh()
        return known + written(self._beside[known:])

    def replacer(self, number: int, row: npt.NDArray[Any]) -> Callable[[], None]:
        """Return a replacement of one row and of its length; what was beyond a shorter one becomes zeros."""
        padded = np.zeros(self._values.shape[1], self._values.dtype)
        padded[: len(row)] = row
        values, lengths = self._values, self._beside

        def replace() -> None:
            values[number] = padded
            lengths[number] = len(row)

        return replace

    def block(self, found: Any) -> RowBlock:
        """Return what a read gave, without what fills rows up."""
        lengths, padded = found
        return RowBlock(lengths, padded[_inside(lengths, padded.shape[1])])

    def sizes(self) -> dict[str, Any]:
        """Return bytes of the array and of lengths."""
        (values, index), (lengths, other) = stored(self._values), stored(self._beside)
        return {
            "stored_bytes": values,
            "values_bytes": int(self._beside[:].sum()) * self._values.dtype.itemsize,
            "lengths_bytes": lengths,
            "chunk_index_bytes": index + other,
            "chunks": chunks_of(self._values),
        }


def _inside(lengths: Lengths, width: int) -> npt.NDArray[np.bool_]:
    """Return which elements of padded rows belong to them."""
    found: npt.NDArray[np.bool_] = np.arange(width) < lengths[:, np.newaxis]
    return found


class Padded:
    """Rows filled up to the longest of the study."""

    def create(
        self,
        file: h5py.File,
        name: str,
        dtype: np.dtype[Any],
        lengths: Lengths,
        growing: bool,
        layout: LayoutSpecification,
        lists: Lists,
    ) -> PaddedPart:
        """Return new datasets NAME of padded rows and NAME.lengths."""
        width, rows = layout["width"], layout["row_chunk"]
        shape, chunk = [len(lengths), width], [rows, width] if rows else None
        values = make_dataset(
            file, name, h5t.py_create(dtype), shape, chunk, layout["filters"], lists, growing
        )
        row_chunk = [rows] if rows else None
        beside = make_dataset(
            file, f"{name}.lengths", h5t.py_create(LENGTH), [len(lengths)], row_chunk, [], lists, growing
        )
        return PaddedPart(values, beside)

    def open(
        self, file: h5py.File, name: str, dtype: np.dtype[Any], layout: LayoutSpecification
    ) -> PaddedPart:
        """Return datasets that are there."""
        return PaddedPart(file[name], file[f"{name}.lengths"])
