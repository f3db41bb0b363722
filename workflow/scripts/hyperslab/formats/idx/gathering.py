"""Whole blocks of a level taken out of an array, neighbours along the fastest axis together.

One gather of samples of two bytes costs about ten times a copy of them. So rows of neighbouring blocks are
copied beside each other first, which reads memory in long runs; then samples that follow each other in HZ
order become items of eight bytes by strided copies, and the gather moves those. Row-major blocks are copied.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.layouts.idx_order import Blocks

Block = npt.NDArray[Any]
# Bytes that a gather moves at a time, and those of the blocks that are taken together.
ITEM_BYTES, TOGETHER_BYTES = 8, 2**20
# Rows of a power of two bytes would share few lines of the cache.
PADDING_BYTES = 64


class Gathering:
    """How blocks of one level are taken out of arrays with elements of `itemsize` bytes."""

    def __init__(self, blocks: Blocks, level: int, itemsize: int, row_major: bool) -> None:
        self.counts, self.steps = blocks.counts(level), blocks.whole_level(level).step
        dims = len(self.counts)
        # The axes of the last splits, finest first; in block 0 no samples of one level lie beside each other.
        axes = blocks.split_axes(level)[::-1] if level > blocks.bits and not row_major else ()
        low = axes[: max(0, (ITEM_BYTES // itemsize).bit_length() - 1)]
        self.most = max(1, TOGETHER_BYTES // (itemsize << blocks.bits))
        self._halvings = [low.count(axis) for axis in range(dims)]
        # Which of the samples along each axis come first, second, … within an item.
        self._firsts = [_first_of(low, bits, dims) for bits in itertools.product((0, 1), repeat=len(low))]
        items = [count >> halved for count, halved in zip(self.counts, self._halvings, strict=True)]
        self._width = items[-1]
        shape = [*items[:-1], items[-1] * self.most + max(1, PADDING_BYTES // (itemsize << len(low)))]
        kind = f"u{itemsize}"
        self._rows = np.empty((*self.counts[:-1], self.counts[-1] * self.most), kind)
        self._row_major = row_major
        if row_major:
            return
        self._items = np.empty((*shape, len(self._firsts)), kind)
        self._flat = self._items.reshape(-1).view(f"u{itemsize << len(low)}")
        places = np.unravel_index(blocks.order(level)[:: len(self._firsts)], self.counts)
        strides = [math.prod(shape[axis + 1 :]) for axis in range(dims)]
        parts = ((p >> h) * by for p, h, by in zip(places, self._halvings, strides, strict=True))
        self._table = np.asarray(sum(parts), np.intp)

    def take(self, start: Sequence[int], values: Block, rows: Sequence[Block]) -> None:
        """Fill rows, a block each, with blocks that lie beside each other along the last axis from `start`.

        There are at most `most` of them.
        """
        counts = [*self.counts[:-1], self.counts[-1] * len(rows)]
        there = tuple(
            slice(first, first + (count - 1) * step + 1, step)
            for first, count, step in zip(start, counts, self.steps, strict=True)
        )
        copied = self._rows[..., : counts[-1]]
        np.copyto(copied, values[there].view(copied.dtype))
        if self._row_major:
            for number, row in enumerate(rows):
                own = slice(number * self.counts[-1], (number + 1) * self.counts[-1])
                row.view(copied.dtype).reshape(self.counts)[...] = copied[..., own]
            return
        items = self._items[..., : self._width * len(rows), :]
        for number, firsts in enumerate(self._firsts):
            chosen = tuple(slice(f, None, 1 << h) for f, h in zip(firsts, self._halvings, strict=True))
            items[..., number] = copied[chosen]
        for number, row in enumerate(rows):
            # Clipping takes no copy of what it writes to; no number is beyond the end.
            out = row.view(self._flat.dtype)
            self._flat[number * self._width :].take(self._table, out=out, mode="clip")


def _first_of(low: Sequence[int], bits: Sequence[int], dims: int) -> list[int]:
    """Return the coordinates, within an item, of the sample whose number has these bits, highest first."""
    found, taken = [0] * dims, [0] * dims
    for axis, bit in zip(low, reversed(bits), strict=True):
        found[axis] |= bit << taken[axis]
        taken[axis] += 1
    return found


def in_rows(starts: npt.NDArray[np.int64], span: int) -> list[npt.NDArray[np.intp]]:
    """Return numbers of blocks, those that follow each other along the last axis at `span` in one list."""
    sorting = np.lexsort((starts[:, -1], *starts[:, :-1].T))
    ordered = starts[sorting]
    apart = np.any(np.diff(ordered[:, :-1], axis=0) != 0, axis=1) | (np.diff(ordered[:, -1]) != span)
    return np.split(sorting, np.flatnonzero(apart) + 1)
