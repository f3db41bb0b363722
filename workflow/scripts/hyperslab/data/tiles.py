"""Tiles: runs of whole chunks, small enough for memory, in the order in which they lie on disk."""

from __future__ import annotations

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
    for position in np.ndindex(*(-(-count // step) for count, step in zip(counts, steps, strict=True))):
        first = [p * s * c for p, s, c in zip(position, steps, chunk, strict=True)]
        last = [min(f + s * c, e) for f, s, c, e in zip(first, steps, chunk, shape, strict=True)]
        yield Box(tuple(first), tuple(b - a for a, b in zip(first, last, strict=True)))


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
    split = block.reshape([part for pair in zip(counts, chunk, strict=True) for part in pair])
    outer, inner = range(0, split.ndim, 2), range(1, split.ndim, 2)
    return row_major(split.transpose([*outer, *inner])).reshape(-1)


def _zeros_like(block: npt.NDArray[Any], shape: Sequence[int]) -> npt.NDArray[Any]:
    """Return zeros of `shape` whose axes lie in memory in the same order as those of `block`."""
    order = sorted(range(block.ndim), key=lambda axis: -block.strides[axis])
    zeros = np.zeros([shape[axis] for axis in order], block.dtype)
    return zeros.transpose(inverse_of(order))
