"""What arithmetic says of a selection on an HDF5 file: chunks touched, their bytes, bytes requested."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.data.selections import Box, Pattern
from hyperslab.formats.hdf5 import settings
from hyperslab.layouts import chunks as arithmetic
from hyperslab.layouts import hdf5_index
from hyperslab.specifications import Specification

# Beyond as many selected elements, what a pattern asks for is not worked out.
LARGEST_PATTERN = 2**22
OLD_INDEX = ("earliest", "v108")


def _positions(parts: Iterable[Sequence[npt.NDArray[np.int64]]], shape: Sequence[int]) -> npt.NDArray[Any]:
    """Return the row-major positions of the products of `parts`' indices per axis, ascending, each once."""
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    found = []
    for indices in parts:
        total = np.zeros((1,) * len(shape), np.int64)
        for axis, (along, stride) in enumerate(zip(indices, strides, strict=True)):
            total = total + (along * stride).reshape([-1 if a == axis else 1 for a in range(len(shape))])
        found.append(total.reshape(-1))
    return np.unique(np.concatenate(found))


def _runs(pattern: Pattern, shape: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield (start, length) in elements of the runs of a pattern in row-major storage, ascending."""
    positions = _positions((part.indices() for part in pattern.parts()), shape)
    bounds = [0, *(np.flatnonzero(np.diff(positions) != 1) + 1).tolist(), len(positions)]
    for first, last in zip(bounds, bounds[1:], strict=False):
        yield int(positions[first]), last - first


def _sieved(box: Box, shape: Sequence[int], itemsize: int, sieve: int) -> float:
    """Return the bytes that HDF5 asks for to read a box or pattern of contiguous data, NaN if unknown."""
    if not isinstance(box, Pattern):
        requests = hdf5_index.sieve_requests(box.origin, box.extent, shape, itemsize, sieve)
        return sum(length for _, length in requests)
    if math.prod(box.shape) > LARGEST_PATTERN:
        return math.nan
    total = math.prod(shape) * itemsize
    return hdf5_index.sieve_requested_bytes(_runs(box, shape), itemsize, total, sieve)


def _chunks(box: Box, shape: Sequence[int], chunk: Sequence[int]) -> list[int]:
    """Return the row-major numbers of the chunks that a box or pattern touches, ascending."""
    if not isinstance(box, Pattern):
        return list(arithmetic.linear_chunk_indices(box.origin, box.extent, shape, chunk))
    touched = (
        [np.unique(along // size) for along, size in zip(part.indices(), chunk, strict=True)]
        for part in box.parts()
    )
    numbers: list[int] = _positions(touched, arithmetic.chunks_per_axis(shape, chunk)).tolist()
    return numbers


def predict(
    box: Box, order: Sequence[int], spec: Specification, sizes: Sequence[int] | None
) -> dict[str, float]:
    """Return the chunks touched, their stored bytes, and the bytes that HDF5 will ask for, NaN if unknown.

    `requested` holds for one selection on a freshly opened file: chunks that fit the chunk cache (and all
    filtered ones) are read whole, and so is every index node on the way to them. A type conversion, or a
    setting that bears on requests, leaves it unknown. `sizes` are the stored bytes of filtered chunks,
    row-major.
    """
    disk, layout = box.permuted(order), spec["layout"]
    shape = [spec["dataset"]["shape"][axis] for axis in order]
    itemsize = np.dtype(spec["dataset"]["dtype"]).itemsize
    chosen = settings.resolved(layout["settings"])
    asked = math.prod(box.shape if isinstance(box, Pattern) else box.extent)
    known = settings.only_basic(chosen) and not spec.get("case", {}).get("memory_dtype")
    known &= layout.get("storage") is None
    requested = math.nan
    if not layout["chunks"]:
        if known:
            requested = _sieved(disk, shape, itemsize, chosen["sieve_bytes"])
        return {"chunks_touched": 0, "chunk_bytes": asked * itemsize, "requested": requested}
    chunk = [layout["chunks"][axis] for axis in order]
    linear = _chunks(disk, shape, chunk)
    one = math.prod(chunk) * itemsize
    volume = sum(sizes[position] for position in linear) if sizes else len(linear) * one
    bypassed = one > chosen["chunk_cache_bytes"] and not layout["filters"]
    if known and not bypassed and chosen["libver"] in OLD_INDEX:
        nodes = hdf5_index.btree_nodes_visited(linear, arithmetic.chunk_count(shape, chunk))
        requested = volume + nodes * hdf5_index.btree_node_bytes(len(shape))
    return {"chunks_touched": len(linear), "chunk_bytes": volume, "requested": requested}
