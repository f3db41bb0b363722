"""Reductions by the workers of a Dask cluster: each piece is a task, dealt to whichever worker is free.

IPython Parallel, with which "HDF Performance on OpenStack" dealt days to its engines, is the ancestor.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.cases.dask_cluster import DaskCluster
from hyperslab.cases.opened import Reader
from hyperslab.cases.reduce import moments as reductions
from hyperslab.cases.reduce.division import Division
from hyperslab.cases.reduce.moments import Moments
from hyperslab.cases.reduce.source import Fetch, Source
from hyperslab.data.selections import Box
from hyperslab.layouts import layout_of
from hyperslab.measuring import node_memory
from hyperslab.measuring.artifact import Artifact
from hyperslab.measuring.machine import largest_memory_bytes
from hyperslab.measuring.residency import NodeCache
from hyperslab.measuring.workers import Counts

# What Dask writes, beside the data, where every node sees it.
DIRECTORY = "-dask"
# First plane of a piece, and what was found of its planes.
Found = tuple[int, npt.NDArray[np.float64]]


class _Worker(Reader):
    """What a worker keeps between tasks: the open array, and its counters."""

    def __init__(self, source: Source, index: int) -> None:
        source.introduction()
        self.source, self.index = source, index
        spec, path = source.specification, source.place(index)
        self.division = Division.of(spec)
        super().__init__(spec, path)


# In a worker's process alone.
_worker: _Worker | None = None


def _begin(source: Source, workers: list[str], dask_worker: Any) -> None:
    """Make a worker what it is; Dask gives functions that have a `dask_worker` the worker itself."""
    global _worker
    node_memory.join(source.cell["case"].get("node_memory_bytes"))
    _worker = _Worker(source, workers.index(dask_worker.address))


def _own() -> _Worker:
    assert _worker is not None
    return _worker


def _command(name: str) -> float:
    return _own().command(name)


def _reset() -> None:
    _own().begin()


def _counted() -> Counts:
    # What tells it to begin does not come through a gate.
    return _own().counted({})


def _fetch(task: Box) -> None:
    worker = _own()
    worker.source.fetch(worker.index, worker.division.part(task, worker.index))


def _cache(memory_resident: bool, name: str) -> float:
    """Empty, fill or ask the page cache of this worker's node."""
    cache = NodeCache(_own().source.artifact, memory_resident)
    try:
        share: float = getattr(cache, name)()
        return share
    finally:
        cache.close()


def _reduced(piece: Box) -> Found:
    """Return what is found of the planes of one piece."""
    worker = _own()
    axis = worker.division.planes
    first, count = piece.origin[axis], piece.extent[axis]
    found = worker.division.nothing.like(count)
    reductions.reduce_pieces(worker.opened, [piece], axis, first, found)
    return first, np.array(found.table)


class DaskTeam:
    """The workers of a Dask cluster as a team."""

    def __init__(self, source: Source, artifact: Artifact, memory_resident: bool) -> None:
        self._source, self._memory_resident = source, memory_resident
        self._division = Division.of(source.specification)
        self._go: Callable[[], list[Any]] = list
        self._first = 0
        self._found: list[Found] = []
        # What is not in files is reached from this node alone.
        here = not layout_of(source.cell["layout"]).abilities.pages
        self._cluster = DaskCluster(self._division.workers, artifact.part(DIRECTORY), here)
        try:
            self._cluster.everywhere(_begin, source, self._cluster.workers)
        except BaseException:
            self._cluster.kill()
            raise
        self.nodes = self._cluster.nodes
        self.versions = {name: version(name) for name in ("dask", "distributed")}

    def command(self, name: str) -> float:
        """Open or close the file everywhere; seconds of the slowest."""
        return float(max(self._cluster.everywhere(_command, name)))

    def prepare(self, task: Box | Fetch) -> None:
        """Cut the box into pieces of whole chunks, of which each will be a task.

        Where workers have copies of their own, each has its own part; else all are dealt to whoever is free.
        """
        division = self._division
        if isinstance(task, Fetch):
            self._go = partial(self._cluster.everywhere, _fetch, task.box)
            return
        self._first = task.origin[division.planes]
        if self._source.fetched_by_each:
            own = [division.pieces(task, index) for index in range(division.workers)]
            self._go = partial(self._cluster.dealt, _reduced, own)
        else:
            self._go = partial(self._cluster.mapped, _reduced, division.cut(task))
        self._cluster.everywhere(_reset)

    def go(self) -> None:
        """Hand all tasks to the scheduler, and wait until what they found has arrived."""
        self._found = self._go()

    def parts(self) -> list[Moments]:
        """Return what all found, put together plane by plane."""
        nothing = self._division.nothing
        total = nothing.like(self._division.count)
        for first, table in self._found:
            total.planes(first - self._first, table.shape[1]).merge(nothing.of(list(table)))
        return [total]

    def results(self) -> list[Counts]:
        """Return what each worker counted, what passes between it and the scheduler included."""
        found: list[Counts] = self._cluster.everywhere(_counted)
        return found

    def evict(self) -> float:
        """Empty the page cache of every node; the largest share of the file that stayed."""
        return float(max(self._cluster.a_node(_cache, self._memory_resident, "evict")))

    def fill(self) -> float:
        """Bring the file into the page cache of every node; the smallest share that is there."""
        return float(min(self._cluster.a_node(_cache, self._memory_resident, "fill")))

    def resident(self) -> float:
        """Return the largest share of the file that a node holds."""
        return float(max(self._cluster.a_node(_cache, self._memory_resident, "resident")))

    def end(self) -> int:
        """End all; returns the largest memory of each, summed, in bytes."""
        memory = int(sum(self._cluster.everywhere(largest_memory_bytes)))
        self._cluster.end()
        return memory

    def kill(self) -> None:
        """End all at once; harmless after `end`."""
        self._cluster.kill()
        node_memory.tidy()
