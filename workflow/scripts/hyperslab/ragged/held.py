"""Rows that are appended and not written yet: gathered until whole chunks of the vector can be written."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import numpy.typing as npt

# Values are gathered up to this many bytes at least, and to a chunk where that has more; of larger chunks
# than MOST_BYTES pieces are written.
LEAST_BYTES, MOST_BYTES = 2**22, 2**25
# Rows that are held at most, whatever their bytes.
MOST_ROWS = 2**18


class Held:
    """Values end to end, and the elements of each row that is not written in whole.

    `filled` elements are held. The first of them may belong to a row whose begin is written already.
    """

    def __init__(self, dtype: np.dtype[Any], chunk_bytes: int) -> None:
        self.dtype = dtype
        # Writes end at multiples of this many bytes of the vector, where they need not end at the last row.
        self.step = chunk_bytes if chunk_bytes <= MOST_BYTES else 1
        self.room = max(LEAST_BYTES, self.step) // dtype.itemsize
        self.clear()

    def clear(self) -> None:
        """Hold nothing, and give the memory back."""
        self._buffer, self.filled = np.empty(0, self.dtype), 0
        self.counts = array("q")

    @property
    def full(self) -> bool:
        """Whether it is time to write."""
        return self.filled >= self.room or len(self.counts) >= MOST_ROWS

    def add(self, values: npt.NDArray[Any]) -> None:
        """Hold values, whichever rows they are of; of a row `counts` is told, too."""
        self.expect(len(values))
        end = self.filled + len(values)
        self._buffer[self.filled : end] = values
        self.filled = end

    def expect(self, elements: int) -> None:
        """Have room for so many more elements."""
        if (end := self.filled + elements) > len(self._buffer):
            self._make_room(end)

    def cut_back(self, rows: int, filled: int) -> None:
        """Have only so many rows and elements be held; those that came later are forgotten."""
        self.filled = filled
        del self.counts[rows:]

    def values(self, elements: int) -> npt.NDArray[Any]:
        """Return the first elements that are held."""
        return self._buffer[:elements]

    def whole(self, end: int, elements: int) -> int:
        """Return how many of `elements` from byte `end` of the vector on lie before the last chunk's end."""
        stop = end + elements * self.dtype.itemsize
        return max(0, stop - stop % self.step - end) // self.dtype.itemsize

    def missing(self, end: int) -> int:
        """Return how many elements fill the chunk up in which what is held ends; it begins at byte `end`."""
        stop = end + self.filled * self.dtype.itemsize
        return -stop % self.step // self.dtype.itemsize

    def drop(self, elements: int) -> None:
        """Hold the first elements no longer."""
        rest = self.filled - elements
        if rest:
            self._buffer[:rest] = self._buffer[elements : self.filled]
        self.filled = rest
        if rest <= self.room < len(self._buffer) // 2:
            # A call that brought much gives its memory back.
            self._buffer = self._buffer[:rest].copy()

    def _make_room(self, elements: int) -> None:
        """Have the buffer hold so many elements at least, with those that are in it."""
        larger = np.empty(max(elements, 2 * len(self._buffer), self.room), self.dtype)
        larger[: self.filled] = self._buffer[: self.filled]
        self._buffer = larger
