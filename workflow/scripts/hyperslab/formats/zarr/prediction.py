"""What arithmetic says of a selection on a Zarr array: chunks touched, their bytes, what is requested."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.data.selections import Box, steps_of
from hyperslab.formats.zarr.description import OnDisk
from hyperslab.layouts.chunks import chunks_per_axis
from hyperslab.layouts.zarr_store import shard_index_bytes
from hyperslab.specifications import Specification

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Stored:
    """What a store holds: of each chunk (row-major) its bytes and its first byte within its file, and of each
    file its bytes; 0 for what is not there. `buffer` is the size of Python's buffer for a file of the store.
    """

    sizes: Integers
    starts: Integers
    files: Integers
    buffer: int


@dataclass(frozen=True)
class Touched:
    """The chunks that a box touches, in row-major order: their numbers, those of their files, and how many
    elements and how many runs of elements (consecutive in the chunk) the box takes of each.
    """

    chunks: Integers
    files: Integers
    elements: Integers
    runs: Integers


def touched(box: Box, disk: OnDisk) -> Touched:
    """Return the chunks that a box or a level, in disk order, touches; runs are those of a box."""
    axes: list[Integers] = []
    overlaps: list[Integers] = []
    for first, width, by, size in zip(box.origin, box.extent, steps_of(box), disk.chunk, strict=True):
        along, taken = np.unique(np.arange(first, first + width, by) // size, return_counts=True)
        axes.append(along)
        overlaps.append(taken)
    grid = np.meshgrid(*axes, indexing="ij")
    parts = [part.reshape(-1) for part in np.meshgrid(*overlaps, indexing="ij")]
    runs = np.ones_like(parts[0])
    whole: npt.NDArray[np.bool_] = np.ones(parts[0].shape, bool)
    for axis in reversed(range(len(parts))):
        # Where all later axes are whole, this one lies in one run, whatever is taken of it.
        runs = np.where(whole, 1, runs * parts[axis])
        whole = whole & (parts[axis] == disk.chunk[axis])
    counts = chunks_per_axis(disk.shape, disk.chunk)
    places = [np.asarray(part.reshape(-1), np.int64) for part in grid]
    files = [place // many for place, many in zip(places, disk.per_unit, strict=True)]
    return Touched(
        np.ravel_multi_index(places, counts), np.ravel_multi_index(files, disk.units),
        math.prod(parts[1:], start=parts[0]), runs,
    )  # fmt: skip


def predict(box: Box, spec: Specification, stored: Stored) -> dict[str, float]:
    """Return chunks touched, their stored bytes, and what the kernel is asked for: bytes and read calls.

    The last two hold for one selection on a newly opened array: what zarr-python and zarrs read of zarr.json
    belongs to opening, and neither keeps chunks or indexes of shards from one selection to the next.
    """
    disk, layout = OnDisk.of(spec), spec["layout"]
    zarrs = layout["settings"]["pipeline"] == "zarrs"
    # zarrs is asked for all of the box, whatever is kept of it.
    asked = Box(box.origin, box.extent) if zarrs else box
    found = touched(asked.permuted(disk.order), disk)
    counted = _zarrs if zarrs else _default
    requested, reads = counted(found, disk, layout, stored)
    return {
        "chunks_touched": len(found.chunks),
        "chunk_bytes": int(stored.sizes[found.chunks].sum()),
        "requested": requested,
        "requested_reads": reads,
    }


def _default(found: Touched, disk: OnDisk, _: Mapping[str, Any], stored: Stored) -> tuple[int, int]:
    """Return the bytes and reads of zarr-python: whole files where there are no shards.

    Of a shard it reads the whole file where the box touches each of its chunks; else the index, then each
    chunk through a file object with a buffer, which fills that buffer at the end of a chunk.
    """
    if not disk.sharded:
        held = stored.sizes[found.chunks]
        # Python asks once more, to learn that the file has ended.
        return int(held.sum()), 2 * int(np.count_nonzero(held))
    numbers, counts = np.unique(found.files, return_counts=True)
    there = stored.files[numbers] > 0
    whole = there & (counts == math.prod(disk.per_unit))
    parts = there & ~whole
    index = shard_index_bytes(disk.unit, disk.chunk)
    requested = int(stored.files[numbers[whole]].sum()) + index * int(parts.sum())
    reads = 2 * int(there.sum())
    some = np.isin(found.files, numbers[parts]) & (stored.sizes[found.chunks] > 0)
    sizes, starts = stored.sizes[found.chunks[some]], stored.starts[found.chunks[some]]
    ends = stored.files[found.files[some]]
    direct = sizes // stored.buffer * stored.buffer
    rest = sizes > direct
    filled = np.minimum(stored.buffer, ends - starts - direct)[rest]
    requested += int(direct.sum()) + int(filled.sum())
    return requested, reads + int(np.count_nonzero(direct)) + int(rest.sum())


def _zarrs(found: Touched, disk: OnDisk, layout: Mapping[str, Any], stored: Stored) -> tuple[int, int]:
    """Return the bytes and reads of zarrs: a file of which the box takes all is read whole, in one call.

    Of any other shard it reads the index, and of a chunk without codecs the runs of elements that the box
    takes, each in a call; any codec, a checksum too, needs the whole chunk.
    """
    taken_of = np.bincount(found.files, found.elements, len(stored.files))
    all_of = taken_of == math.prod(disk.unit)
    numbers = np.unique(found.files)
    numbers = numbers[stored.files[numbers] > 0]
    whole = all_of[numbers]
    requested, reads = int(stored.files[numbers[whole]].sum()), int(whole.sum())
    if disk.sharded:
        parts = int((~whole).sum())
        requested, reads = requested + parts * shard_index_bytes(disk.unit, disk.chunk), reads + parts
    some = ~all_of[found.files] & (stored.sizes[found.chunks] > 0)
    if layout["codecs"]:
        return requested + int(stored.sizes[found.chunks[some]].sum()), reads + int(some.sum())
    taken = int(found.elements[some].sum()) * disk.dtype.itemsize
    return requested + taken, reads + int(found.runs[some].sum())
