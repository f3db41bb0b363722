"""Gaps in a vector of bytes: what no row leads to, given to rows that need room."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np
import numpy.typing as npt


class Gaps:
    """Starts and lengths of gaps, in bytes, in the order of their starts."""

    def __init__(self, references: npt.NDArray[Any], end: int, shared: bool = False) -> None:
        """Find the gaps between rows in a vector that ends at `end`: all references are sorted.

        `shared`: other rows lead to the vector, too, and what looks like a gap here may be theirs.
        """
        found = np.sort(references[references["length"] > 0], order="offset")
        ends = np.concatenate([[0], found["offset"] + found["length"]]).astype(np.int64)
        starts = np.concatenate([found["offset"], [end]]).astype(np.int64)
        # Rows may share bytes; then the next one begins before the last one ends.
        ends = np.maximum.accumulate(ends)
        self._shared = shared or bool((starts < ends).any())
        gaps = [(int(a), int(b - a)) for a, b in zip(ends, starts, strict=True) if b > a]
        self._gaps = [] if shared else gaps

    def take(self, size: int) -> int | None:
        """Take the first bytes of the first gap of at least `size`; returns where they begin, or None."""
        for number, (start, length) in enumerate(self._gaps):
            if length >= size > 0:
                if length == size:
                    del self._gaps[number]
                else:
                    self._gaps[number] = (start + size, length - size)
                return start
        return None

    def give(self, gap: tuple[int, int]) -> None:
        """Add a gap, its start and length, joined with its neighbours.

        Nothing is added where rows share bytes: another row may lead to these.
        """
        start, length = gap
        if not length or self._shared:
            return
        stop, place = start + length, bisect_left(self._gaps, gap)
        first = last = place
        if place and sum(self._gaps[place - 1]) == start:
            first, start = place - 1, self._gaps[place - 1][0]
        if place < len(self._gaps) and self._gaps[place][0] == stop:
            last, stop = place + 1, sum(self._gaps[place])
        self._gaps[first:last] = [(start, stop - start)]
