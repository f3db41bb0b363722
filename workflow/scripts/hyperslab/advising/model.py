"""What a selection takes, predicted: the one place that says how.

HDF5, cold. The exact list of what the library asks the kernel for (`candidates.requests`) goes through the
kernel's readahead (`readahead.traffic`). Then

    t = open + device + cached x bytes requested + lookup x chunks + decode x raw bytes of the chunks
    device = latency x misses + waited x bytes waited for + ahead x bytes read ahead

and where the site is throttled, device is at least the bytes read over its rate. Zarr, cold: each chunk is a
file of its own that somebody waits for, and zarr-python takes its time for each. Warm: no device at all.

Every factor comes from probes (`probe.Storage`, `probe.Coded`), so that they are the site's own. Before that,
all candidates are sieved by the same sum with expected numbers of chunks and of their runs on disk instead of
a list. What it says is never shown as measured: it chooses what is measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hyperslab.advising.candidates import (
    HDF5,
    SIEVE_BYTES,
    ZARR,
    Candidate,
    expected_touched,
    file_bytes,
    requests,
)
from hyperslab.advising.coding import Coded
from hyperslab.advising.probe import Storage
from hyperslab.advising.readahead import traffic
from hyperslab.advising.reads import Read, shares
from hyperslab.data.selections import generator, random_boxes
from hyperslab.layouts.chunks import chunks_touched, run_axis

# Boxes a read, of which the mean counts.
BOXES = 3
# Beyond as many chunks a box, a list of requests would take seconds; such layouts are told by expectation.
MOST_LISTED = 20_000


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
    shapes: npt.NDArray[np.int64], array: Array, read: Read, storage: Storage, code: Coded, format: str = HDF5
) -> npt.NDArray[np.float64]:
    """Return the seconds of a read in each of `shapes` (shapes x axes) by expected counts alone."""
    per_axis = expected_touched(shapes, array.shape, read.extent)
    touched = per_axis.prod(axis=1)
    raw = shapes.prod(axis=1) * array.itemsize
    volume = touched * raw * code.ratio
    cpu = storage.cached_s * volume + code.decode_s * touched * raw
    found: npt.NDArray[np.float64]
    if format != HDF5:
        waiting = storage.device(touched, volume, 0.0)
        found = storage.zarr_open_s + waiting + storage.zarr_chunk_s * touched + cpu
        return found
    counts = -(-np.array(array.shape) // shapes)
    # Chunks follow each other on disk along the last axis, and along earlier ones if that is read whole.
    runs = np.ones(len(shapes))
    whole = np.ones(len(shapes), bool)
    for axis in range(len(array.shape) - 1, -1, -1):
        runs = np.where(whole, runs, runs * per_axis[:, axis])
        whole &= per_axis[:, axis] >= counts[:, axis] - 0.01
    # Many runs close to each other are read as one, with what lies between them.
    span = counts.prod(axis=1) * raw * code.ratio
    scattered, swept = storage.device(runs, volume, 0.0), storage.device(1.0, 0.0, span)
    found = storage.open_s + np.minimum(scattered, swept) + storage.lookup_s * touched + cpu
    return found


def predict(
    candidate: Candidate, array: Array, reads: Sequence[Read], storage: Storage, code: Coded
) -> Predicted:
    """Return what is predicted of a candidate by the requests of some boxes of each read."""
    raw = (math.prod(candidate.chunks) if candidate.chunks else 1) * array.itemsize
    size = file_bytes(candidate, array.shape, array.itemsize, raw * code.ratio)
    times = {read.name: SECONDS[candidate.format](candidate, array, read, storage, code) for read in reads}
    return Predicted(candidate, times, size)


def _zarr_seconds(candidate: Candidate, array: Array, read: Read, storage: Storage, code: Coded) -> float:
    """Return the seconds of a read of an array of Zarr, whose chunks are files and know no neighbours."""
    shapes = np.array([candidate.chunks or array.shape], np.int64)
    return float(expected(shapes, array, read, storage, code, ZARR)[0])


def _hdf5_seconds(candidate: Candidate, array: Array, read: Read, storage: Storage, code: Coded) -> float:
    """Return the mean seconds of some boxes of a read by the requests that HDF5 makes."""
    shape, extent = candidate.on_disk(array.shape), candidate.on_disk(read.extent)
    shapes = np.array([candidate.on_disk(candidate.chunks)], np.int64) if candidate.chunks else None
    raw = (math.prod(candidate.chunks) if candidate.chunks else 1) * array.itemsize
    stored = raw * code.ratio
    size = math.ceil(file_bytes(candidate, array.shape, array.itemsize, stored)) + raw
    seconds, counts = [], []
    for box in random_boxes(array.shape, read.extent, BOXES, generator("advice", read.name)):
        origin = candidate.on_disk(box.origin)
        if shapes is not None:
            touched = chunks_touched(origin, extent, shapes[0].tolist())
            if touched > MOST_LISTED:
                on_disk = Array(shape, array.itemsize)
                return float(expected(shapes, on_disk, Read(read.name, extent), storage, code)[0])
        elif (runs := _runs(shape, extent)) > MOST_LISTED:
            return _contiguous(runs, shape, extent, array.itemsize, storage)
        else:
            touched = 0
        counts.append(touched)
        asked = list(requests(candidate, array.shape, array.itemsize, stored, box.origin, box.extent))
        found = traffic(asked, size, storage.read_ahead_bytes)
        seconds.append(
            storage.device(found.misses, found.waited_bytes, found.ahead_bytes)
            + storage.cached_s * sum(length for _, length in asked)
            + storage.lookup_s * (touched or len(asked)) + code.decode_s * touched * raw
        )  # fmt: skip
    # A few boxes touch more or fewer chunks than all boxes do on average, which is known exactly.
    usual = 1.0
    if shapes is not None:
        usual = float(expected_touched(shapes, shape, extent).prod()) * len(counts) / sum(counts)
    return float(storage.open_s + usual * sum(seconds) / len(seconds))


def _runs(shape: Sequence[int], extent: Sequence[int]) -> int:
    """Return in how many runs a box lies in row-major storage."""
    return math.prod(extent[: run_axis(extent, shape)])


def _contiguous(
    runs: int, shape: Sequence[int], extent: Sequence[int], itemsize: int, storage: Storage
) -> float:
    """Return the seconds of very many runs of a contiguous array: one by one, or all that they lie among."""
    length = math.prod(extent) * itemsize / runs
    requested = runs * max(length, min(SIEVE_BYTES, math.prod(shape) * itemsize / runs))
    first = next((at for at, one in enumerate(extent) if one > 1), len(extent) - 1)
    span = extent[first] * math.prod(shape[first + 1 :]) * itemsize
    device = min(storage.device(runs, requested, 0.0), storage.device(1, 0.0, span))
    return float(storage.open_s + device + storage.cached_s * requested + storage.lookup_s * runs)


SECONDS = {HDF5: _hdf5_seconds, ZARR: _zarr_seconds}


def objective(
    times: Mapping[str, float], best: Mapping[str, float], reads: Sequence[Read], floor_s: float
) -> tuple[float, float]:
    """Return what a candidate is judged by, and the same without the floor, which decides between equals.

    With weights the expected seconds; without, the largest of times over `best`, as recommendations have it.
    """
    weights = shares(reads)
    if any(read.weight is not None for read in reads):
        return (
            sum(weight * max(floor_s, times[name]) for name, weight in weights.items()),
            sum(weight * times[name] for name, weight in weights.items()),
        )
    return (
        max(max(floor_s, times[name]) / max(floor_s, best[name]) for name in weights),
        max(times[name] / best[name] for name in weights),
    )
