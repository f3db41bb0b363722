"""Samples of blocks in the order in which they are stored, taken out of arrays and put into them.

No loop runs over samples: of a block that lies in the array, few copies and one gather take all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.formats.idx.gathering import Gathering, in_rows
from hyperslab.layouts.idx_order import Bitmask, Blocks, Integers, hz_addresses

Block = npt.NDArray[Any]
Shape = Sequence[int]


@dataclass(frozen=True)
class Covered:
    """Blocks of a level that a box touches: their numbers, the coordinates of the first sample of each, and
    whether all samples lie in the box.
    """

    level: int
    numbers: Integers
    firsts: Integers
    whole: npt.NDArray[np.bool_]


class Ordering:
    """How samples lie within the blocks of a dataset: in HZ order, or row-major.

    Several threads may use it at once.
    """

    def __init__(self, blocks: Blocks, row_major: bool) -> None:
        self.blocks, self.row_major = blocks, row_major
        # A gathering holds what it is about to move, so each thread has its own.
        self._own = threading.local()

    def covered(self, level: int, origin: Shape, extent: Shape) -> Covered:
        """Return the blocks of a level that a box touches."""
        return self.described(level, self.blocks.of_level(level, origin, extent), origin, extent)

    def described(self, level: int, numbers: Integers, origin: Shape, extent: Shape) -> Covered:
        """Return which blocks of a level lie in a box with all their samples."""
        lattice, counts = self.blocks.whole_level(level), np.asarray(self.blocks.counts(level))
        digits = max(0, level - 1 - self.blocks.bits)
        places = self.blocks.bitmask.split_into(0, digits, numbers - (1 << digits if numbers.any() else 0))
        step = np.asarray(lattice.step)
        firsts = np.stack(places, axis=1) * (counts * step) + np.asarray(lattice.origin)
        low, high = np.asarray(origin), np.asarray(origin) + np.asarray(extent)
        whole = np.all((firsts >= low) & (firsts + (counts - 1) * step < high), axis=1)
        return Covered(level, numbers, firsts, whole)

    def cut(self, found: Covered, chosen: Sequence[int], origin: Shape, values: Block, out: Block) -> None:
        """Fill the rows of `out` with the samples of chosen whole blocks, as they are stored.

        `values` is the box at `origin`.
        """
        starts = found.firsts[chosen] - np.asarray(origin)
        steps = self.blocks.whole_level(found.level).step
        gathering = self._gathering(found.level, values.itemsize)
        for beside in in_rows(starts, gathering.counts[-1] * steps[-1]) if len(starts) else []:
            for first in range(0, len(beside), gathering.most):
                part = beside[first : first + gathering.most].tolist()
                gathering.take(starts[part[0]].tolist(), values, [out[number] for number in part])

    def _gathering(self, level: int, itemsize: int) -> Gathering:
        known: dict[tuple[int, int], Gathering] = self._own.__dict__.setdefault("gatherings", {})
        if (level, itemsize) not in known:
            known[level, itemsize] = Gathering(self.blocks, level, itemsize, self.row_major)
        return known[level, itemsize]

    def stored(self, level: int, grid: Block) -> Block:
        """Return the samples of a block, given row-major, as they are stored."""
        return grid.reshape(-1) if self.row_major else grid.reshape(-1).take(self.blocks.order(level))

    def grid(self, level: int, stored: Block, row_major: bool) -> Block:
        """Return the samples of a block with its own extents, from those that are stored one way or other."""
        flat = stored if row_major else stored.take(self.blocks.inverse(level))
        return flat.reshape(self.blocks.counts(level))

    def put(
        self, found: Covered, number: int, grid: Block, out: Block, origin: Shape, divided_by: Shape
    ) -> None:
        """Put what a block, number `number` of those found, holds of a box into `out`.

        `out` is an array of every `divided_by`-th sample of the box, which begins at `origin`. Of block 0,
        which may be finer than that, only those samples are taken.
        """
        steps = self.blocks.whole_level(found.level).step
        first = found.firsts[number].tolist()
        if found.level == self.blocks.bits:
            thin = [max(1, by // one) for by, one in zip(divided_by, steps, strict=True)]
            grid = grid[tuple(slice(None, None, by) for by in thin)]
            steps = tuple(one * by for one, by in zip(steps, thin, strict=True))
        here = zip(first, origin, divided_by, strict=True)
        start = [(begin - low) // by for begin, low, by in here]
        step = [one // by for one, by in zip(steps, divided_by, strict=True)]
        if found.whole[number] and found.level > self.blocks.bits:
            out[_slices(start, grid.shape, step)] = grid
            return
        # Numbers of samples of the block, per axis, that lie in `out`.
        parts = [
            slice(max(0, -(begin // by)), min(count, (size - 1 - begin) // by + 1))
            for begin, by, count, size in zip(start, step, grid.shape, out.shape, strict=True)
        ]
        if all(part.start < part.stop for part in parts):
            begins = [begin + part.start * by for begin, part, by in zip(start, parts, step, strict=True)]
            counts = [part.stop - part.start for part in parts]
            out[_slices(begins, counts, step)] = grid[tuple(parts)]


def _slices(start: Sequence[int], counts: Shape, steps: Shape) -> tuple[slice, ...]:
    return tuple(
        slice(first, first + (count - 1) * step + 1, step)
        for first, count, step in zip(start, counts, steps, strict=True)
    )


def by_formula(bitmask: Bitmask, bits_per_block: int, values: Block) -> Iterator[tuple[int, Block]]:
    """Yield the blocks of a whole array in HZ order, each address computed bit by bit: the slow variant."""
    grid = np.meshgrid(*(np.arange(size, dtype=np.int64) for size in values.shape), indexing="ij")
    addresses = hz_addresses(bitmask, grid).reshape(-1)
    ordered = np.zeros(1 << bitmask.bits, values.dtype)
    ordered[addresses] = values.reshape(-1)
    samples = 1 << bits_per_block
    for block in np.unique(addresses >> bits_per_block).tolist():
        yield block, ordered[block * samples : (block + 1) * samples]
