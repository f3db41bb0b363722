"""What HDF5 asks the kernel for when it reads a box of an opened file: offsets and lengths, in order.

Chunks lie in row-major order on disk, each of the mean stored size where they are filtered, and between them
the nodes of their version-1 B-tree, each of which is read when it is first on the way to a chunk. An
unfiltered chunk that is larger than the chunk cache passes it: HDF5 reads what it needs of it run by run,
without the sieve buffer (H5D__chunk_cacheable; the sieve buffer of a chunked dataset has no size). Contiguous
arrays are read through the sieve buffer.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hyperslab.advising.candidates import Candidate
from hyperslab.layouts import hdf5_index
from hyperslab.layouts.chunks import chunk_count, chunks_per_axis, chunks_touched, run_axis, touched_per_axis
from hyperslab.layouts.hdf5_index import sieve_requests
from hyperslab.layouts.hdf5_places import CONTIGUOUS_BYTES, Places

SIEVE_BYTES = 2**16
# The chunk cache of releases before HDF5 2.0, bytes.
CACHE_BYTES = 2**20


@dataclass(frozen=True)
class Selection:
    """What reading one box asks for: `requests` (offset and length in bytes), in order.

    Of these `reads` are neither chunks that are read whole nor nodes of their index. `chunks` are looked up,
    and `runs` are copied one by one out of a buffer, of a chunk or the sieve.
    """

    requests: Sequence[tuple[int, int]]
    reads: int
    chunks: int
    runs: int


def selection(
    candidate: Candidate, shape: Sequence[int], itemsize: int, chunk_bytes: float,
    origin: Sequence[int], extent: Sequence[int], cache_bytes: int = CACHE_BYTES,
) -> Selection:  # fmt: skip
    """Return what reading one box of a file that was just opened asks for.

    Each chunk has `chunk_bytes` on disk (the mean where filtered); `cache_bytes` are those of the chunk
    cache.
    """
    shape, origin, extent = (candidate.on_disk(given) for given in (shape, origin, extent))
    if candidate.chunks is None:
        asked = sieve_requests(origin, extent, shape, itemsize, SIEVE_BYTES)
        found = [(CONTIGUOUS_BYTES + start, length) for start, length in asked]
        length = itemsize * math.prod(extent[run_axis(extent, shape) :])
        return Selection(found, len(found), 0, 0 if length > SIEVE_BYTES else runs(extent, shape))
    chunks = candidate.on_disk(candidate.chunks)
    stored = max(1, round(chunk_bytes))
    touched = chunks_touched(origin, extent, chunks)
    if not passes_cache(candidate, itemsize, cache_bytes):
        found = list(_chunks(shape, chunks, stored, origin, extent, itemsize, False))
        return Selection(found, 0, touched, runs_in_chunks(origin, extent, chunks))
    found = list(_chunks(shape, chunks, stored, origin, extent, itemsize, True))
    return Selection(found, runs_in_chunks(origin, extent, chunks), touched, 0)


def passes_cache(candidate: Candidate, itemsize: int, cache_bytes: int = CACHE_BYTES) -> bool:
    """Tell whether chunks are read past the chunk cache: they have no filters and are larger than it."""
    if candidate.chunks is None or candidate.filters:
        return False
    return math.prod(candidate.chunks) * itemsize > cache_bytes


def runs(extent: Sequence[int], shape: Sequence[int]) -> int:
    """Return in how many runs a box lies in row-major storage."""
    return math.prod(extent[: run_axis(extent, shape)])


def runs_in_chunks(origin: Sequence[int], extent: Sequence[int], chunks: Sequence[int]) -> int:
    """Return in how many runs a box lies in chunks; a run ends where it does in its chunk, or in memory.

    Memory holds the box in one piece, so that a run goes on over an axis only where the box is one whole
    chunk along it.
    """
    touched = [len(along) for along in touched_per_axis(origin, extent, chunks)]
    axis = len(chunks) - 1
    while axis > 0 and extent[axis] == chunks[axis] and touched[axis] == 1:
        axis -= 1
    return math.prod(extent[:axis]) * touched[axis]


def _chunks(
    shape: Sequence[int], chunks: Sequence[int], stored: int,
    origin: Sequence[int], extent: Sequence[int], itemsize: int, pieces: bool,
) -> Iterator[tuple[int, int]]:  # fmt: skip
    """Yield the requests of a chunked array; `pieces`: of chunks only the runs that are needed."""
    places = Places(len(shape), chunk_count(shape, chunks), stored)
    numbers = _linear(origin, extent, shape, chunks)
    offsets = places.chunk(numbers).tolist()
    # Each leaf of the index is on the way to a run of chunks, since these come in order.
    leaves = np.minimum(numbers // hdf5_index.BTREE_KEPT, places.levels[0] - 1)
    starts = [*np.flatnonzero(np.diff(leaves, prepend=-1)).tolist(), len(numbers)]
    seen: set[tuple[int, int]] = set()
    for first, last in itertools.pairwise(starts):
        for node in places.way(int(numbers[first])):
            if node not in seen:
                seen.add(node)
                yield places.node(*node), places.node_bytes
        if not pieces:
            yield from zip(offsets[first:last], itertools.repeat(stored), strict=False)
            continue
        for number, place in zip(numbers[first:last].tolist(), offsets[first:last], strict=True):
            for begun, length in _pieces(number, shape, chunks, origin, extent):
                yield place + begun * itemsize, length * itemsize


def _linear(
    origin: Sequence[int], extent: Sequence[int], shape: Sequence[int], chunks: Sequence[int]
) -> npt.NDArray[np.int64]:
    """Return the row-major numbers of the chunks that a box touches, ascending."""
    found = np.zeros(1, np.int64)
    for along, count in zip(
        touched_per_axis(origin, extent, chunks), chunks_per_axis(shape, chunks), strict=True
    ):
        found = (found[:, None] * count + np.arange(along.start, along.stop)).reshape(-1)
    return found


def _pieces(
    number: int, shape: Sequence[int], chunks: Sequence[int], origin: Sequence[int], extent: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Yield the runs (start and length in elements) of what a box needs of one chunk."""
    start: list[int] = []
    width: list[int] = []
    for begun, asked, chunk, many in reversed(
        list(zip(origin, extent, chunks, chunks_per_axis(shape, chunks), strict=True))
    ):
        number, place = divmod(number, many)
        first = max(begun, place * chunk)
        start.insert(0, first - place * chunk)
        width.insert(0, min(begun + asked, (place + 1) * chunk) - first)
    strides = [math.prod(chunks[axis + 1 :]) for axis in range(len(chunks))]
    inner = len(chunks) - 1
    while inner > 0 and width[inner] == chunks[inner] == extent[inner]:
        inner -= 1
    outer = [range(a, a + b) for a, b in zip(start[:inner], width[:inner], strict=True)]
    for coordinates in itertools.product(*outer):
        before = sum(c * s for c, s in zip(coordinates, strides, strict=False))
        yield before + start[inner] * strides[inner], math.prod(width[inner:])
