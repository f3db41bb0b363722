"""What all ranks of a cell have in common: their communicator, one rank a node, and how they give up."""

from __future__ import annotations

import fcntl
import os
import resource
import struct
import sys
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from mpi4py import MPI

from hyperslab.formats import Format
from hyperslab.measuring import machine
from hyperslab.measuring.artifact import Artifact
from hyperslab.measuring.pagecache import NotInState
from hyperslab.measuring.residency import NodeCache

# How long a rank that gives up waits for its launcher at most.
TAKEN_SECONDS = 10


class Ranks:
    """The ranks of one cell; `first` is one rank on each node, which looks after that node's page cache."""

    def __init__(self, wanted: int) -> None:
        self.comm = MPI.COMM_WORLD
        self.rank, self.size = self.comm.Get_rank(), self.comm.Get_size()
        if self.size != wanted:
            raise ChildProcessError(
                f"started as {self.size} rank(s) instead of {wanted}: the launcher must be that of the MPI "
                f"which mpi4py was built with ({MPI.Get_library_version().splitlines()[0].strip()})"
            )
        self.first = self.comm.Split_type(MPI.COMM_TYPE_SHARED).Get_rank() == 0

    def greatest(self, value: float) -> float:
        """Return the largest of every rank's value, on all ranks."""
        return float(self.comm.allreduce(value, op=MPI.MAX))

    def least(self, value: float) -> float:
        """Return the smallest of every rank's value, on all ranks."""
        return float(self.comm.allreduce(value, op=MPI.MIN))

    def total(self, value: float) -> float:
        """Return the sum of every rank's value, on all ranks."""
        return float(self.comm.allreduce(value, op=MPI.SUM))

    def nodes(self) -> list[str]:
        """Return the names of the nodes on which they run."""
        return sorted(set(self.comm.allgather(machine.node_name())))

    def memory_bytes(self) -> int:
        """Return the largest memory of each rank, and of the largest process that it has ended, summed."""
        ended = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        return int(self.total(machine.largest_memory_bytes() + ended))


class Caches:
    """The page caches of all nodes, for one file or one a rank; every method is collective.

    `mine`: this rank looks after a file, its node's copy of the shared one or its own.
    """

    def __init__(self, ranks: Ranks, path: str, memory_resident: bool, mine: bool) -> None:
        self._ranks = ranks
        self._cache = NodeCache(Artifact(path), memory_resident) if mine else None

    def _share(self, ask: Callable[[NodeCache], float], otherwise: float) -> float:
        """Return what is asked of this rank's cache; raises NotInState on all ranks where one does."""
        share, reason = otherwise, None
        if self._cache:
            try:
                share = ask(self._cache)
            except NotInState as error:
                reason = str(error)
        if reasons := [one for one in self._ranks.comm.allgather(reason) if one is not None]:
            raise NotInState(reasons[0])
        return share

    def evict(self) -> float:
        """Empty them; the largest share of the file that stayed."""
        return self._ranks.greatest(self._share(NodeCache.evict, 0.0))

    def fill(self) -> float:
        """Bring the file in; the smallest share that is there."""
        return self._ranks.least(self._share(NodeCache.fill, 1.0))

    def resident(self) -> float:
        """Return the largest share of the file that one holds."""
        return self._ranks.greatest(self._share(NodeCache.resident, 0.0))

    def close(self) -> None:
        """Let the file go."""
        if self._cache:
            self._cache.close()


def info_of(hints: dict[str, str]) -> MPI.Info:
    """Return the hints to MPI-IO as MPI takes them."""
    info = MPI.Info.Create()
    for name, value in hints.items():
        info.Set(name, value)
    return info


def _versions(format_: Format) -> dict[str, str]:
    """Return the versions of what ranks run on, which may be others than the measuring process has."""
    return {
        **{f"ranks_{name}": version for name, version in format_.versions().items()},
        "ranks_numpy": machine.describe_versions()["numpy"],
        "ranks_mpi": " ".join(MPI.Get_library_version().splitlines()[0].split()),
        "ranks_mpi4py": str(sys.modules["mpi4py"].__version__),
    }


def give_up(error: BaseException) -> NoReturn:
    """Say why in one line and end all ranks, wherever they wait."""
    comm = MPI.COMM_WORLD
    words = " ".join(f"{type(error).__name__}: {error}".split())
    # One write, or lines of ranks that fail together would mingle.
    os.write(2, f"rank {comm.Get_rank()} of {comm.Get_size()}: {words}\n".encode())
    _wait_until_taken(2)
    comm.Abort(1)
    raise SystemExit(1)


def _wait_until_taken(descriptor: int) -> None:
    """Wait until the launcher has read what was written to a pipe: mpirun drops the rest when ranks abort."""
    last = time.monotonic() + TAKEN_SECONDS
    # What is no pipe may not know how much waits in it.
    with suppress(OSError):
        while time.monotonic() < last:
            (waiting,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))
            if not waiting:
                return
            time.sleep(0.01)


def report(ranks: Ranks, format_: Format, result: dict[str, Any]) -> dict[str, Any]:
    """Return a result with what every program of ranks tells of itself; collective."""
    return {
        **result,
        "memory_bytes": ranks.memory_bytes(),
        "nodes": ranks.nodes(),
        "versions": _versions(format_),
    }
