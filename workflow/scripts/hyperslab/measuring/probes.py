"""How quiet the machine is: a fixed computation and direct random reads before and after each cell."""

from __future__ import annotations

import mmap
import os
import random
import statistics
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

PROBE_FILE = ".hyperslab-probe"
PROBE_BYTES = 16 * 2**20
BLOCK = 4096
READS = 64


@cache
def packed() -> bytes:
    """Return what every probe inflates, the same in every run; to make it takes ten times as long."""
    return zlib.compress(random.Random(0).randbytes(2**16) * 16, 1)


def _compute() -> float:
    """Return the seconds for a fixed inflate."""
    # Whatever ran before, the processor's caches hold the same when the stopwatch starts.
    zlib.decompress(packed())
    started = time.perf_counter_ns()
    for _ in range(4):
        zlib.decompress(packed())
    return (time.perf_counter_ns() - started) / 1e9


def ensure_probe_file(root: str) -> Path:
    """Return the probe file of a root, written once."""
    path = Path(root) / PROBE_FILE
    if not path.exists() or path.stat().st_size != PROBE_BYTES:
        partial = path.with_name(f"{PROBE_FILE}.{os.getpid()}")
        try:
            with partial.open("wb") as file:
                file.write(os.urandom(PROBE_BYTES))
                file.flush()
                os.fsync(file.fileno())
            # Other users of a shared root read it, whatever the umask of whoever comes first.
            with suppress(OSError):
                partial.chmod(0o644)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    return path


def _opened(path: Path) -> tuple[int, bool]:
    """Return an open file, and whether reads go past the page cache;
    some file systems refuse only at the read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    except OSError:
        return os.open(path, os.O_RDONLY), False
    try:
        with mmap.mmap(-1, BLOCK) as buffer:
            os.preadv(descriptor, [buffer], 0)
    except OSError:
        os.close(descriptor)
        return os.open(path, os.O_RDONLY), False
    return descriptor, True


def _random_reads(root: str) -> tuple[float, bool]:
    """Return the median seconds of one random 4 KiB read of the probe file,
    and whether past the page cache.
    """
    path = ensure_probe_file(root)
    descriptor, direct = _opened(path)
    try:
        # Direct reads need an aligned buffer, and a mapping is aligned to a page.
        with mmap.mmap(-1, BLOCK) as buffer:
            times = []
            for _ in range(READS):
                offset = random.randrange(PROBE_BYTES // BLOCK) * BLOCK
                started = time.perf_counter_ns()
                os.preadv(descriptor, [buffer], offset)
                times.append(time.perf_counter_ns() - started)
    finally:
        os.close(descriptor)
    return statistics.median(times) / 1e9, direct


def _pressure() -> dict[str, float]:
    """Return the stalled seconds so far, for each resource that the kernel accounts (PSI)."""
    stalled = {}
    for resource in ("cpu", "io", "memory"):
        try:
            some = Path(f"/proc/pressure/{resource}").read_text().splitlines()[0]
            stalled[f"pressure_{resource}_s"] = int(some.rsplit("total=", 1)[1]) / 1e6
        except (OSError, IndexError, ValueError):
            continue
    return stalled


def _steal() -> float:
    """Return the seconds of processor time that the host has taken so far."""
    return _stolen().get("steal_s", 0.0)


def _stolen() -> dict[str, float]:
    """Return the same by name; nothing where the kernel does not say."""
    try:
        fields = Path("/proc/stat").read_text().splitlines()[0].split()
        return {"steal_s": int(fields[8]) / os.sysconf("SC_CLK_TCK")}
    except (OSError, IndexError, ValueError):
        return {}


def totals() -> dict[str, float]:
    """Return the running totals of steal and pressure in seconds, of those that the kernel accounts."""
    return {**_stolen(), **_pressure()}


def probe(root: str) -> dict[str, float | bool]:
    """Return one probe: compute_s, read_s (one 4 KiB read),
    and running totals of steal and pressure in seconds.
    """
    read_s, direct = _random_reads(root)
    return {"compute_s": _compute(), "read_s": read_s, "direct": direct, "steal_s": _steal(), **_pressure()}


def change(before: Mapping[str, float | bool], after: Mapping[str, float | bool]) -> dict[str, float]:
    """Return the seconds of steal and pressure between two probes."""
    totals = [key for key in after if key == "steal_s" or key.startswith("pressure_")]
    return {key: round(after[key] - before.get(key, after[key]), 6) for key in totals}
