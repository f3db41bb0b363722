"""What a selection takes, predicted: the one place that says how.

HDF5, cold. The exact list of what the library asks the kernel for (`requests.selection`) goes through the
kernel's readahead (`readahead.traffic`), which gives the counts of a box; `prices` makes seconds of them.
Zarr, cold: each chunk is a file of its own that somebody waits for, and zarr-python takes its time for each.
Warm: no device at all.

    t = opening + waits + waited + ahead + memory + chunks + reads + runs + decoding

with these terms, each a count of `Counts` times a price of `Storage` or `Coded` (prices):

opening   file and dataset are opened
waits     misses, for which somebody waits until the device begins to answer
waited    bytes that somebody waits for
ahead     bytes that the kernel reads ahead of requests
memory    bytes copied from the page cache, which is all that is asked for
chunks    chunks looked up in their index, read, and kept in the chunk cache
reads     calls of read for anything else: runs of contiguous arrays, and of chunks that pass the cache
runs      runs that are copied out of a chunk or the sieve buffer one by one
decoding  bytes that filters decode, and chunks that they do it for

Where a site is throttled, the three terms of the device are at least what its rate allows. Warm: they are
nothing, and neither is opening.

Every price comes from probes, so that they are the site's own. Before that, all candidates are sieved by the
same prices of expected numbers: of chunks, exactly, and of their runs on disk instead of a list. What it says
is never shown as measured: it chooses what is measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.advising.candidates import HDF5, Candidate, expected_touched, file_bytes
from hyperslab.advising.prices import Coded, Counts, Storage, seconds
from hyperslab.advising.readahead import PAGE, traffic
from hyperslab.advising.reads import Read, shares
from hyperslab.advising.requests import SIEVE_BYTES, passes_cache, runs, runs_in_chunks, selection
from hyperslab.data.selections import Box, generator, random_boxes
from hyperslab.layouts.chunks import chunks_touched
from hyperslab.results import rule

# Boxes a read, of which the mean counts.
BOXES = 3
# Beyond as many chunks or runs a box, a list of requests would take seconds; such layouts are told by
# expectation.
MOST_LISTED = 20_000
# Nor are the pages of more bytes than these followed, one by one.
MOST_FOLLOWED_BYTES = 2**36
# What HDF5 has asked for when file and dataset are open: superblock and headers, piece by piece.
OPENED = ((0, 8), (0, 1024))


@dataclass(frozen=True)
class Array:
    """The array that is stored: extents, and bytes of an element."""

    shape: tuple[int, ...]
    itemsize: int


@dataclass(frozen=True)
class Predicted:
    """What is predicted of a candidate: seconds of each read, by name, and the bytes of its file."""

    candidate: Candidate
    times: Mapping[str, float]
    file_bytes: float


def expected(
    shapes: npt.NDArray[np.int64], array: Array, extent: Sequence[int], storage: Storage, code: Coded,
    format: str = HDF5, filtered: bool = True,
) -> Counts:  # fmt: skip
    """Return the counts of a box of `extent` in each of `shapes` (shapes x axes) by expectation alone."""
    per_axis = expected_touched(shapes, array.shape, extent)
    touched = per_axis.prod(axis=1)
    raw = shapes.prod(axis=1) * array.itemsize
    volume = touched * raw * code.ratio
    decoded = (touched * raw, touched) if filtered else (0.0, 0.0)
    copied = math.prod(extent[:-1]) * per_axis[:, -1]
    if format != HDF5:
        return Counts(touched, volume, 0.0, volume, 0.0, touched, copied, *decoded)
    counts = -(-np.array(array.shape) // shapes)
    # Chunks follow each other on disk along the last axis, and along earlier ones if that is read whole.
    pieces = np.ones(len(shapes))
    whole = np.ones(len(shapes), bool)
    for axis in range(len(array.shape) - 1, -1, -1):
        pieces = np.where(whole, pieces, pieces * per_axis[:, axis])
        whole &= per_axis[:, axis] >= counts[:, axis] - 0.01
    # Many pieces close to each other are read as one, with what lies between them.
    span = counts.prod(axis=1) * raw * code.ratio
    scattered = Counts(pieces, volume, 0.0, 0.0)
    swept = Counts(1.0, 0.0, span, 0.0)
    apart = seconds(scattered, storage, code) <= seconds(swept, storage, code)
    return Counts(
        np.where(apart, pieces, 1.0), np.where(apart, volume, 0.0), np.where(apart, 0.0, span),
        volume, 0.0, touched, copied, *decoded,
    )  # fmt: skip


def predict(
    candidate: Candidate, array: Array, reads: Sequence[Read], storage: Storage, code: Coded
) -> Predicted:
    """Return what is predicted of a candidate by the requests of some boxes of each read."""
    raw = (math.prod(candidate.chunks) if candidate.chunks else 1) * array.itemsize
    size = file_bytes(candidate, array.shape, array.itemsize, raw * code.ratio)
    times = {}
    for read in reads:
        boxes = random_boxes(array.shape, read.extent, BOXES, generator("advice", read.name))
        counts = mean([of_box(candidate, array, box, storage, code) for box in boxes])
        # A few boxes touch more or fewer chunks than all boxes do on average, which is known exactly.
        if candidate.chunks is not None and counts.chunks:
            usual = expected_touched(np.array([candidate.chunks], np.int64), array.shape, read.extent).prod()
            counts = counts.times(float(usual) / counts.chunks)
        times[read.name] = float(seconds(counts, storage.through(candidate.format), code))
    return Predicted(candidate, times, size)


def of_box(candidate: Candidate, array: Array, box: Box, storage: Storage, code: Coded) -> Counts:
    """Return what reading one box of a candidate asks for, of the array as it is stored."""
    extent = candidate.on_disk(box.extent)
    on_disk = Array(candidate.on_disk(array.shape), array.itemsize)
    read = math.prod(extent) * array.itemsize
    if candidate.chunks is None:
        if (many := runs(extent, on_disk.shape)) > MOST_LISTED or read > MOST_FOLLOWED_BYTES:
            return _many_runs(many, on_disk, extent, storage)
        return _listed(candidate, array, box, storage, code)
    chunks = candidate.on_disk(candidate.chunks)
    origin = candidate.on_disk(box.origin)
    listed = chunks_touched(origin, extent, chunks)
    if candidate.format == HDF5 and passes_cache(candidate, array.itemsize, storage.chunk_cache_bytes):
        many = runs_in_chunks(origin, extent, chunks)
        if many > MOST_LISTED or read > MOST_FOLLOWED_BYTES:
            return _many_pieces(many, listed, chunks, extent, array.itemsize, storage)
        listed = many
    if candidate.format != HDF5 or listed > MOST_LISTED:
        shapes = np.array([chunks], np.int64)
        found = expected(shapes, on_disk, extent, storage, code, candidate.format, bool(candidate.filters))
        return Counts(*(float(np.sum(getattr(found, one.name))) for one in fields(found)))
    return _listed(candidate, array, box, storage, code)


def _listed(candidate: Candidate, array: Array, box: Box, storage: Storage, code: Coded) -> Counts:
    """Return the counts of a box by the requests that HDF5 makes, through the kernel's readahead."""
    raw = (math.prod(candidate.chunks) if candidate.chunks else 1) * array.itemsize
    stored = raw * code.ratio
    size = math.ceil(file_bytes(candidate, array.shape, array.itemsize, stored)) + raw
    found = selection(
        candidate, array.shape, array.itemsize, stored, box.origin, box.extent, storage.chunk_cache_bytes
    )
    moved = traffic(found.requests, size, storage.read_ahead_bytes, OPENED, storage.large_folios)
    decoded = (found.chunks * raw, found.chunks) if candidate.filters else (0, 0)
    requested = sum(length for _, length in found.requests)
    return Counts(
        moved.misses, moved.waited_bytes, moved.ahead_bytes, requested,
        found.reads, found.chunks, found.runs, *decoded,
    )  # fmt: skip


