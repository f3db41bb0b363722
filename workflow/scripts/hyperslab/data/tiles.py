"""Boxes that make up an array: of any extent, or tiles, which are runs of whole chunks in disk order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.data.selections import Box, Pattern, inverse_of
from hyperslab.data.values import Values
from hyperslab.layouts.chunks import chunks_per_axis

# Large enough to hide the interpreter, small enough for three in memory at once.
TILE_BYTES = 32 * 2**20


# Lines of 64 bytes that a first-level cache of 32 KiB holds.
CACHE_LINES = 512


def covering(shape: Sequence[int], extent: Sequence[int], first: int = 0) -> Iterator[Box]:
    """Yield the boxes of `extent`, cut at the edge, that cover `shape` in row-major order;
    `first` shifts axis 0.
    """
    steps = [range(0, size, width) for size, width in zip(shape, extent, strict=True)]
    for start in itertools.product(*steps):
        width = (min(s + e, n) - s for s, e, n in zip(start, extent, shape, strict=True))
        yield Box((start[0] + first, *start[1:]), tuple(width))


def slabs(shape: Sequence[int], extent: Sequence[int]) -> Iterator[Box]:
    """Yield the array in pieces of whole blocks along the first axis, so that memory holds one piece."""
    yield from covering(shape, [extent[0], *shape[1:]])


def inside(box: Box, slab: Box) -> tuple[slice, ...]:
    """Return a box that lies in a slab as an index for the values of that slab."""
    starts = [b - s for b, s in zip(box.origin, slab.origin, strict=True)]
    return tuple(slice(start, start + width) for start, width in zip(starts, box.extent, strict=True))


def split(extent: int, parts: int) -> list[tuple[int, int]]:
    """Return (start, length) of each part of an axis; lengths differ by at most one."""
    bounds = [extent * part // parts for part in range(parts + 1)]
    return [(start, end - start) for start, end in itertools.pairwise(bounds)]


def tiles(
    shape: Sequence[int], chunk: Sequence[int], itemsize: int, limit: int = TILE_BYTES
) -> Iterator[Box]:
    """Yield the boxes of whole chunks (cut at the array's edge) that cover `shape` in row-major chunk order.

    Each is a run of consecutive chunks: several along one axis, all along later ones, one along earlier ones.
    """
    counts = chunks_per_axis(shape, chunk)
    one = math.prod(chunk) * itemsize
    axis = 0
    while axis < len(shape) - 1 and one * math.prod(counts[axis + 1 :]) > limit:
        axis += 1
    several = max(1, limit // (one * math.prod(counts[axis + 1 :])))
    steps = [1] * axis + [several] + list(counts[axis + 1 :])
    yield from covering(shape, [step * size for step, size in zip(steps, chunk, strict=True)])


def in_array_order(tile: Box, order: Sequence[int]) -> Box:
    """Return a box given in disk order, in array terms;
    `order` lists the array's axes as they lie on disk.
    """
    return tile.permuted(inverse_of(order))


def read_tile(values: Values, tile: Box, order: Sequence[int]) -> npt.NDArray[Any]:
    """Return the values of a box given in disk order."""
    box = in_array_order(tile, order)
    return values.block(box.origin, box.extent).transpose(order)


def selected(values: Values, box: Box) -> npt.NDArray[Any]:
    """Return the values of a box or pattern; of planes along the first axis only those that are selected
    are made.
    """
    if not (isinstance(box, Pattern) and box.single):
        return box.of(values.block(box.origin, box.extent))
    within = tuple(slice(None, None, step) for step in box.step[1:])
    found = np.empty(box.shape, values.dtype)
    for number, plane in enumerate(range(box.origin[0], box.origin[0] + box.extent[0], box.step[0])):
        found[number] = values.block((plane, *box.origin[1:]), (1, *box.extent[1:]))[0][within]
    return found


def row_major(view: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a view with turned axes as an array of its own in row-major order.

    numpy's copy jumps from line to line of the source along the whole array, and finds none of them in the
    cache again. Where the source runs along another axis than the last, the copy goes by so few lines at once
    that they stay there (3 to 4 times as fast).
    """
    long = [axis for axis, extent in enumerate(view.shape) if extent > 1]
    if not long or (along := min(long, key=lambda axis: abs(view.strides[axis]))) == long[-1]:
        return np.ascontiguousarray(view)
    result = np.empty(view.shape, view.dtype)
    others = [extent for axis, extent in enumerate(view.shape) if axis != along]
    for lines in tiles(others, [1] * len(others), 1, CACHE_LINES):
        piece = list(lines.slices())
        piece.insert(along, slice(None))
        result[tuple(piece)] = view[tuple(piece)]
    return result


def in_chunk_order(block: npt.NDArray[Any], chunk: Sequence[int]) -> npt.NDArray[Any]:
    """Return the elements of `block` chunk after chunk, edge chunks padded with zeros; one-dimensional."""
    counts = chunks_per_axis(block.shape, chunk)
    whole = tuple(count * size for count, size in zip(counts, chunk, strict=True))
    if whole != block.shape:
        padded = _zeros_like(block, whole)
        padded[tuple(slice(0, extent) for extent in block.shape)] = block
        block = padded
    parted = block.reshape([part for pair in zip(counts, chunk, strict=True) for part in pair])
    outer, inner = range(0, parted.ndim, 2), range(1, parted.ndim, 2)
    return row_major(parted.transpose([*outer, *inner])).reshape(-1)


def _zeros_like(block: npt.NDArray[Any], shape: Sequence[int]) -> npt.NDArray[Any]:
    """Return zeros of `shape` whose axes lie in memory in the same order as those of `block`."""
    order = sorted(range(block.ndim), key=lambda axis: -block.strides[axis])
    zeros = np.zeros([shape[axis] for axis in order], block.dtype)
    return zeros.transpose(inverse_of(order))
