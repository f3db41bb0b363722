"""Probes of a site: how fast its storage reads and writes, and what the libraries take for a chunk.

Means without the slowest tenth, not medians: where others read at the same time, the mean of small reads was
two to nine times the median.
"""

from __future__ import annotations

import os
import platform
import random
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import h5py
import numpy as np

from hyperslab.advising.prices import READ_AHEAD_BYTES, Storage
from hyperslab.measuring import pagecache, probe_directories, probes
from hyperslab.sites import mounts
from hyperslab.states import COLD_AT_MOST

PROBE_BYTES = 64 * 2**20
# A file that is read instead has some places for the largest reads.
LEAST_READ_BYTES = 4 * 2**20
SIZES = (2**12, 2**16, 2**18, 2**20)
READS = 40
# After so many seconds no more is read of a size, nor in one piece: a site may be slow.
READING_S = 2.0
# Of the library's probe: chunks, and runs in one chunk, are the square of `SIDE`, of `RUN` bytes each.
SIDE, RUN, TRIES = 64, 16, 10
# So many small files are written, fewer where that takes long.
FILES = 1024
RESOURCES = ("cpu", "memory", "io")
# Since this kernel readahead makes large folios as `readahead` has it, on these file systems.
LARGE_FOLIOS, WITH_LARGE_FOLIOS = (6, 17), ("ext4", "xfs")
TRIMMED = 0.1


@dataclass(frozen=True)
class Probe:
    """One look at a site: what it takes, and what disturbed the look.

    Of processor time that the host took meanwhile (`steal_s`) and of stalls for want of a resource
    (`pressure_s`, by cpu, memory and io) None is what the kernel does not say. `at_wall_s` is when it ended,
    seconds since 1970; `memory_bytes` is all memory of the node.
    """

    storage: Storage
    steal_s: float | None
    pressure_s: Mapping[str, float | None]
    at_wall_s: float
    memory_bytes: int

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Probe:
        """Return a probe as JSON has it."""
        return cls(**{**told, "storage": Storage(**told["storage"])})


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
) -> Probe:
    """Probe the storage below `root` with a file of 64 MiB that is removed afterwards; takes some seconds.

    `zarr`: many small files and zarr-python, too. `read_ahead_bytes` is what the site sets while a cell is
    timed. `hold_back` makes this process as slow as one that measures and returns its limits
    (measuring.limits); whoever writes test files is not. Raises OSError, also where nothing can be written.
    """
    files = _files(root) if zarr else {}
    # The file has no name, so that nothing is left where a probe is killed.
    with tempfile.TemporaryFile(dir=root, buffering=0) as file:
        written = timed(lambda: _write(file))
        throttle = hold_back() or {}
        before = probes.totals()
        found = _reads(file.fileno())
    with tempfile.TemporaryDirectory(dir=root, prefix=probe_directories.PREFIX) as directory:
        library = _library(Path(directory) / "probe.h5")
        if zarr:
            library |= _zarr(Path(directory) / "probe.zarr")
    took = Storage(
        **found, **library, **files, **_kernel(root, read_ahead_bytes),
        write_s=written / PROBE_BYTES, bytes_per_s=throttle.get("read_bytes_per_s"),
    )  # fmt: skip
    return _looked(took, before, probes.totals())


def storage_of_file(
    file: Path,
    scratch: Path,
    read_ahead_bytes: int | None = None,
    hold_back: Callable[[], Mapping[str, Any] | None] = lambda: None,
) -> Probe:
    """Probe the storage on which `file` lies by reading it, since nothing can be written there.

    The library is probed in the directory `scratch`. Raises ValueError where the file is too short.
    """
    size = file.stat().st_size
    if size < LEAST_READ_BYTES:
        needed = f"{LEAST_READ_BYTES // 2**20} MiB"
        raise ValueError(f"{file} is too short to probe its storage by it; a file of {needed} would do")
    throttle = hold_back() or {}
    before = probes.totals()
    with file.open("rb", buffering=0) as opened:
        found = _reads(opened.fileno(), min(size, PROBE_BYTES))
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        library = _library(Path(directory) / "probe.h5")
    took = Storage(
        **found, **library, **_kernel(file, read_ahead_bytes),
        bytes_per_s=throttle.get("read_bytes_per_s"),
    )  # fmt: skip
    return _looked(took, before, probes.totals())


def _looked(took: Storage, before: Mapping[str, Any], after: Mapping[str, Any]) -> Probe:
    """Return a probe with what disturbed it between two readings of the kernel's totals."""
    spent = probes.change(before, after)
    pressure = {name: spent.get(f"pressure_{name}_s") for name in RESOURCES}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Probe(took, spent.get("steal_s"), pressure, time.time(), memory)


def _kernel(place: Path, given: int | None) -> dict[str, Any]:
    """Return how the kernel reads ahead at a place, where `given` may set how far."""
    release = tuple(map(int, re.findall(r"\d+", platform.release())[:2]))
    found = mounts.read_ahead_bytes(place) if given is None else given
    return {
        "read_ahead_bytes": READ_AHEAD_BYTES if found is None else found,
        "large_folios": release >= LARGE_FOLIOS and mounts.mount_of(place).type in WITH_LARGE_FOLIOS,
    }


