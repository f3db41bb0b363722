"""A plain read of the same files beside a reduction of all that they hold. Stopwatch: `read`."""

from __future__ import annotations

import mmap
import os
from time import perf_counter_ns

from hyperslab.measuring.artifact import Artifact

# As `dd bs=1M` does it.
STEP_BYTES = 2**20


def read(artifact: Artifact) -> float:
    """Return the seconds of opening, reading and closing each file, one after the other, by one process."""
    files = artifact.files()
    with mmap.mmap(-1, STEP_BYTES) as buffer:
        # Its pages are there before the stopwatch starts.
        buffer[:] = bytes(STEP_BYTES)
        started = perf_counter_ns()
        for file in files:
            descriptor = os.open(file, os.O_RDONLY)
            while os.readv(descriptor, [buffer]):
                pass
            os.close(descriptor)
        return (perf_counter_ns() - started) / 1e9
