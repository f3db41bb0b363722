"""Steps that ranks take together: timed from a barrier, plain writes beside others, removing data."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.cases.mpi.communicator import Ranks
from hyperslab.measuring import pagecache, syncing
from hyperslab.measuring.artifact import Artifact


def timed(ranks: Ranks, operation: Callable[[], None]) -> float:
    """Return the seconds of the slowest rank, each from the release of all; collective."""
    ranks.comm.Barrier()
    started = perf_counter_ns()
    operation()
    stopped = perf_counter_ns()
    return ranks.greatest((stopped - started) / 1e9)


def removed(ranks: Ranks, written: Artifact) -> None:
    """Remove an artifact's data on rank 0, and let every node finish with it; collective."""
    ranks.comm.Barrier()
    if ranks.rank == 0:
        written.clear()
    settled(ranks, written.directory)


def settled(ranks: Ranks, directory: str | Path) -> None:
    """Wait for all ranks, and let every node finish with what they removed in a directory; collective."""
    ranks.comm.Barrier()
    if ranks.first:
        pagecache.sync_file_system(directory)
    ranks.comm.Barrier()


def plain_write(ranks: Ranks, path: str, buffers: Sequence[npt.NDArray[Any]]) -> float:
    """Return the seconds in which all ranks write bytes plainly, each its own in one piece, and fsync;
    collective.
    """
    sizes = ranks.comm.allgather(sum(buffer.nbytes for buffer in buffers))
    removed(ranks, Artifact(path))

    def write() -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        offset = sum(sizes[: ranks.rank])
        for buffer in buffers:
            view = buffer.data.cast("B")
            while view:
                count = os.pwrite(descriptor, view, offset)
                view, offset = view[count:], offset + count
        os.close(descriptor)

    def fsync() -> None:
        if ranks.first:
            syncing.fsync(Path(path))

    seconds = timed(ranks, write) + timed(ranks, fsync)
    removed(ranks, Artifact(path))
    return seconds


def equal(found: npt.NDArray[Any], truth: npt.NDArray[Any]) -> bool:
    """Return whether two arrays are equal, NaN to NaN, without a copy of either where nothing is NaN."""
    return np.array_equal(found, truth) or np.array_equal(found, truth, equal_nan=found.dtype.kind == "f")