def _write(file: IO[bytes]) -> None:
    """Write the probe's file and wait until it is on the device."""
    block = random.Random(0).randbytes(2**20)
    for _ in range(PROBE_BYTES // len(block)):
        file.write(block)
    os.fsync(file.fileno())


def _files(root: Path) -> dict[str, Any]:
    """Return the seconds in which one of many small files is written, synced and removed, and in which it is
    dropped from the page cache, as before each cold read.
    """
    with tempfile.TemporaryDirectory(dir=root, prefix=probe_directories.PREFIX) as directory:
        # What others have written there before is handed to the device, too, and is no time of these.
        pagecache.sync_file_system(directory)
        files, started = list[Path](), time.perf_counter_ns()
        while not files or (len(files) < FILES and (time.perf_counter_ns() - started) / 1e9 < READING_S):
            files.append(Path(directory, str(len(files))))
            files[-1].write_bytes(bytes(RUN))
        pagecache.sync_file_system(directory)
        writing = (time.perf_counter_ns() - started) / 1e9
        # Tried once: what lies in memory stays there.
        evicting = timed(lambda: pagecache.evict(lambda: _opened(files), COLD_AT_MOST, attempts=1))
        removing = timed(lambda: list(map(Path.unlink, files)))
    return {"file_s": (writing + removing) / len(files), "evict_s": evicting / len(files)}


def _opened(files: Sequence[Path]) -> Iterator[int]:
    """Yield a descriptor of each file."""
    for file in files:
        with file.open("rb") as opened:
            yield opened.fileno()


def _reads(descriptor: int, size: int = PROBE_BYTES) -> dict[str, Any]:
    """Return what reads of the first `size` bytes of a file take, as Storage names it."""
    latency, waited = _random(descriptor, size)
    pagecache.evict_file(descriptor, COLD_AT_MOST)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_NORMAL)
    ahead, read = _read_first(descriptor, size)
    cached, _ = _read_first(descriptor, read)
    return {
        "latency_s": latency,
        "waited_s": max(waited, cached),
        "ahead_s": max(ahead, cached),
        "cached_s": cached,
    }


def _read_first(descriptor: int, size: int) -> tuple[float, int]:
    """Read the first `size` bytes of a file, or fewer where that takes long; return the seconds that a byte
    takes, and how many were read.
    """
    buffer, started = bytearray(2**18), time.perf_counter_ns()
    for place in range(0, size, len(buffer)):
        os.preadv(descriptor, [buffer], place)
        read, took = min(size, place + len(buffer)), (time.perf_counter_ns() - started) / 1e9
        if took > READING_S:
            break
    return took / read, read


def _zarr(path: Path) -> dict[str, float]:
    """Return the seconds in which zarr-python reads one small cached chunk, and opens an array."""
    import zarr

    side = 32
    zarr.create_array(path, data=np.ones((side, side * 16), "u1"), chunks=(1, 16), compressors=None)
    openings, readings = [], []
    for _ in range(TRIES):
        started = time.perf_counter_ns()
        array = zarr.open_array(path, mode="r")
        openings.append((time.perf_counter_ns() - started) / 1e9)
        readings.append(timed(lambda array=array: array[...]) / side**2)  # type: ignore[misc]
    return {"zarr_chunk_s": trimmed(readings), "zarr_open_s": trimmed(openings)}


def _random(descriptor: int, size_bytes: int) -> tuple[float, float]:
    """Return latency and seconds a byte of cold random reads of several sizes.

    A line through the trimmed means by least squares, each weighted by the inverse of its square, since
    what is off by a tenth at one size is at the others, too.
    """
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
    rng, means = random.Random(1), []
    for size in SIZES:
        pagecache.evict_file(descriptor, COLD_AT_MOST)
        places = rng.sample(range(size_bytes // size), min(READS, size_bytes // size))
        buffer = bytearray(size)
        times = []
        for place in places:
            started = time.perf_counter_ns()
            os.preadv(descriptor, [buffer], place * size)
            times.append((time.perf_counter_ns() - started) / 1e9)
            if sum(times) > READING_S:
                break
        means.append(trimmed(times))
    slope, latency = np.polyfit(SIZES, means, 1, w=1 / np.array(means))
    if latency <= 0 or slope < 0:
        # No line that storage can have: the shortest reads are all latency.
        latency, slope = means[0], max(0.0, (means[-1] - means[0]) / (SIZES[-1] - SIZES[0]))
    return float(latency), float(slope)


def _library(path: Path) -> dict[str, Any]:
    """Return the seconds to look up and copy one small cached chunk, to open a file and its dataset, of one
    read past the chunk cache, and of a run copied out of a chunk; and the bytes of the chunk cache.
    """
    with h5py.File(path, "w") as file:
        file.create_dataset("chunks", data=np.zeros((SIDE, SIDE * RUN), "u1"), chunks=(1, RUN))
        file.create_dataset("runs", data=np.zeros((SIDE**2, 2 * RUN), "u1"), chunks=(SIDE**2, 2 * RUN))
        cache = file.id.get_access_plist().get_cache()[2]
    times: dict[str, list[float]] = {"open_s": [], "lookup_s": [], "read_s": [], "run_s": []}
    for _ in range(TRIES):
        started = time.perf_counter_ns()
        with h5py.File(path, "r") as file:
            dataset = file["chunks"]
            times["open_s"].append((time.perf_counter_ns() - started) / 1e9)
            times["lookup_s"].append(timed(lambda dataset=dataset: dataset[...]) / SIDE**2)  # type: ignore[misc]
            runs = file["runs"]
            # The first time the chunk is read, too.
            runs[:, :RUN]
            times["run_s"].append(timed(lambda runs=runs: runs[:, :RUN]) / SIDE**2)  # type: ignore[misc]
        # A cache of one byte is passed by every chunk.
        with h5py.File(path, "r", rdcc_nbytes=1) as file:
            runs = file["runs"]
            times["read_s"].append(timed(lambda runs=runs: runs[:, :RUN]) / SIDE**2)  # type: ignore[misc]
    return {**{name: trimmed(each) for name, each in times.items()}, "chunk_cache_bytes": cache}
