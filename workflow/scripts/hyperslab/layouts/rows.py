"""What layouts of ragged rows have in common, whatever their format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from hyperslab import text
from hyperslab.layouts.chunks import Shape
from hyperslab.layouts.layout import Array, Layout


class RowsArray(Array, Protocol):
    """The ragged rows that are stored; `shape` is their number."""

    @property
    def longest(self) -> int: ...


class RowsLayout(Layout):
    """A resolved layout of ragged rows. Its values have one axis; a chunk of them is given in bytes."""

    data_model: ClassVar[str] = "rows"

    @property
    def chunks(self) -> list[int] | None:
        """None: rows have no extents of which a chunk could hold a part; see `chunk_words`."""
        return None

    @property
    def chunk_bytes(self) -> int | None:
        """Bytes of one chunk of values; None where they are not chunked."""
        return self.described.get("chunk_bytes")

    @property
    def row_chunk(self) -> int | None:
        """Rows of one chunk of lengths, offsets or references, or of padded rows; None: not chunked."""
        return self.described.get("row_chunk")

    def chunk_words(self) -> str:
        """Return the size of a chunk of values, or contiguous."""
        return text.size(self.chunk_bytes) if self.chunk_bytes else "contiguous"

    def touched(self, origin: Shape, extent: Shape) -> int:
        """Return 0: which chunks a row touches depends on the lengths of those before it."""
        return 0

    def rewrite_refusal(self) -> str | None:
        """Return why a row that is there cannot be replaced by one of another length, or None."""
        return f"rows of {self.title} cannot be replaced"

    def flush_bytes(self, itemsize: int) -> int:
        """Return by how much each flush can make a file longer while others read it; most do not."""
        return 0

    def growth_refusal(self) -> str | None:
        """Return why rows cannot be added to a dataset that is there, or None."""
        return None

    def follow_refusal(self) -> str | None:
        """Return why nobody can read rows while others are added, or None."""
        return f"rows of {self.title} cannot be read while others are added"

    def _chunks_text(self, axes: Sequence[str], itemsize: int) -> str:
        values = f"values in chunks of {text.size(self.chunk_bytes)}" if self.chunk_bytes else ""
        rows = f"{self.row_chunk:,} rows a chunk" if self.row_chunk else ""
        return ", ".join(filter(None, [values, rows])) or "no chunks"
