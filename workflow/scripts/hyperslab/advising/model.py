"""What a cold selection takes, predicted: the one place that says how.

The exact list of what HDF5 asks the kernel for (`candidates.requests`) goes through the kernel's readahead
(`readahead.traffic`). Then

    t = open + latency x misses + waited x bytes waited for + ahead x bytes read ahead
        + cached x bytes requested + lookup x chunks + decode x raw bytes of the chunks

where every factor comes from probes (`probe.Storage`, `probe.Coded`), so that they are the site's own. Before
that, all candidates are sieved by the same sum with expected numbers of chunks and of their runs on disk
instead of a list. What it says is never shown as measured: it chooses what is measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hyperslab.advising.candidates import Candidate, expected_touched, file_bytes, requests
from hyperslab.advising.probe import Coded, Storage
from hyperslab.advising.readahead import traffic
from hyperslab.advising.reads import Read, shares
from hyperslab.data.selections import generator, random_boxes
from hyperslab.layouts.chunks import chunks_touched

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
    shapes: npt.NDArray[np.int64], array: Array, read: Read, storage: Storage, code: Coded
) -> npt.NDArray[np.float64]:
    """Return the seconds of a read in each of `shapes` (shapes x axes) by expected counts alone."""
    per_axis = expected_touched(shapes, array.shape, read.extent)
    touched = per_axis.prod(axis=1)
    raw = shapes.prod(axis=1) * array.itemsize
    counts = -(-np.array(array.shape) // shapes)
    # Chunks follow each other on disk along the last axis, and along earlier ones if that is read whole.
    runs = np.ones(len(shapes))
    whole = np.ones(len(shapes), bool)
    for axis in range(len(array.shape) - 1, -1, -1):
        runs = np.where(whole, runs, runs * per_axis[:, axis])
        whole &= per_axis[:, axis] >= counts[:, axis] - 0.01
    volume = touched * raw * code.ratio
    # Many runs close to each other are read as one, with what lies between them.
    span = counts.prod(axis=1) * raw * code.ratio
    scattered = storage.latency_s * runs + storage.waited_s * volume
    swept = storage.latency_s + storage.ahead_s * span
    cpu = storage.lookup_s * touched + storage.cached_s * volume + code.decode_s * touched * raw
    seconds: npt.NDArray[np.float64] = storage.open_s + np.minimum(scattered, swept) + cpu
    return seconds


def predict(
    candidate: Candidate, array: Array, reads: Sequence[Read], storage: Storage, code: Coded
) -> Predicted:
    """Return what is predicted of a candidate by the requests of some boxes of each read."""
    raw = (math.prod(candidate.chunks) if candidate.chunks else 1) * array.itemsize
    size = file_bytes(candidate, array.shape, array.itemsize, raw * code.ratio)
    times = {}
    for read in reads:
        boxes = random_boxes(array.shape, read.extent, BOXES, generator("advice", read.name))
        seconds, counts = [], []
        for box in boxes:
            touched = chunks_touched(box.origin, box.extent, candidate.chunks) if candidate.chunks else 0
            counts.append(touched)
            if touched > MOST_LISTED and candidate.chunks:
                shapes = np.array([candidate.chunks], np.int64)
                seconds.append(float(expected(shapes, array, read, storage, code)[0]))
                continue
            asked = list(
                requests(candidate, array.shape, array.itemsize, raw * code.ratio, box.origin, box.extent)
            )
            found = traffic(asked, math.ceil(size) + raw, storage.read_ahead_bytes)
            seconds.append(
                storage.open_s + storage.latency_s * found.misses + storage.waited_s * found.waited_bytes
                + storage.ahead_s * found.ahead_bytes + storage.cached_s * sum(length for _, length in asked)
                + storage.lookup_s * (touched or len(asked)) + code.decode_s * touched * raw
            )  # fmt: skip
        # A few boxes touch more or fewer chunks than all boxes do on average, which is known exactly.
        usual = 1.0
        if candidate.chunks:
            shapes = np.array([candidate.chunks], np.int64)
            mean = float(expected_touched(shapes, array.shape, read.extent).prod())
            usual = mean * len(counts) / sum(counts)
        times[read.name] = storage.open_s + usual * (sum(seconds) / len(seconds) - storage.open_s)
    return Predicted(candidate, times, size)


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
