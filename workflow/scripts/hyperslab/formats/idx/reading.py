"""Reading boxes of an IDX dataset, whole or at a coarser level, whoever wrote it."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.formats.idx import codecs, description
from hyperslab.formats.idx import files as binary
from hyperslab.formats.idx.ordering import Ordering
from hyperslab.layouts.idx_files import name_of
from hyperslab.layouts.idx_order import Bitmask, Blocks

Block = npt.NDArray[Any]
Shape = Sequence[int]


def path_of(path: str, described: description.Description, time: int, first: int) -> str:
    """Return the path of the binary file whose first block is `first`; `time` counts from 0."""
    step = described.times[time]
    return os.path.normpath(
        os.path.join(path, name_of(described.template, described.time_template, step, first))
    )


@dataclass(frozen=True)
class Kept:
    """What has been read of a box up to a level: every `fine`-th sample, and the first block where that holds
    finer levels, too.
    """

    level: int
    fine: tuple[int, ...]
    samples: Block
    first_block: Block | None

    def every(self, steps: Shape) -> Block:
        """Return every `steps`-th sample of the box; `steps` are those of the level, or coarser."""
        thin = (by // one for by, one in zip(steps, self.fine, strict=True))
        return self.samples[tuple(slice(None, None, by) for by in thin)]


class Reader:
    """An open dataset; coordinates are those on disk. Raises OSError for what is damaged."""

    def __init__(self, path: str) -> None:
        self.described = description.read(path)
        self.bitmask = Bitmask(self.described.bitmask, len(self.described.shape))
        self.blocks = Blocks(self.bitmask, self.described.bits_per_block)
        self._order = Ordering(self.blocks, row_major=True)
        slots = self.described.blocks_per_file * len(self.described.fields)
        self._open = binary.OpenFiles(partial(path_of, path, self.described), slots, os.O_RDONLY)

    def dtype(self, field: int) -> np.dtype[Any]:
        """Return the type of a field's samples as they are stored."""
        return np.dtype(self.described.fields[field].dtype).newbyteorder("<")

    def read(self, time: int, field: int, origin: Shape, extent: Shape, steps: Shape) -> Block:
        """Return of a box every `steps`-th sample; `origin` is a multiple of `steps`, which are powers of
        two.
        """
        return self.refined(None, time, field, origin, extent, steps).every(steps)

    def refined(
        self, kept: Kept | None, time: int, field: int, origin: Shape, extent: Shape, steps: Shape
    ) -> Kept:
        """Return the same with what a finer level of the box needs of it; `kept` is that of a coarser one, of
        which nothing is read again.
        """
        level, first = self.bitmask.level_of_steps(steps), self.blocks.bits
        if kept is not None and level <= kept.level:
            return kept
        fine = self.bitmask.steps(level)
        shape = [-(-width // by) for width, by in zip(extent, fine, strict=True)]
        found = np.full(shape, self.described.fields[field].default, self.dtype(field))
        new, grid = list(self.blocks.levels(level)), None
        if kept is not None:
            thin = (by // one for by, one in zip(kept.fine, fine, strict=True))
            found[tuple(slice(None, None, by) for by in thin)] = kept.samples
            new = [own for own in new if own > max(first, kept.level)]
            if kept.first_block is not None:
                grid = kept.first_block
                self._order.put(self._order.covered(first, origin, extent), 0, grid, found, origin, fine)
        size = self.blocks.samples * found.itemsize
        for own in new:
            covered = self._order.covered(own, origin, extent)
            for number, stored, content, file in self._stored(time, field, covered.numbers.tolist()):
                samples: Block = np.frombuffer(codecs.decoded(stored.codec, content, size, file), found.dtype)
                read = self._order.grid(own, samples, stored.row_major)
                self._order.put(covered, number, read, found, origin, fine)
                grid = read if own == first else grid
        return Kept(level, fine, found, grid if level < first else None)

    def _stored(
        self, time: int, field: int, numbers: list[int]
    ) -> Iterator[tuple[int, binary.Stored, memoryview, str]]:
        """Yield which of the blocks are stored, where, their bytes and their file; neighbours are read in one
        call.
        """
        per_file = self.described.blocks_per_file
        start = 0
        while start < len(numbers):
            first = numbers[start] - numbers[start] % per_file
            stop = bisect_left(numbers, first + per_file, start)
            file = self._open.of(time, first)
            if file.absent:
                start = stop
                continue
            held = [
                binary.stored_of(file.headers, field * per_file + number - first, file.path)
                for number in numbers[start:stop]
            ]
            for begin, end in binary.runs(held):
                at = held[begin].offset
                content = file.read(at, held[end - 1].offset + held[end - 1].size - at)
                for number in range(begin, end):
                    begun = held[number].offset - at
                    piece = content[begun : begun + held[number].size]
                    yield start + number, held[number], piece, file.path
            start = stop

    def close(self) -> None:
        """Close all files."""
        self._open.close()
