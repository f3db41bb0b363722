"""What a rank has of each level: runs of neighbours in HZ order, found by the formula or by blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.formats.idx.ordering import Ordering
from hyperslab.layouts.idx_files import IdxFiles
from hyperslab.layouts.idx_order import Integers, bit_lengths, hz_addresses

Block = npt.NDArray[Any]
# HZ address of the first sample, and the samples.
Run = tuple[int, Block]
# The formula takes eight bytes a sample several times over: so many samples at once, as a power of two.
PART_BITS = 18


def by_formula(files: IdxFiles, origin: Sequence[int], values: Block) -> list[list[Run]]:
    """Return the runs of each level of a sub-volume, every sample's address computed bit by bit."""
    bitmask = files.bitmask
    found: list[list[Run]] = [[] for _ in range(bitmask.bits + 1)]
    extent = bitmask.steps(max(0, bitmask.bits - PART_BITS))
    firsts = [
        range(start // width * width, start + size, width)
        for start, size, width in zip(origin, values.shape, extent, strict=True)
    ]
    for corner in np.stack(np.meshgrid(*firsts, indexing="ij"), -1).reshape(-1, len(extent)).tolist():
        low = [max(at, start) for at, start in zip(corner, origin, strict=True)]
        high = [
            min(at + width, start + size)
            for at, width, start, size in zip(corner, extent, origin, values.shape, strict=True)
        ]
        part = values[tuple(slice(a - o, b - o) for a, b, o in zip(low, high, origin, strict=True))]
        grid = np.meshgrid(
            *(np.arange(a, b, dtype=np.int64) for a, b in zip(low, high, strict=True)), indexing="ij"
        )
        addresses = hz_addresses(bitmask, grid).reshape(-1)
        sorting = np.argsort(addresses)
        addresses, samples = addresses[sorting], part.reshape(-1)[sorting]
        levels = bit_lengths(addresses)
        for level in np.unique(levels).tolist():
            mine = levels == level
            found[level] += _runs(addresses[mine], samples[mine])
    return [sorted(runs, key=lambda run: run[0]) for runs in found]


def by_blocks(files: IdxFiles, order: Ordering, origin: Sequence[int], values: Block) -> list[list[Run]]:
    """Return the same, block after block: the fast order."""
    blocks = files.blocks
    found: list[list[Run]] = [[] for _ in range(files.bitmask.bits + 1)]
    for level in files.levels():
        covered = order.covered(level, origin, values.shape)
        whole = np.flatnonzero(covered.whole).tolist()
        rows = np.empty((len(whole), blocks.samples), values.dtype)
        order.cut(covered, whole, origin, values, rows)
        for number, row in zip(covered.numbers[whole].tolist(), rows, strict=True):
            found[level].append((number << blocks.bits, row))
        for number in covered.numbers[~covered.whole].tolist():
            lattice = blocks.lattice(number)
            inside = lattice.within(origin, values.shape)
            assert inside is not None
            there, grid = np.zeros(lattice.counts, bool), np.zeros(lattice.counts, values.dtype)
            there[inside] = True
            grid[inside] = values[lattice.indices(inside, origin, (1,) * values.ndim)]
            places = np.flatnonzero(order.stored(level, there))
            found[level] += _runs((number << blocks.bits) + places, order.stored(level, grid)[places])
    # Block 0 holds several levels.
    first = found[blocks.bits]
    found[blocks.bits] = []
    for address, samples in first:
        for level, run in _by_level(address, samples):
            found[level].append(run)
    return [sorted(runs, key=lambda run: run[0]) for runs in found]


def _runs(addresses: Integers, samples: Block) -> list[Run]:
    cuts = np.flatnonzero(np.diff(addresses) != 1) + 1
    firsts = [0, *cuts.tolist()]
    return [
        (int(addresses[first]), piece) for first, piece in zip(firsts, np.split(samples, cuts), strict=True)
    ]


def _by_level(address: int, samples: Block) -> Iterator[tuple[int, Run]]:
    """Yield the parts of a run that lie in different levels."""
    end = address + len(samples)
    while address < end:
        level = address.bit_length()
        last = min(end, 1 << level)
        yield level, (address, samples[: last - address])
        samples, address = samples[last - address :], last


def in_files(files: IdxFiles, field: int, runs: Sequence[Run]) -> Iterator[tuple[int, int, list[Block]]]:
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
                known[first] = files.in_file(first), files.offsets(first, field)
            held, offsets = known[first]
            offset = int(offsets[int(np.searchsorted(held, block))]) + inside * itemsize
            if (first, offset) != (at, end):
                if waiting:
                    yield at, begun, waiting
                at, begun, waiting = first, offset, []
            waiting.append(piece)
            end = offset + piece.nbytes
            samples, address = samples[len(piece) :], address + len(piece)
    if waiting:
        yield at, begun, waiting
