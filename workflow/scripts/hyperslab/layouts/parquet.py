"""Ragged rows in Parquet: a column of lists, in row groups that are read and decompressed as a whole."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hyperslab.layouts.layout import Abilities, Array, Setting
from hyperslab.layouts.rows import RowsLayout

# Levels and headers of a page, and what statistics of a group take in the footer.
BYTES_A_ROW, BYTES_A_GROUP, FILE_BYTES = 16, 2048, 2**16
# A dictionary that is given up holds each value of its pages once more.
GROWTH = 2


class ParquetLayout(RowsLayout):
    """A resolved layout of ragged rows in a Parquet file."""

    title = "Parquet"
    suffix = ".parquet"
    libraries = {"pyarrow": "pyarrow"}
    abilities = Abilities()
    settings = {
        "compression": Setting("Parquet: compression"),
        "encodings": Setting("Parquet: encodings"),
        "created_by": Setting("Parquet: written by"),
        "format_version": Setting("Parquet: version of the format"),
    }

    def largest_bytes(self, array: Array, arrays: int = 0) -> int:
        """Return an upper bound: values that no compressor shrinks, levels, and a footer."""
        rows, group = math.prod(array.shape), self.described["chunk_bytes"]
        groups: int = array.nbytes // group + 1
        return array.nbytes * GROWTH + rows * BYTES_A_ROW + groups * BYTES_A_GROUP + FILE_BYTES

    def follow_refusal(self) -> str | None:
        """Return why nobody can read rows while others are added."""
        return "what a Parquet file holds is said at its end; none of it can be read before it is closed"

    def filters_text(self) -> str:
        """Return the compressor with its level, "" without one."""
        name, level = self.described["compression"], self.described.get("level")
        return "" if name == "none" else f"{name} {level}" if level is not None else str(name)

    def words(self, axes: Sequence[str], itemsize: int) -> str:
        """Return what every layout says of itself, after what a file holds."""
        return f"column of lists, {super().words(axes, itemsize)}, Parquet"

    def _chunks_text(self, axes: Sequence[str], itemsize: int) -> str:
        return f"row groups of about {self.chunk_words()}"


LAYOUT = ParquetLayout
