"""Coarser levels of values: every so many elements, or means; the truth of what a pyramid holds.

Of averages, an element is the mean of the up to 2 along each axis that it stands for at the level before it,
which are the array's elements or means themselves: whole numbers are rounded after every level, halves to
the even neighbour; floats are added in double precision, axis by axis in the array's order, and rounded to
their type.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.data.selections import Box, Pattern
from hyperslab.data.tiles import TILE_BYTES, selected, tiles
from hyperslab.data.values import Values
from hyperslab.layouts.pyramids import level_shape

Block = npt.NDArray[Any]


def _sums(dtype: np.dtype[Any], axes: int) -> np.dtype[Any]:
    """Return the type in which 2 elements along each axis are added; raises ValueError without one."""
    if dtype.kind == "f":
        return np.dtype(np.float64)
    for wide in (np.int32, np.int64):
        # A sign, the bits of the type, and one more for each axis.
        if 1 + 8 * dtype.itemsize + axes <= 8 * np.dtype(wide).itemsize:
            return np.dtype(wide)
    raise ValueError(f"sums of {dtype} along {axes} axes may overflow")


def halved(block: Block, averaging: bool) -> Block:
    """Return the next level of a block that begins at even places, in array order; its last elements along an
    axis stand alone where it has an odd number of them.
    """
    if not averaging:
        return block[(slice(None, None, 2),) * block.ndim]
    dtype = block.dtype
    total: Block = block.astype(_sums(dtype, block.ndim))
    for axis in range(block.ndim):
        lead = (slice(None),) * axis
        found = total[(*lead, slice(None, None, 2))].copy()
        pairs = total.shape[axis] // 2
        found[(*lead, slice(0, pairs))] += total[(*lead, slice(1, None, 2))]
        if total.shape[axis] % 2:
            # One that stands alone counts twice, so that every mean is of as many.
            found[(*lead, slice(pairs, None))] *= 2
        total = found
    if dtype.kind == "f":
        total *= 2.0**-block.ndim
        with np.errstate(over="ignore"):
            return total.astype(dtype)
    # Half to even: half of the divisor less one, and one more where what is kept is odd.
    total += (1 << (block.ndim - 1)) - 1 + ((total >> block.ndim) & 1)
    return (total >> block.ndim).astype(dtype)


class NextLevel:
    """The values of the level after `finer`, made of boxes of it."""

    def __init__(self, finer: Values, averaging: bool) -> None:
        self.shape, self.dtype = tuple(level_shape(finer.shape, 1)), finer.dtype
        self._finer, self._averaging = finer, averaging

    def block(self, origin: Sequence[int], extent: Sequence[int]) -> Block:
        """Return the values of the box; same shape as `extent`."""
        first = [2 * start for start in origin]
        axes = zip(first, extent, self._finer.shape, strict=True)
        return halved(self._finer.block(first, [min(2 * width, size - start) for start, width, size in axes]),
                      self._averaging)  # fmt: skip


def _averages(values: Values, box: Pattern, stored: int) -> Block:
    """Return what a pyramid of means with `stored` coarser levels gives at the level of `box`."""
    level = min(box.level, stored)
    count, start = level_shape(box.extent, level), [first >> level for first in box.origin]
    source: Values = values
    for _ in range(level):
        source = NextLevel(source, averaging=True)
    found = np.empty(count, values.dtype)
    # Of what one element is made of, so that a piece of the array in memory has about the bytes of a tile.
    one = math.prod([1 << level] * len(count)) * values.dtype.itemsize
    for tile in tiles(count, [1] * len(count), one, TILE_BYTES):
        there = [first + inside for first, inside in zip(start, tile.origin, strict=True)]
        found[tile.slices()] = source.block(there, tile.extent)
    return found[tuple(slice(None, None, by >> level) for by in box.step)]


def truth(values: Values, box: Box, averaged_levels: int = 0) -> Block:
    """Return what a selection has to give of a layout whose first so many coarser levels hold means."""
    if averaged_levels and isinstance(box, Pattern) and box.level:
        return _averages(values, box, averaged_levels)
    return selected(values, box)
