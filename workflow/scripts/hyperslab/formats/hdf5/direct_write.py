"""Filling a file quickly: runs of whole chunks, made by one thread while another writes the last one."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.data.tiles import in_chunk_order, read_tile, row_major, tiles
from hyperslab.data.values import Values


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
