"""Values that mix all indices: no two planes, spectra or neighbours are alike, and any box is made alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

CACHED_BYTES = 2**18


def mixed(index: npt.NDArray[np.uint64], bits: int, salt: int) -> npt.NDArray[np.uint64]:
    """Return a one-to-one mix of integers of `bits` bits,
    after splitmix64's finaliser (Steele, Lea, Flood 2014).
    """
    mask, half = np.uint64(2**bits - 1), np.uint64(bits // 2)
    z = (index + np.uint64(salt * 0x9E3779B97F4A7C15 % 2**bits)) & mask
    for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
        z = ((z ^ (z >> half)) * np.uint64(factor)) & mask
    return z ^ (z >> half)


class MixedIndices:
    """v = a[z]·b[s] + c[z] + d[s], modulo 2^bits, where s numbers the leading indices and z is the last one.

    The pairs (a, c) and (b, d) come from one-to-one mixes, so no two planes or spectra are alike: a wrong one
    cannot pass for the right one. There are 2^31 pairs (a, c) of 16-bit words, and 2^15 of 8-bit ones: planes
    beyond so many have the same pairs again, with further leading indices. Unsigned integers wrap; other
    types hold the same whole numbers.
    """

    def __init__(self, shape: Sequence[int], dtype: str | np.dtype[Any]) -> None:
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        # Half a float's bits are always exact in its significand (binary16: 8 of 11).
        self._word = np.dtype(f"u{self.dtype.itemsize // (2 if self.dtype.kind == 'f' else 1)}")

    def _width(self, odd: bool) -> int:
        """Return the bits of an index of which a factor (odd or not) and an addend are made."""
        return min(64, 16 * self._word.itemsize - odd)

    def _words(
        self, index: npt.NDArray[np.uint64], salt: int, odd: bool
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return the factor (odd if asked for: it then loses nothing) and addend of each index;
        no two pairs agree.
        """
        bits, width = 8 * self._word.itemsize, self._width(odd)
        both = mixed(index, width, salt)
        factor = both >> np.uint64(bits) if width > bits else mixed(index, width, salt + 1)
        if odd:
            factor = factor * np.uint64(2) + np.uint64(1)
        return factor.astype(self._word), both.astype(self._word)

    def block(self, origin: Sequence[int], extent: Sequence[int]) -> npt.NDArray[Any]:
        """Return the values of the box; same shape as `extent`."""
        leading = np.zeros(tuple(extent[:-1]) or (1,), dtype=np.uint64)
        for axis in range(len(extent) - 1):
            stride = np.uint64(math.prod(self.shape[axis + 1 : -1]))
            steps = np.arange(origin[axis], origin[axis] + extent[axis], dtype=np.uint64) * stride
            leading = leading + steps.reshape([-1 if a == axis else 1 for a in range(len(extent) - 1)])
        out = np.empty(tuple(extent), self._word)
        rows = out.reshape(-1, extent[-1])
        start = int(origin[-1])
        stop = start + int(extent[-1])
        segment = 2 ** self._width(odd=True)
        # Odd, as the numbers of leading indices begin anew after a power of two.
        further = math.prod(self.shape[:-1]) | 1
        for number in range(start // segment, -(-stop // segment)):
            first, end = max(start, number * segment), min(stop, (number + 1) * segment)
            last = np.arange(first, end, dtype=np.uint64)
            self._fill(rows[:, first - start : end - start], leading + np.uint64(number * further), last)
        return out.view(self.dtype) if self.dtype.kind in "iu" else out.astype(self.dtype)

    def _fill(
        self, rows: npt.NDArray[Any], leading: npt.NDArray[np.uint64], last: npt.NDArray[np.uint64]
    ) -> None:
        """Put the values of leading and last indices into the rows of a table."""
        a, c = self._words(last, 1, odd=True)
        b, d = (words.reshape(-1, 1) for words in self._words(leading, 3, odd=False))
        # Three passes over a piece that stays in the processor's cache are much faster than over all.
        step = max(1, CACHED_BYTES // max(a.nbytes, 1))
        for row in range(0, len(rows), step):
            piece = rows[row : row + step]
            np.multiply(a, b[row : row + step], out=piece)
            piece += c
            piece += d[row : row + step]
