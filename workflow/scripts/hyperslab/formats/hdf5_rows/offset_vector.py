"""Rows as a vector of bytes with offsets and lengths, through hyperslab.ragged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from h5py import h5p

from hyperslab import ragged
from hyperslab.data.rows import Lengths, RowBlock, end_to_end
from hyperslab.formats import plain_errors
from hyperslab.formats.hdf5 import filter_setters
from hyperslab.formats.hdf5.settings import ALLOC_TIMES, Lists
from hyperslab.formats.hdf5_rows.parts import Part, Places, chunks_of, stored, stored_places
from hyperslab.formats.row_seam import Numbers
from hyperslab.specifications import LayoutSpecification


class OffsetVectorPart(Part):
    """Rows of the module, appended in their order, whether a dataset is said to grow or not."""

    def __init__(self, rows: ragged.RaggedDataset) -> None:
        self._rows = rows

    @property
    def values(self) -> h5py.Dataset:
        """The vector."""
        return self._rows.vector

    def writer(self, first: int, block: RowBlock) -> Callable[[], None]:
        """Return an append: of one row as that of a row, of several as that of a block."""
        rows = self._rows
        if len(block.lengths) == 1:
            return lambda: rows.append([block.values])
        return lambda: rows.append_block(block.lengths, block.values)

    def reader(self, numbers: Numbers) -> Callable[[], Any]:
        """Return a read of rows: their lengths, and their values in as many pieces as lie apart."""
        rows = self._rows
        if isinstance(numbers, range):
            return _said_plainly(lambda: rows.read(slice(numbers.start, numbers.stop)))
        return _said_plainly(lambda: rows.read_pieces(numbers))

    def publisher(self, first: int, block: RowBlock) -> Callable[[], None]:
        """Return an append that is flushed: bytes, and then what leads to them."""
        rows, append = self._rows, self.writer(first, block)

        def publish() -> None:
            append()
            rows.flush()

        return publish

    def look(self, known: int) -> int:
        """Look at what leads to rows."""
        return self._rows.refresh()

    def replacer(self, number: int, row: npt.NDArray[Any]) -> Callable[[], None]:
        """Return a replacement of one row."""
        rows = self._rows

        def replace() -> None:
            rows[number] = row

        return replace

    def block(self, found: Any) -> RowBlock:
        """Return what a read gave as a block of rows."""
        lengths, values = found
        return RowBlock(lengths, end_to_end(values, self._rows.dtype) if isinstance(values, list) else values)

    def flush(self) -> None:
        """Write rows that are held in memory."""
        self._rows.flush()

    def close(self) -> None:
        """Write them, and let others append."""
        self._rows.close()

    def places(self) -> Places | None:
        """Return where the vector lies."""
        return stored_places(self._rows.vector)

    def sizes(self) -> dict[str, Any]:
        """Return bytes of the vector, and of offsets and lengths."""
        (values, index), (rows, other) = stored(self._rows.vector), stored(self._rows.primary)
        return {
            "stored_bytes": values,
            "values_bytes": len(self._rows.vector) - self._rows.lost_bytes,
            "offsets_bytes": rows,
            "lost_bytes": self._rows.lost_bytes,
            "chunk_index_bytes": index + other,
            "chunks": chunks_of(self._rows.vector),
        }


class OffsetVector:
    """Rows of hyperslab.ragged."""

    def create(
        self,
        file: h5py.File,
        name: str,
        dtype: np.dtype[Any],
        lengths: Lengths,
        growing: bool,
        layout: LayoutSpecification,
        lists: Lists,
    ) -> OffsetVectorPart:
        """Return new, empty rows."""
        settings = layout["settings"]
        creation = h5p.create(h5p.DATASET_CREATE)
        filter_setters.apply(creation, layout["filters"])
        vector: dict[str, Any] = {"dcpl": creation}
        if "alloc_time" in settings:
            creation.set_alloc_time(ALLOC_TIMES[settings["alloc_time"]])
        if "fill_time" in settings:
            vector["fill_time"] = settings["fill_time"]
        assert layout["chunk_bytes"] and layout["row_chunk"]
        made = ragged.create(
            file, name, dtype, chunk_bytes=layout["chunk_bytes"], row_chunk=layout["row_chunk"],
            filters=vector, reuse=layout.get("reuse", False), **_caches(layout),
        )  # fmt: skip
        return OffsetVectorPart(made)

    def open(
        self, file: h5py.File, name: str, dtype: np.dtype[Any], layout: LayoutSpecification
    ) -> OffsetVectorPart:
        """Return rows that are there."""
        return OffsetVectorPart(_said_plainly(lambda: ragged.open(file[name], **_caches(layout)))())


def _said_plainly(call: Callable[[], Any]) -> Callable[[], Any]:
    """Return a call that raises OSError where the file is not what it should be."""
    return plain_errors.said_plainly(
        call, (ragged.RaggedError, IndexError), lambda error: OSError(str(error))
    )


def _caches(layout: LayoutSpecification) -> dict[str, Any]:
    """Return the bytes of both chunk caches; None: what the module chooses."""
    return {"chunk_cache": layout.get("chunk_cache"), "row_cache": layout.get("row_cache")}
