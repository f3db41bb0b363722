"""Filling a file quickly: runs of whole chunks, made by one thread while another writes the last one."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.data.tiles import read_tile, row_major, tiles
from hyperslab.data.values import Values
from hyperslab.layouts.chunks import chunks_per_axis


def in_chunk_order(block: npt.NDArray[Any], chunk: Sequence[int]) -> npt.NDArray[Any]:
    """The elements of `block` chunk after chunk, edge chunks padded with zeros; one-dimensional."""
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
    """Zeros of `shape` whose axes lie in memory in the same order as those of `block`."""
    order = sorted(range(block.ndim), key=lambda axis: -block.strides[axis])
    zeros = np.zeros([shape[axis] for axis in order], block.dtype)
    return zeros.transpose([order.index(axis) for axis in range(block.ndim)])


def _write_runs(descriptor: int, data: npt.NDArray[Any], offsets: npt.NDArray[np.int64], size: int) -> None:
    """Write consecutive chunks of `size` bytes to their `offsets`, neighbours in one call."""
    view = data.data.cast("B")
    breaks = np.flatnonzero(np.diff(offsets) != size) + 1
    bounds = [0, *breaks.tolist(), len(offsets)]
    for first, last in zip(bounds, bounds[1:], strict=False):
        _write_all(descriptor, view[first * size : last * size], int(offsets[first]))


def _write_all(descriptor: int, view: memoryview, offset: int) -> None:
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written


def fill_chunks(
    path: str,
    offsets: npt.NDArray[np.int64],
    shape: Sequence[int],
    chunk: Sequence[int],
    values: Values,
    order: Sequence[int],
) -> None:
    """Put `values` into chunks already allocated at `offsets` (row-major, in bytes); shapes in disk order."""
    itemsize = values.dtype.itemsize
    size = math.prod(chunk) * itemsize

    def produce() -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[np.int64]]]:
        done = 0
        for tile in tiles(shape, chunk, itemsize):
            data = in_chunk_order(read_tile(values, tile, order), chunk)
            count = data.nbytes // size
            yield data, offsets[done : done + count]
            done += count

    _pipeline(path, ((data, places, size) for data, places in produce()))


def fill_contiguous(
    path: str, offset: int, shape: Sequence[int], values: Values, order: Sequence[int]
) -> None:
    """Put `values` into a contiguous dataset whose storage starts at `offset`; shape in disk order."""
    itemsize = values.dtype.itemsize

    def produce() -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[np.int64], int]]:
        position = offset
        for tile in tiles(shape, [1] * len(shape), itemsize):
            data = row_major(read_tile(values, tile, order)).reshape(-1)
            yield data, np.array([position], np.int64), data.nbytes
            position += data.nbytes

    _pipeline(path, produce())


def _pipeline(path: str, pieces: Iterator[tuple[npt.NDArray[Any], npt.NDArray[np.int64], int]]) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        with ThreadPoolExecutor(1) as writer:
            pending: Future[None] | None = None
            for data, offsets, size in pieces:
                if pending:
                    pending.result()
                pending = writer.submit(_write_runs, descriptor, data, offsets, size)
            if pending:
                pending.result()
    finally:
        os.close(descriptor)
