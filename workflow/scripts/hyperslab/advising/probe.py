"""Probes of a site: how fast its storage reads and writes, and what the libraries take for a chunk.

Means without the slowest tenth, not medians: where others read at the same time, the mean of small reads was
two to nine times the median.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from hyperslab.measuring import pagecache, probes
from hyperslab.sites import mounts

PROBE_BYTES = 64 * 2**20
# A file that is read instead has some places for the largest reads.
LEAST_READ_BYTES = 4 * 2**20
SIZES = (2**12, 2**16, 2**18, 2**20)
READS = 40
# Where the kernel does not say how far it reads ahead, Linux's default.
READ_AHEAD_BYTES = 2**17
TRIMMED = 0.1


@dataclass(frozen=True)
class Storage:
    """What a site's storage and library take: the parameters of the prediction, as probed.

    latency_s: until a read that somebody waits for begins to arrive. waited_s and ahead_s: a byte of it, and
    one read ahead. cached_s: a byte copied from the page cache. lookup_s: one chunk looked up and copied.
    open_s: to open file and dataset. zarr_chunk_s and zarr_open_s: the same through zarr-python, 0 where it
    was not asked for. write_s: a byte written and synced; 0 where nothing can be written. bytes_per_s: what
    the site is throttled to, None where it is not.
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
    zarr_chunk_s: float = 0.0
    zarr_open_s: float = 0.0
    write_s: float = 0.0
    bytes_per_s: float | None = None

    def device(self, misses: Any, waited_bytes: Any, ahead_bytes: Any) -> Any:
        """Return the seconds until a device has brought these; numbers, or arrays of them."""
        free = self.latency_s * misses + self.waited_s * waited_bytes + self.ahead_s * ahead_bytes
        if self.bytes_per_s is None:
            return free
        return np.maximum(free, (waited_bytes + ahead_bytes) / self.bytes_per_s)

    def warm(self) -> Storage:
        """Return the same site where everything lies in the page cache and the file is open."""
        return replace(
            self, latency_s=0.0, waited_s=0.0, ahead_s=0.0, open_s=0.0, zarr_open_s=0.0, bytes_per_s=None
        )


def trimmed(times: Sequence[float]) -> float:
    """Return the mean without the slowest tenth."""
    kept = sorted(times)[: max(1, int(len(times) * (1 - TRIMMED)))]
    return sum(kept) / len(kept)


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that `work` takes."""
    started = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - started) / 1e9


def storage(
    root: Path,
    zarr: bool = False,
    read_ahead_bytes: int | None = None,
    hold_back: Callable[[], Mapping[str, Any] | None] = lambda: None,
) -> Storage:
    """Probe the storage below `root` with a file of 64 MiB that is removed afterwards; takes some seconds.

    `zarr`: zarr-python, too. `read_ahead_bytes` is what the site sets while a cell is timed. `hold_back`
    makes this process as slow as one that measures and returns its limits (measuring.limits); whoever
    writes test files is not. Raises OSError, also where nothing can be written.
    """
    path = root / f".hyperslab-advice-{os.getpid()}"
    try:
        written = timed(lambda: _write(path))
        throttle = hold_back() or {}
        before = probes.probe(str(root))
        found = _reads(path)
        path.unlink()
        lookup, opening = _library(path)
        path.unlink()
        zarr_chunk, zarr_open = _zarr(path) if zarr else (0.0, 0.0)
    finally:
        path.unlink(missing_ok=True)
    spent = probes.change(before, probes.probe(str(root)))
    return Storage(
        **found, lookup_s=lookup, open_s=opening, zarr_chunk_s=zarr_chunk, zarr_open_s=zarr_open,
        read_ahead_bytes=_read_ahead(root, read_ahead_bytes), write_s=written / PROBE_BYTES,
        steal_s=spent["steal_s"], pressure_io_s=spent.get("pressure_io_s", 0.0),
        bytes_per_s=throttle.get("read_bytes_per_s"),
    )  # fmt: skip


def storage_of_file(file: Path, scratch: Path, read_ahead_bytes: int | None = None) -> Storage:
    """Probe the storage on which `file` lies by reading it, since nothing can be written there.

    The library is probed in the directory `scratch`. Raises ValueError where the file is too short.
    """
    size = file.stat().st_size
    if size < LEAST_READ_BYTES:
        needed = f"{LEAST_READ_BYTES // 2**20} MiB"
        raise ValueError(f"{file} is too short to probe its storage by it; a file of {needed} would do")
    found = _reads(file, min(size, PROBE_BYTES))
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        lookup, opening = _library(Path(directory) / "probe.h5")
    return Storage(
        **found, lookup_s=lookup, open_s=opening, read_ahead_bytes=_read_ahead(file, read_ahead_bytes),
        steal_s=0.0, pressure_io_s=0.0,
    )  # fmt: skip


def _read_ahead(place: Path, given: int | None) -> int:
    return mounts.read_ahead_bytes(place) or READ_AHEAD_BYTES if given is None else given


def _write(path: Path) -> None:
    """Write the probe's file and wait until it is on the device."""
    block = random.Random(0).randbytes(2**20)
    with path.open("wb") as file:
        for _ in range(PROBE_BYTES // len(block)):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())


def _reads(path: Path, size: int = PROBE_BYTES) -> dict[str, float]:
    """Return what reads of the first `size` bytes of a file take, as Storage names it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        latency, waited = _random(descriptor, size)
        pagecache.evict_file(descriptor, 0.01)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_NORMAL)
        ahead = timed(lambda: _read_first(descriptor, size)) / size
        cached = timed(lambda: _read_first(descriptor, size)) / size
    finally:
        os.close(descriptor)
    return {
        "latency_s": latency,
        "waited_s": max(waited, cached),
        "ahead_s": max(ahead, cached),
        "cached_s": cached,
    }


def _read_first(descriptor: int, size: int) -> None:
    buffer = bytearray(2**18)
    for place in range(0, size, len(buffer)):
        os.preadv(descriptor, [buffer], place)


def _zarr(path: Path) -> tuple[float, float]:
    """Return the seconds in which zarr-python reads one small cached chunk, and opens an array."""
    import zarr

    side = 32
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=path.name) as directory:
        place = str(Path(directory) / "probe.zarr")
        zarr.create_array(place, data=np.ones((side, side * 16), "u1"), chunks=(1, 16), compressors=None)
        openings, readings = [], []
        for _ in range(3):
            started = time.perf_counter_ns()
            array = zarr.open_array(place, mode="r")
            openings.append((time.perf_counter_ns() - started) / 1e9)
            readings.append(timed(lambda array=array: array[...]) / side**2)  # type: ignore[misc]
    return min(readings), trimmed(openings)


def _random(descriptor: int, size_bytes: int) -> tuple[float, float]:
    """Return latency and seconds a byte of cold random reads of several sizes, by least squares."""
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
    rng, means = random.Random(1), []
    for size in SIZES:
        pagecache.evict_file(descriptor, 0.01)
        places = rng.sample(range(size_bytes // size), min(READS, size_bytes // size))
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
            readings.append(timed(lambda dataset=dataset: dataset[...]) / side**2)  # type: ignore[misc]
    return min(readings), trimmed(openings)
