"""Filtered chunks made by several processes and stored by one, in the order of the plain writer.

The first run of chunks is made here, and with it all others where processes would take longer to start than
they spare. A run is written to a file in memory with the same creation properties, and what HDF5 stored of
each chunk is taken from there, so that every filter serves, plugins too. Who makes a chunk does not matter to
it: offsets, sizes, filter masks, index and values are those of the plain writer (tested for each filter).
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from time import perf_counter

import numpy as np
from h5py import h5d, h5p

from hyperslab.data.selections import Box
from hyperslab.data.tiles import read_tile, row_major, tiles
from hyperslab.data.values import Values
from hyperslab.formats.hdf5.description import describe_dataset
from hyperslab.formats.hdf5.encoding import Stored, encoded
from hyperslab.measuring.machine import largest_memory_bytes
from hyperslab.measuring.parent import follow_parent
from hyperslab.measuring.processors import processors
from hyperslab.specifications import Specification

# A worker holds about five times this (values, turned values, its file, the chunks, what it sends), and so
# does the writer with what waits for it: with five processes well under the bound of 1 GiB.
TILE_BYTES = 8 * 2**20
# A smaller array is written by HDF5 alone.
LEAST_BYTES = 32 * 2**20
# Until interpreters have begun, with all that they import (seen).
START_SECONDS = 0.45


@dataclass(frozen=True)
class Run:
    """Consecutive chunks as HDF5 stores them, the worker that made them, and its largest memory so far."""

    chunks: list[Stored]
    worker: int
    memory_bytes: int


def suits(spec: Specification) -> bool:
    """Return whether several processes are of use: many filtered chunks, none larger than a tile,
    several cores.
    """
    layout, dataset = spec["layout"], spec["dataset"]
    if not layout["filters"]:
        return False
    itemsize = np.dtype(dataset["dtype"]).itemsize
    whole, chunk = (
        math.prod(shape) * itemsize for shape in (dataset["shape"], layout["chunks"] or dataset["shape"])
    )
    return bool(whole >= LEAST_BYTES and chunk <= TILE_BYTES and processors() > 1)


def fill(
    dataset: h5d.DatasetID, spec: Specification, chunk: Sequence[int], values: Values, order: Sequence[int]
) -> int:
    """Store `values` in an empty dataset, chunk by chunk in row-major order; `chunk` in disk order.

    Returns the largest memory of each worker, summed, in bytes. Raises ChildProcessError where a worker
    ended before its work was done, as a fault in a filter's library makes it.
    """
    runs = tiles(dataset.shape, chunk, values.dtype.itemsize, TILE_BYTES)

    def store(tile: Box, chunks: Sequence[Stored]) -> None:
        for place, (mask, content) in zip(_places(tile, chunk), chunks, strict=True):
            dataset.write_direct_chunk(place, content, mask)

    left = math.prod(dataset.shape)
    for tile in runs:
        started = perf_counter()
        store(tile, _encoded(tile, (spec, values, order)))
        made = math.prod(tile.extent)
        left -= made
        if _worth_processes((perf_counter() - started) / made * left):
            break
    else:
        return 0
    # A new interpreter each: what a fork would share (the library's caches, its locks) none has.
    several = processors()
    pool = ProcessPoolExecutor(several, get_context("spawn"), _begin, (os.getpid(), spec, values, order))
    try:
        memory: dict[int, int] = {}
        for tile, run in _in_order(pool, runs, several):
            store(tile, run.chunks)
            memory[run.worker] = run.memory_bytes
        return sum(memory.values())
    except BrokenProcessPool:
        names = ", ".join(one["name"] for one in spec["layout"]["filters"])
        message = f"a process that compressed chunks ({names}) ended before its work was done"
        raise ChildProcessError(message) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _worth_processes(seconds: float) -> bool:
    """Return whether processes would spare more of what takes so long here than their start takes."""
    # The system is asked how many there may be, which for each run of chunks would take long, too.
    return seconds > START_SECONDS and seconds * (1 - 1 / processors()) > START_SECONDS


def _in_order(pool: ProcessPoolExecutor, runs: Iterator[Box], workers: int) -> Iterator[tuple[Box, Run]]:
    """Yield each run with its chunks, as the runs come; no more are under way than keep all workers busy."""
    waiting: deque[tuple[Box, Future[Run]]] = deque()
    for tile in runs:
        waiting.append((tile, pool.submit(_compressed, tile)))
        if len(waiting) > workers:
            first, future = waiting.popleft()
            yield first, future.result()
    while waiting:
        first, future = waiting.popleft()
        yield first, future.result()


def _places(tile: Box, chunk: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the first element of each chunk of a run, in row-major order."""
    counts = [-(-extent // size) for extent, size in zip(tile.extent, chunk, strict=True)]
    for position in np.ndindex(*counts):
        yield tuple(o + p * c for o, p, c in zip(tile.origin, position, chunk, strict=True))


# What a worker was given when it began: specification, values, order of the axes on disk.
Given = tuple[Specification, Values, Sequence[int]]
_given: Given


def _begin(parent: int, spec: Specification, values: Values, order: Sequence[int]) -> None:
    global _given
    follow_parent(parent)
    _given = (spec, values, order)


def _compressed(tile: Box) -> Run:
    """Return a run as a worker makes it."""
    return Run(_encoded(tile, _given), os.getpid(), largest_memory_bytes())


def _encoded(tile: Box, given: Given) -> list[Stored]:
    """Return every chunk of a run as HDF5 stores it, in row-major order."""
    spec, values, order = given
    block = row_major(read_tile(values, tile, order))
    creation = h5p.create(h5p.DATASET_CREATE)
    datatype, _ = describe_dataset(creation, spec)
    inside = Box((0,) * len(tile.origin), tile.extent)
    return encoded(block, creation, datatype, _places(inside, creation.get_chunk()))
