"""Gaps in a vector of bytes: what no row leads to, given to rows that need room."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


class Gaps:
    """Starts and lengths of gaps, in bytes, in the order of their starts."""

    def __init__(self, references: npt.NDArray[Any], end: int) -> None:
        """Find the gaps between rows in a vector that ends at `end`: all references are sorted."""
        found = np.sort(references[references["length"] > 0], order="offset")
        ends = np.concatenate([[0], found["offset"] + found["length"]]).astype(np.int64)
        starts = np.concatenate([found["offset"], [end]]).astype(np.int64)
        # Rows may share bytes; then the next one begins before the last one ends.
        ends = np.maximum.accumulate(ends)
        self._gaps = [(int(a), int(b - a)) for a, b in zip(ends, starts, strict=True) if b > a]

    def take(self, size: int) -> int | None:
        """Take the first bytes of the first gap of at least `size`; returns where they begin, or None."""
        for number, (start, length) in enumerate(self._gaps):
            if length >= size > 0:
                self._gaps[number] = (start + size, length - size)
                return start
        return None

    def give(self, start: int, size: int) -> None:
        """Add a gap, joined with its neighbours."""
        merged: list[tuple[int, int]] = []
        for begin, length in sorted([*self._gaps, (start, size)]):
            if merged and sum(merged[-1]) == begin:
                merged[-1] = (merged[-1][0], merged[-1][1] + length)
            elif length:
                merged.append((begin, length))
        self._gaps = merged
