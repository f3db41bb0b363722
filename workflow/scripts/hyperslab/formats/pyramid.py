"""An array with coarser levels beside it: made when all is written, read from the nearest that is stored."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.data.levels import NextLevel
from hyperslab.data.selections import Box, disk_order, of_stored_level
from hyperslab.data.tiles import TILE_BYTES, in_array_order, tiles
from hyperslab.formats import OpenArray
from hyperslab.layouts.pyramids import AVERAGING, level_specification, stored_levels
from hyperslab.specifications import Specification

Block = npt.NDArray[Any]
# Of what one piece of a level is made of at most: a chunk of a level may be made of several pieces.
SOURCE_BYTES = 4 * TILE_BYTES


class Stored:
    """The values of an open array, box by box; a large box is read in several pieces."""

    def __init__(self, opened: OpenArray, spec: Specification) -> None:
        self.shape, self.dtype = tuple(spec["dataset"]["shape"]), np.dtype(spec["dataset"]["dtype"])
        self._opened = opened

    def block(self, origin: Sequence[int], extent: Sequence[int]) -> Block:
        """Return the values of the box; same shape as `extent`."""
        return self._opened.read(Box(tuple(origin), tuple(extent)))


def fill_level(opened: OpenArray, spec: Specification, finer: Stored, averaging: bool) -> None:
    """Write a level, which `spec` specifies by itself, from the one before it: whole chunks, row-major."""
    layout, dataset = spec["layout"], spec["dataset"]
    order = disk_order(spec)
    shape = [dataset["shape"][axis] for axis in order]
    unit = layout.get("shards") or layout.get("chunks") or [1] * len(shape)
    values, itemsize = NextLevel(finer, averaging), finer.dtype.itemsize
    for tile in tiles(shape, [unit[axis] for axis in order], itemsize, TILE_BYTES >> len(shape)):
        box = in_array_order(tile, order)
        opened.write(box, _in_pieces(values, box))


def _in_pieces(values: NextLevel, box: Box) -> Block:
    """Return the values of a box, of which only so much of the level before is in memory at once."""
    one = values.dtype.itemsize << len(box.extent)
    if math.prod(box.extent) * one <= SOURCE_BYTES:
        return values.block(box.origin, box.extent)
    found = np.empty(box.extent, values.dtype)
    for piece in tiles(box.extent, [1] * len(box.extent), one, SOURCE_BYTES):
        there = [first + inside for first, inside in zip(box.origin, piece.origin, strict=True)]
        found[piece.slices()] = values.block(there, piece.extent)
    return found


class PyramidArray(OpenArray):
    """The array and its coarser levels of one open file or group; boxes are in terms of the array.

    `levels` are those that are there, the array first. Where they are written, `add` makes an empty level in
    the same file, which `flush` fills.
    """

    def __init__(
        self, levels: Sequence[OpenArray], spec: Specification, add: Callable[[int], OpenArray] | None = None
    ) -> None:
        self._levels, self._spec, self._add = list(levels), spec, add

    def reader(self, box: Box) -> Callable[[], Block]:
        """Return `read` of `box`, at a coarser level of the nearest one that is stored."""
        number, own = of_stored_level(box, len(self._levels) - 1)
        return self._levels[number].reader(own)

    def write(self, box: Box, block: Block) -> None:
        """Store `block` at `box`; levels are made when everything is written, by `flush`."""
        self._levels[0].write(box, block)

    def flush(self) -> None:
        """Make the levels that are not there yet, and hand everything to the kernel."""
        if self._add is not None:
            for number in range(len(self._levels), 1 + stored_levels(self._spec["layout"])):
                self._levels.append(self._made(self._levels[-1], number, self._add(number)))
        for level in self._levels:
            level.flush()

    def _made(self, finer: OpenArray, number: int, coarser: OpenArray) -> OpenArray:
        averaging = self._spec["layout"]["pyramid"]["by"] == AVERAGING
        source = Stored(finer, level_specification(self._spec, number - 1))
        fill_level(coarser, level_specification(self._spec, number), source, averaging)
        return coarser

    def close(self) -> None:
        """Close all levels."""
        for level in reversed(self._levels):
            level.close()
