"""Arithmetic of a Zarr store: a directory with a file a chunk, or a file a shard of several chunks.

`layout` is a resolved one (zarr.py); extents are in array terms.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from hyperslab.layouts.chunks import chunk_count, chunks_per_axis
from hyperslab.layouts.zarr_codecs import largest_chunk_bytes

Layout = Mapping[str, Any]
Shape = Sequence[int]
# An entry of a shard's index, and the checksum at the index's end (Zarr specification, "sharding_indexed").
INDEX_ENTRY_BYTES, INDEX_CHECKSUM_BYTES = 16, 4
# What describes an array, with room for the longest lists of axes and codecs.
METADATA = "zarr.json"
METADATA_BYTES = 2**14
# What a folder takes, and a file may waste at its end.
BLOCK_BYTES = 4096


def chunk_extents(layout: Layout) -> list[int]:
    """Return the extents of a chunk, which every Zarr array has."""
    found: list[int] = layout["chunks"]
    return found


def file_extents(layout: Layout) -> list[int]:
    """Return the extents of what one file holds: a shard, or a chunk where there are no shards."""
    found: list[int] = layout.get("shards") or layout["chunks"]
    return found


def shard_index_bytes(shard: Shape, chunk: Shape) -> int:
    """Return the bytes of one shard's index; it has an entry for every chunk, beyond the array's edge too."""
    return INDEX_ENTRY_BYTES * chunk_count(shard, chunk) + INDEX_CHECKSUM_BYTES


def index_bytes(layout: Layout, shape: Shape) -> int:
    """Return the bytes of all shards' indexes, where every shard is stored; 0 without shards."""
    if "shards" not in layout:
        return 0
    return chunk_count(shape, layout["shards"]) * shard_index_bytes(layout["shards"], layout["chunks"])


def file_count(layout: Layout, axes: Sequence[str], shape: Shape) -> int:
    """Return how many files and folders an array takes: zarr.json, a file a chunk or shard, and folders.

    The file of place (0, 1, 2) is c/0/1/2: beside the store and c there is a folder for each place along the
    first axis on disk, for each pair of places along the first two, and so on.
    """
    counts = chunks_per_axis(shape, file_extents(layout))
    on_disk = [counts[axes.index(axis)] for axis in layout["order"]]
    folders = 2 + sum(math.prod(on_disk[:depth]) for depth in range(1, len(on_disk)))
    return 1 + folders + math.prod(on_disk)


def file_names(layout: Layout, axes: Sequence[str], origin: Shape, extent: Shape) -> list[str]:
    """Return the names of zarr.json and of the files that hold a box, within the store."""
    held = file_extents(layout)
    places = [
        range(first // one, (first + width - 1) // one + 1)
        for first, width, one in zip(origin, extent, held, strict=True)
    ]
    on_disk = itertools.product(*(places[axes.index(axis)] for axis in layout["order"]))
    return [METADATA, *("/".join(map(str, ("c", *place))) for place in on_disk)]


def largest_bytes(layout: Layout, axes: Sequence[str], shape: Shape, itemsize: int) -> int:
    """Return an upper bound of what an array takes on disk, blocks that end half empty included."""
    one = largest_chunk_bytes(layout["codecs"], math.prod(layout["chunks"]) * itemsize)
    blocks = file_count(layout, axes, shape) * BLOCK_BYTES
    return chunk_count(shape, layout["chunks"]) * one + index_bytes(layout, shape) + METADATA_BYTES + blocks


def rewritten_bytes(
    layout: Layout, shape: Shape, extent: Shape, itemsize: int, origin: Shape | None = None
) -> int:
    """Return what is read and written once more when boxes of `extent` fill an array one after the other.

    A file is written whole, so a box that covers a part of one reads it, changes it and writes it again. Zero
    where every box covers whole files; before codecs. With `origin` the array is a part of another, which
    begins there, and the boxes are those of the other.
    """
    held = file_extents(layout)
    pairs = 1
    for start, size, width, one in zip(origin or [0] * len(shape), shape, extent, held, strict=True):
        boxes = range(-(start % width), size, width)
        ends = ((max(first, 0), min(size, first + width) - 1) for first in boxes)
        pairs *= sum(last // one - first // one + 1 for first, last in ends)
    return 2 * (pairs - chunk_count(shape, held)) * math.prod(held) * itemsize
