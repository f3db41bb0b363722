"""Flattened rows: one dataset of all values end to end, one of lengths, or of offsets instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from h5py import h5t

from hyperslab.data.rows import Lengths, RowBlock
from hyperslab.formats.hdf5.settings import Lists
from hyperslab.formats.hdf5_rows.parts import TwofoldPart, chunks_of, make_dataset, stored, written
from hyperslab.formats.row_files import Runs, block_of, runs_of
from hyperslab.formats.row_seam import Numbers
from hyperslab.specifications import LayoutSpecification

LENGTH = np.dtype("<i8")


class FlattenedPart(TwofoldPart):
    """Values and lengths, or values and offsets, of which there is one more than rows."""

    def __init__(self, values: h5py.Dataset, rows: h5py.Dataset, offsets: bool) -> None:
        super().__init__(values, rows)
        self._with_offsets = offsets
        self._dtype = values.dtype
        # Of what was written so far; of what is read, once the lengths are in memory: from row _base on.
        self._end = self._base = 0
        self._offsets: npt.NDArray[np.int64] | None = None

    def writes(self, first: int, block: RowBlock) -> tuple[Callable[[], None], Callable[[], None]]:
        """Return the writes of values and of lengths or offsets; rows are written in their order."""
        beside = block.lengths
        if self._with_offsets:
            beside = self._end + np.cumsum(block.lengths)
            if first == 0:
                beside = np.concatenate([[0], beside])
        place = first + 1 if self._with_offsets and first else first
        values = self._run(self._values, self._end, block.values)
        rows = self._run(self._beside, place, np.ascontiguousarray(beside, LENGTH))
        self._end += len(block.values)
        return values, rows

    def reader(self, numbers: Numbers) -> Callable[[], Any]:
        """Return a read of rows: a run at once, else each by itself.

        Where lengths are stored, the first read of an open file reads them all, since the place of a row is
        their sum, and they are kept. Of offsets, two lead to a row or to a run.
        """
        runs = runs_of(numbers)
        return lambda: self._read(runs)

    def _bounds(self, first: int, stop: int) -> npt.NDArray[np.int64]:
        """Return where rows begin, and where the last one ends."""
        if self._with_offsets:
            found: npt.NDArray[np.int64] = self._beside[first : stop + 1]
            return found
        if self._offsets is None:
            self._offsets = np.concatenate([[0], np.cumsum(self._beside[:])])
        return self._offsets[first - self._base : stop + 1 - self._base]

    def _read(self, runs: Sequence[tuple[int, int]]) -> Runs:
        bounds = [self._bounds(first, stop) for first, stop in runs]
        return bounds, [self._values[one[0] : one[-1]] for one in bounds]

    def look(self, known: int) -> int:
        """Look at lengths or offsets first, whose values were there before them."""
        self._beside.refresh()
        self._values.refresh()
        if self._with_offsets:
            return known + written(self._beside[known + 1 :])
        lengths = self._beside[known:]
        lengths = lengths[: written(lengths)]
        end = 0 if self._offsets is None else self._offsets[-1]
        # Only what is new is kept: every look costs what it finds.
        self._base, self._offsets = known, end + np.concatenate([[0], np.cumsum(lengths)])
        return known + len(lengths)

    def block(self, found: Runs) -> RowBlock:
        """Return the runs of a read as one block of rows."""
        return block_of(found, self._dtype)

    def sizes(self) -> dict[str, Any]:
        """Return bytes of values and of what leads to rows."""
        (values, index), (rows, other) = stored(self._values), stored(self._beside)
        return {
            "stored_bytes": values,
            "values_bytes": self._values.size * self._dtype.itemsize,
            "offsets_bytes" if self._with_offsets else "lengths_bytes": rows,
            "chunk_index_bytes": index + other,
            "chunks": chunks_of(self._values),
        }


class Flattened:
    """Rows end to end in one dataset."""

    def create(
        self, file: h5py.File, name: str, dtype: np.dtype[Any], lengths: Lengths, growing: bool,
        layout: LayoutSpecification, lists: Lists,
    ) -> FlattenedPart:  # fmt: skip
        """Return new datasets NAME of values and NAME.lengths or NAME.offsets."""
        size, offsets = layout["chunk_bytes"], bool(layout.get("offsets"))
        chunk = [size // dtype.itemsize] if size else None
        row_chunk = [layout["row_chunk"]] if layout["row_chunk"] else None
        count = len(lengths) + offsets
        values = make_dataset(
            file, name, h5t.py_create(dtype), [int(lengths.sum())], chunk, layout["filters"], lists, growing
        )
        rows = make_dataset(
            file, _beside(name, offsets), h5t.py_create(LENGTH), [count], row_chunk, [], lists, growing
        )
        return FlattenedPart(values, rows, offsets)

    def open(
        self, file: h5py.File, name: str, dtype: np.dtype[Any], layout: LayoutSpecification
    ) -> FlattenedPart:
        """Return datasets that are there."""
        offsets = bool(layout.get("offsets"))
        return FlattenedPart(file[name], file[_beside(name, offsets)], offsets)


def _beside(name: str, offsets: bool) -> str:
    return f"{name}.{'offsets' if offsets else 'lengths'}"
