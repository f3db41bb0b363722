"""Ragged rows in Zarr: one array of all values end to end, and one of lengths, in one directory."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hyperslab.layouts.layout import Abilities, Array
from hyperslab.layouts.rows import RowsLayout
from hyperslab.layouts.zarr import ZarrLayout
from hyperslab.layouts.zarr_codecs import largest_chunk_bytes, text
from hyperslab.layouts.zarr_store import BLOCK_BYTES, METADATA_BYTES

LENGTH_BYTES = 8
# The group, its two arrays and their folders of chunks, and three files that describe them.
BESIDE = 8


class ZarrRowsLayout(RowsLayout):
    """A resolved layout of flattened rows in a Zarr store, version 3."""

    title = "Zarr rows"
    suffix = ".zarr"
    abilities = Abilities(forgets=True)
    settings = ZarrLayout.settings

    def _chunks(self, array: Array) -> tuple[int, int]:
        """Return how many chunks values and lengths have."""
        sizes = (array.nbytes, self.chunk_bytes or 1), (math.prod(array.shape), self.row_chunk or 1)
        values, lengths = (-(-whole // one) for whole, one in sizes)
        return values, lengths

    def largest_bytes(self, array: Array, arrays: int = 0) -> int:
        """Return an upper bound: whole chunks that no codec shrinks, and blocks of files."""
        values, lengths = self._chunks(array)
        rows = (self.row_chunk or 1) * LENGTH_BYTES
        content = (
            values * largest_chunk_bytes(self.described["codecs"], self.chunk_bytes or 1) + lengths * rows
        )
        return content + (values + lengths + BESIDE) * BLOCK_BYTES + 3 * METADATA_BYTES

    def largest_files(self, array: Array) -> int:
        """Return the number of files and folders, where every chunk is stored."""
        return sum(self._chunks(array)) + BESIDE

    def follow_refusal(self) -> str | None:
        """Return why nobody can read rows while others are added."""
        return "no order of a store's files is promised to a reader, who may find parts of a row"

    def filters_text(self) -> str:
        """Return the codecs of values as one short text."""
        return ", ".join(map(text, self.described["codecs"]))

    def words(self, axes: Sequence[str], itemsize: int) -> str:
        """Return what every layout says of itself, after what the store holds."""
        pipeline = self.described["settings"]["pipeline"]
        through = f" through {pipeline}" if pipeline != "default" else ""
        return f"flattened vector with lengths, {super().words(axes, itemsize)}, Zarr{through}"


LAYOUT = ZarrRowsLayout