def mean(each: Sequence[Counts]) -> Counts:
    """Return the mean of counts."""
    return Counts(*(sum(getattr(one, field.name) for one in each) / len(each) for field in fields(Counts)))


def _many_runs(many: int, array: Array, extent: Sequence[int], storage: Storage) -> Counts:
    """Return the counts of very many runs of a contiguous array: one by one, or all that they lie among."""
    length = math.prod(extent) * array.itemsize / many
    requested = many * max(length, min(SIEVE_BYTES, math.prod(array.shape) * array.itemsize / many))
    first = next((at for at, one in enumerate(extent) if one > 1), len(extent) - 1)
    span = extent[first] * math.prod(array.shape[first + 1 :]) * array.itemsize
    free = Coded(1.0, 0.0)
    apart, swept = Counts(many, requested, 0.0, 0.0), Counts(1, 0.0, span, 0.0)
    best = min(apart, swept, key=lambda one: float(seconds(one, storage, free)))
    short = many if length <= SIEVE_BYTES else 0
    return Counts(
        best.misses,
        best.waited_bytes,
        best.ahead_bytes,
        requested,
        requested / max(length, SIEVE_BYTES),
        0,
        short,
    )


def _many_pieces(
    many: int, touched: int, chunks: Sequence[int], extent: Sequence[int], itemsize: int, storage: Storage
) -> Counts:
    """Return the counts of very many runs of chunks that pass the cache: one by one, or all of the chunks."""
    requested = math.prod(extent) * itemsize
    apart = Counts(many, max(requested, many * PAGE), 0.0, 0.0)
    swept = Counts(touched, 0, touched * math.prod(chunks) * itemsize, 0.0)
    best = min(apart, swept, key=lambda one: float(seconds(one, storage, Coded(1.0, 0.0))))
    return replace(best, requested_bytes=requested, reads=many, chunks=touched)


def objective(
    times: Mapping[str, Any], best: Mapping[str, float], reads: Sequence[Read], floor_s: float
) -> tuple[Any, Any]:
    """Return what a candidate is judged by, and the same without the floor, which decides between equals; of
    many candidates where `times` has arrays.

    Shares count where some read has a weight.
    """
    weights = shares(reads)
    weighted = any(read.weight is not None for read in reads)
    asked = list(weights.values()) if weighted else None
    each, least = [times[name] for name in weights], [best[name] for name in weights]
    return rule.objective(each, asked, least, floor_s), rule.objective(each, asked, least, 0.0)
