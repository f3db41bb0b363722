"""Probes of a site and of the data: how fast its storage reads, how well and how fast filters treat chunks.

Means without the slowest tenth, not medians: where others read at the same time, the mean of small reads was
two to nine times the median.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from h5py import h5d, h5f, h5p, h5s

from hyperslab.advising.candidates import Filters
from hyperslab.formats.hdf5 import filter_setters
from hyperslab.measuring import pagecache, probes
from hyperslab.sites import mounts

PROBE_BYTES = 64 * 2**20
SIZES = (2**12, 2**16, 2**18, 2**20)
READS = 40
# Where the kernel does not say how far it reads ahead, Linux's default.
READ_AHEAD_BYTES = 2**17
SAMPLES = 6
TRIMMED = 0.1
LOOKUPS = 2000


@dataclass(frozen=True)
class Storage:
    """What a site's storage and library take: the parameters of the prediction, as probed.

    latency_s: until a read that somebody waits for begins to arrive. waited_s and ahead_s: a byte of it, and
    one read ahead. cached_s: a byte copied from the page cache. lookup_s: one chunk looked up and copied.
    open_s: to open file and dataset.
    """

    latency_s: float
    waited_s: float
    ahead_s: float
    cached_s: float
    lookup_s: float
    open_s: float
    read_ahead_bytes: int
    steal_s: float
    pressure_io_s: float


@dataclass(frozen=True)
class Coded:
    """What filters make of sampled chunks: stored bytes over raw ones, and seconds to decode a raw byte."""

    ratio: float
    decode_s: float


def trimmed(times: Sequence[float]) -> float:
    """Return the mean without the slowest tenth."""
    kept = sorted(times)[: max(1, int(len(times) * (1 - TRIMMED)))]
    return sum(kept) / len(kept)


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - started) / 1e9


def storage(root: Path) -> Storage:
    """Probe the storage below `root` with a file of 64 MiB that is removed afterwards; takes some seconds."""
    before = probes.probe(str(root))
    path = root / f".hyperslab-advice-{os.getpid()}"
    try:
        path.write_bytes(random.Random(0).randbytes(2**20) * (PROBE_BYTES // 2**20))
        descriptor = os.open(path, os.O_RDONLY)
        try:
            latency, waited = _random(descriptor)
            pagecache.evict_file(descriptor, 0.01)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_NORMAL)
            ahead = _timed(lambda: pagecache.read_whole(descriptor, 2**18)) / PROBE_BYTES
            cached = _timed(lambda: pagecache.read_whole(descriptor, 2**18)) / PROBE_BYTES
        finally:
            os.close(descriptor)
        path.unlink()
        lookup, opening = _library(path)
    finally:
        path.unlink(missing_ok=True)
    spent = probes.change(before, probes.probe(str(root)))
    return Storage(
        latency, max(waited, cached), max(ahead, cached), cached, lookup, opening,
        mounts.read_ahead_bytes(root) or READ_AHEAD_BYTES, spent["steal_s"], spent.get("pressure_io_s", 0.0),
    )  # fmt: skip


def _random(descriptor: int) -> tuple[float, float]:
    """Return latency and seconds a byte of cold random reads of several sizes, by least squares."""
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
    rng, means = random.Random(1), []
    for size in SIZES:
        pagecache.evict_file(descriptor, 0.01)
        places = rng.sample(range(PROBE_BYTES // size), min(READS, PROBE_BYTES // size))
        buffer = bytearray(size)
        times = []
        for place in places:
            started = time.perf_counter_ns()
            os.preadv(descriptor, [buffer], place * size)
            times.append((time.perf_counter_ns() - started) / 1e9)
        means.append(trimmed(times))
    slope = max(0.0, (means[-1] - means[0]) / (SIZES[-1] - SIZES[0]))
    return max(means[0] - slope * SIZES[0], 1e-7), slope


def _library(path: Path) -> tuple[float, float]:
    """Return the seconds to look up and copy one small cached chunk, and to open a file and its dataset."""
    side = 64
    with h5py.File(path, "w") as file:
        file.create_dataset("probe", data=np.zeros((side, side * 16), "u1"), chunks=(1, 16))
    openings, readings = [], []
    for _ in range(3):
        started = time.perf_counter_ns()
        with h5py.File(path, "r") as file:
            dataset = file["probe"]
            openings.append((time.perf_counter_ns() - started) / 1e9)
            readings.append(_timed(lambda dataset=dataset: dataset[...]) / side**2)  # type: ignore[misc]
    return min(readings), trimmed(openings)


def coded(blocks: Sequence[npt.NDArray[Any]], filters: Filters) -> Coded:
    """Return what `filters` make of `blocks`, each stored as one chunk in an HDF5 file in memory.

    Raises Unavailable (formats.hdf5) for a filter that this machine has not.
    """
    chosen = [one.resolved() for one in filters]
    filter_setters.prepare(chosen)
    stored, seconds = 0, 0.0
    for block in blocks:
        if not filters:
            stored += block.nbytes
            continue
        access = h5p.create(h5p.FILE_ACCESS)
        access.set_fapl_core(block.nbytes + 2**16, False)
        file = h5f.create(b"advice", h5f.ACC_TRUNC, fapl=access)
        creation = h5p.create(h5p.DATASET_CREATE)
        creation.set_chunk(block.shape)
        filter_setters.apply(creation, chosen)
        space = h5s.create_simple(block.shape)
        dataset = h5d.create(file, b"a", h5py.h5t.py_create(block.dtype), space, creation)
        dataset.write(h5s.ALL, h5s.ALL, np.ascontiguousarray(block))
        stored += dataset.get_storage_size()
        del dataset
        h5f.flush(file)
        again, target = h5d.open(file, b"a"), np.empty_like(block, order="C")
        seconds += _timed(lambda again=again, target=target: again.read(h5s.ALL, h5s.ALL, target))  # type: ignore[misc]
        del again
        file.close()
    raw = sum(block.nbytes for block in blocks)
    return Coded(stored / raw, seconds / raw)


def samples(
    array: npt.NDArray[Any], chunk: Sequence[int], count: int = SAMPLES, seed: int = 0
) -> list[npt.NDArray[Any]]:
    """Return `count` whole chunks of an array, from all over it."""
    counts = [max(1, size // one) for size, one in zip(array.shape, chunk, strict=True)]
    rng = random.Random(f"{seed} {tuple(chunk)}")
    return [
        np.ascontiguousarray(
            array[tuple(slice(at * one, (at + 1) * one) for at, one in zip(place, chunk, strict=True))]
        )
        for place in ([rng.randrange(number) for number in counts] for _ in range(count))
    ]
