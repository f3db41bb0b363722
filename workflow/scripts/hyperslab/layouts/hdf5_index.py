"""Arithmetic of HDF5's own: sizes of chunk indexes, reads through the sieve buffer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from hyperslab.layouts.chunks import contiguous_runs, first_run, run_axis

Shape = Sequence[int]

# HDF5 file format specification, "Version 1 B-trees": 2 x 32 children a node for chunks (H5Pset_istore_k).
BTREE_CHILDREN = 64


# H5B splits the rightmost node 90:10, so nodes filled in ascending order keep 57 of 64 children.
BTREE_KEPT = 57


# HDF5 file format specification, "Fixed Array": 1,024 elements a data block page.
FIXED_ARRAY_PAGE = 1024


def btree_node_bytes(dimensions: int) -> int:
    """Return the size of one version-1 B-tree node for chunks: header 24, 65 keys of 8 + 8(d+1),
    64 addresses of 8.
    """
    return 24 + (BTREE_CHILDREN + 1) * (8 + 8 * (dimensions + 1)) + BTREE_CHILDREN * 8


def btree_parent(child: int) -> int:
    """Return which parent node holds child number `child`, for children inserted in ascending order."""
    return child // BTREE_KEPT


def btree_level(children: int) -> int:
    """Return the nodes needed for `children` inserted in ascending order."""
    return 1 + max(0, -(-(children - BTREE_CHILDREN) // BTREE_KEPT))


def btree_nodes(chunks: int) -> int:
    """Return the nodes of a version-1 B-tree after `chunks` insertions in ascending (row-major) order."""
    total, level = 0, chunks
    while True:
        level = btree_level(level)
        total += level
        if level == 1:
            return total


def btree_nodes_visited(linear: Iterable[int], chunks: int) -> int:
    """Return the distinct version-1 B-tree nodes on the paths to the chunks `linear` (row-major, tree as
    above).
    """
    wanted, level, total = set(linear), chunks, 0
    while True:
        level = btree_level(level)
        wanted = {min(btree_parent(child), level - 1) for child in wanted}
        total += len(wanted)
        if level == 1:
            return total


def fixed_array_bytes(
    chunks: int, filtered: bool = False, chunk_bytes: int = 0, size_bytes: int | None = None
) -> int:
    """Return the index bytes of a fixed array (libver v110 and later),
    zero for a single chunk (no index is kept).

    Header 28 bytes, data block prefix 14 and checksum 4, 8 bytes an unfiltered element; above 1,024 elements
    a page bitmap and a checksum a page (HDF5 file format specification, "Fixed Array"). Filtered elements add
    the stored size of the chunk in `size_bytes` bytes (by default one more than `chunk_bytes` needs, as
    H5D__farray_idx_create has it up to data layout message version 4) and a 4-byte filter mask.
    """
    if chunks == 1:
        return 0
    entry = 8
    if filtered:
        # 1 + (floor(log2(chunk_bytes)) + 8) // 8, of which the inner sum is bit_length + 7.
        entry += (size_bytes or min(8, 1 + (max(chunk_bytes, 1).bit_length() + 7) // 8)) + 4
    pages = -(-chunks // FIXED_ARRAY_PAGE) if chunks > FIXED_ARRAY_PAGE else 0
    return 28 + 14 + 4 + chunks * entry + -(-pages // 8) + 4 * pages


def sieve_requested_bytes(
    runs: Iterable[tuple[int, int]], itemsize: int, total_bytes: int, sieve: int
) -> int:
    """Return the bytes that HDF5 asks the kernel for when it reads `runs` of a contiguous dataset by its
    sieve buffer.

    A run inside the buffer costs nothing, one longer than the buffer is read directly, any other fills the
    buffer from its start (never past the end of the dataset): H5D__contig_readvv_sieve_cb.
    """
    requested, held_from, held_to = 0, 0, 0
    for start, length in runs:
        first, last = start * itemsize, (start + length) * itemsize
        if held_from <= first and last <= held_to:
            continue
        if last - first > sieve:
            requested += last - first
            continue
        held_from, held_to = first, min(first + sieve, total_bytes)
        requested += held_to - held_from
    return requested


def sieve_requests(
    origin: Shape, extent: Shape, shape: Shape, itemsize: int, sieve: int
) -> Iterator[tuple[int, int]]:
    """Yield (start, length) in bytes of what `sieve_requested_bytes` sums up, for the runs of a box.

    Runs that lie in the buffer are passed over and not looked at, since there may be millions.
    """
    length = math.prod(extent[run_axis(extent, shape) :]) * itemsize
    if length > sieve:
        for start, _ in contiguous_runs(origin, extent, shape):
            yield start * itemsize, length
        return
    total_bytes, run = math.prod(shape) * itemsize, first_run(0, origin, extent, shape)
    while run is not None:
        held_from = run * itemsize
        held_to = min(held_from + sieve, total_bytes)
        yield held_from, held_to - held_from
        # The first run that ends behind the buffer.
        run = first_run((held_to - length) // itemsize + 1, origin, extent, shape)
