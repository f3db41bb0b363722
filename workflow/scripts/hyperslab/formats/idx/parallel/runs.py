"""What a rank has of each level: runs of neighbours in HZ order, found by the formula or by blocks.

Runs of a level come in order, few at a time, so that a rank holds little beside its values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.formats.idx.ordering import Covered, Ordering
from hyperslab.layouts.idx_files import IdxFiles
from hyperslab.layouts.idx_order import Blocks, Integers, Lattice, hz_addresses

Block = npt.NDArray[Any]
# HZ address of the first sample, and the samples.
Run = tuple[int, Block]
# The formula takes eight bytes a sample several times over: so many samples at once, as a power of two.
PART_BITS = 18
# So many bytes are put in order at once, and written by one call.
ORDERED_BYTES = 4 * 2**20


class ByFormula:
    """The runs of a sub-volume, of which every sample's address is computed bit by bit."""

    def __init__(self, files: IdxFiles, _: Ordering, origin: Sequence[int], values: Block) -> None:
        self._bitmask, self._origin, self._values = files.bitmask, origin, values
        self._parts = Blocks(files.bitmask, min(PART_BITS, files.bitmask.bits))

    def of_level(self, level: int) -> Iterator[Run]:
        """Yield the runs of a level, part by part."""
        if level <= self._parts.bits:
            yield from self._of(self._bitmask.level(level))
            return
        for number in self._parts.of_level(level, self._origin, self._values.shape).tolist():
            yield from self._of(self._parts.lattice(number))

    def _of(self, lattice: Lattice) -> Iterator[Run]:
        inside = lattice.within(self._origin, self._values.shape)
        if inside is None:
            return
        along = [
            start + by * np.arange(part.start, part.stop, dtype=np.int64)
            for start, by, part in zip(lattice.origin, lattice.step, inside, strict=True)
        ]
        addresses = hz_addresses(self._bitmask, np.meshgrid(*along, indexing="ij")).reshape(-1)
        samples = self._values[lattice.indices(inside, self._origin, (1,) * len(along))].reshape(-1)
        sorting = np.argsort(addresses)
        yield from _runs(addresses[sorting], samples[sorting])


class ByBlocks:
    """The same, block after block: the fast order."""

    def __init__(self, files: IdxFiles, order: Ordering, origin: Sequence[int], values: Block) -> None:
        self._blocks, self._order, self._origin, self._values = files.blocks, order, origin, values
        self._most = max(1, ORDERED_BYTES // files.block_bytes)

    def of_level(self, level: int) -> Iterator[Run]:
        """Yield the runs of a level, some blocks at a time."""
        if level <= self._blocks.bits:
            yield from self._first.get(level, ())
            return
        covered = self._order.covered(level, self._origin, self._values.shape)
        for start in range(0, len(covered.numbers), self._most):
            yield from self._some(covered, start, min(len(covered.numbers), start + self._most))

    def _some(self, covered: Covered, start: int, stop: int) -> Iterator[Run]:
        chosen = (start + np.flatnonzero(covered.whole[start:stop])).tolist()
        rows = np.empty((len(chosen), self._blocks.samples), self._values.dtype)
        self._order.cut(covered, chosen, self._origin, self._values, rows)
        whole = dict(zip(chosen, rows, strict=True))
        for place, number in enumerate(covered.numbers[start:stop].tolist(), start):
            if place in whole:
                yield number << self._blocks.bits, whole[place]
            else:
                yield from self._part(covered.level, number)

    def _part(self, level: int, number: int) -> Iterator[Run]:
        """Yield the runs of a block of which the sub-volume has a part, if any."""
        lattice = self._blocks.lattice(number)
        inside = lattice.within(self._origin, self._values.shape)
        if inside is None:
            return
        there, grid = np.zeros(lattice.counts, bool), np.zeros(lattice.counts, self._values.dtype)
        there[inside] = True
        grid[inside] = self._values[lattice.indices(inside, self._origin, (1,) * self._values.ndim)]
        places = np.flatnonzero(self._order.stored(level, there))
        yield from _runs((number << self._blocks.bits) + places, self._order.stored(level, grid)[places])

    @cached_property
    def _first(self) -> dict[int, list[Run]]:
        """The runs of each level that the first block holds."""
        found: dict[int, list[Run]] = {}
        for address, samples in self._part(self._blocks.bits, 0):
            for level, run in _by_level(address, samples):
                found.setdefault(level, []).append(run)
        return found


def _runs(addresses: Integers, samples: Block) -> Iterator[Run]:
    cuts = np.flatnonzero(np.diff(addresses) != 1) + 1
    firsts = [0, *cuts.tolist()]
    return zip(addresses[firsts].tolist(), np.split(samples, cuts), strict=True)


def _by_level(address: int, samples: Block) -> Iterator[tuple[int, Run]]:
    """Yield the parts of a run that lie in different levels."""
    end = address + len(samples)
    while address < end:
        level = address.bit_length()
        last = min(end, 1 << level)
        yield level, (address, samples[: last - address])
        samples, address = samples[last - address :], last


def in_files(files: IdxFiles, field: int, runs: Iterable[Run]) -> Iterator[tuple[int, int, Block]]:
    """Yield (first block of the file, offset in it, samples that follow each other there) of runs."""
    bits, itemsize = files.blocks.bits, files.itemsize
    at, end, begun, waiting = -1, -1, 0, list[Block]()
    known: dict[int, tuple[Integers, Integers]] = {}
    for address, samples in runs:
        while len(samples):
            block, inside = address >> bits, address & (1 << bits) - 1
            piece = samples[: (1 << bits) - inside]
            first = files.first_of_file(block)
            if first not in known:
                known = {first: (files.in_file(first), files.offsets(first, field))}
            held, offsets = known[first]
            offset = int(offsets[int(np.searchsorted(held, block))]) + inside * itemsize
            if (first, offset) != (at, end) or end - begun >= ORDERED_BYTES:
                if waiting:
                    yield at, begun, _joined(waiting)
                at, begun, waiting = first, offset, []
            waiting.append(piece)
            end = offset + piece.nbytes
            samples, address = samples[len(piece) :], address + len(piece)
    if waiting:
        yield at, begun, _joined(waiting)


def _joined(pieces: list[Block]) -> Block:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
