"""One worker's share of a reduction, and the team of processes that reduces a box together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.sharedctypes import RawArray
from typing import Any, Protocol

import numpy as np

from hyperslab.cases.opened import Reader, Readers
from hyperslab.cases.reduce import moments as reductions
from hyperslab.cases.reduce.moments import Floats, Moments
from hyperslab.cases.reduce.source import Fetch, Source
from hyperslab.cases.reduce.summaries import Summaries
from hyperslab.data.models import missing_of
from hyperslab.data.selections import Box, disk_order
from hyperslab.layouts import layout_of
from hyperslab.measuring import node_memory
from hyperslab.measuring.artifact import Artifact
from hyperslab.measuring.machine import node_name
from hyperslab.measuring.residency import NodeCache
from hyperslab.measuring.workers import GATE, Counts, Workers
from hyperslab.specifications import Specification

# What is found of planes -> what it is of nothing yet, of one plane of a dataset.
STATISTICS: dict[str, Callable[[Mapping[str, Any]], Moments]] = {
    "moments": lambda _: Moments.zeros(1),
    "summaries": lambda dataset: Summaries.nothing(1, missing_of(dataset)),
}


class Team(Readers, Protocol):
    """Workers that reduce a box together: processes of this machine, or MPI ranks."""

    def prepare(self, task: Box | Fetch) -> None:
        """Tell every worker the box, or what to copy before, and wait until all are ready."""

    def parts(self) -> list[Moments]:
        """Return what each worker found, plane by plane."""

    def evict(self) -> float:
        """Empty the page cache of every node; the largest share of the file that stayed."""

    def fill(self) -> float:
        """Bring the file into the page cache of every node; the smallest share that is there."""

    def resident(self) -> float:
        """Return the largest share of the file that a node holds."""


class OwnTeam(Team, Protocol):
    """Workers that a cell starts by itself and has to end, on these nodes, with these libraries."""

    nodes: list[str]
    versions: dict[str, str]

    def end(self) -> int:
        """End all; returns the largest memory of each, summed, in bytes."""

    def kill(self) -> None:
        """End all at once; harmless after `end`."""


@dataclass(frozen=True)
class Division:
    """How a reduction's boxes are shared: axes by position, chunk in array terms, order as on disk."""

    planes: int
    split: int
    workers: int
    count: int
    chunk: list[int] | None
    order: list[int]
    itemsize: int
    # An axis, and the indices along it with which files begin.
    borders: tuple[int, list[int]]
    # What is found of nothing, of one plane; what workers find is made like it.
    nothing: Moments
    # While a piece is read and computed with, the kernel reads those behind it.
    ahead: bool

    @classmethod
    def of(cls, spec: Specification) -> Division:
        """Return the division that a cell's specification asks for."""
        case, dataset, layout = spec["case"], spec["dataset"], layout_of(spec["layout"])
        axes: list[str] = dataset["axes"]
        planes = axes.index(case["planes"])
        return cls(
            planes, axes.index(case["split"]), case["workers"], case["extent"][planes], layout.chunks,
            disk_order(spec), np.dtype(dataset["dtype"]).itemsize,
            layout.borders(dataset["shape"]), STATISTICS[case.get("statistics", "moments")](dataset),
            bool(case.get("ahead")),
        )  # fmt: skip

    @property
    def cells(self) -> int:
        """Numbers that hold what is found of all planes."""
        return self.nothing.ROWS * self.count

    def found_in(self, buffer: Any) -> Moments:
        """Return what is found of all planes as it lives in a buffer of `cells` doubles."""
        table: Floats = np.frombuffer(buffer, np.float64).reshape(-1, self.count)
        return self.nothing.of(list(table))

    def part(self, box: Box, index: int) -> Box:
        """Return what worker `index` reduces."""
        return reductions.part_of(box, self.split, index, self.workers)

    def pieces(self, box: Box, index: int) -> list[Box]:
        """Return the same in the pieces in which it is read."""
        return self.cut(self.part(box, index))

    def cut(self, box: Box) -> list[Box]:
        """Return all of a box in such pieces, whoever reads them: of whole chunks, none of two files."""
        axis = self.borders[0]
        found = []
        for part, first in reductions.by_file(box, *self.borders):
            # Each file has chunks of its own from its beginning on.
            inside = reductions.moved(part, axis, -first)
            pieces = reductions.pieces(inside, self.chunk, self.order, self.itemsize)
            found += [reductions.moved(piece, axis, first) for piece in pieces]
        return found

    def chunks_shared(self, box: Box) -> int:
        """Return the chunks that more than one worker reads."""
        return reductions.chunks_shared(box, self.chunk, self.split, self.workers, self.borders)


class Share(Reader):
    """One worker's side: its part of each box, read in pieces into `shared` (`Division.found_in`)."""

    def __init__(
        self,
        source: Source,
        index: int,
        shared: Any,
        open_array: Callable[[], Any] | None = None,
        gate: dict[str, int] = GATE,
    ) -> None:
        node_memory.join(source.cell["case"].get("node_memory_bytes"))
        source.introduction()
        spec, path = source.specification, source.place(index)
        self._source = source
        self._division, self._index, self._gate = Division.of(spec), index, gate
        super().__init__(spec, path, open_array)
        self._moments = self._division.found_in(shared)

    def prepare(self, task: Box | Fetch) -> Callable[[], None]:
        """Cut this worker's part of the box into pieces; what is returned reduces them, or copies it."""
        division, moments = self._division, self._moments
        if isinstance(task, Fetch):
            part = division.part(task.box, self._index)
            return lambda: self._source.fetch(self._index, part)
        cut = division.pieces(task, self._index)
        first = task.origin[division.planes]
        moments.clear()
        self.begin()
        return lambda: reductions.reduce_pieces(
            self.opened, cut, division.planes, first, moments, division.ahead
        )

    def result(self) -> Counts:
        """Return what was counted since the task was prepared."""
        return self.counted(self._gate)


class Processes(Workers):
    """A team of processes; each finds its moments in memory that it shares with this one."""

    versions: dict[str, str] = {}  # noqa: RUF012

    def __init__(self, source: Source, artifact: Artifact, memory_resident: bool) -> None:
        self.nodes = [node_name()]
        self._cache = NodeCache(artifact, memory_resident)
        division = Division.of(source.specification)
        memory = [RawArray("d", division.cells) for _ in range(division.workers)]
        self._moments = [division.found_in(part) for part in memory]
        super().__init__(Share, [(source, index, part) for index, part in enumerate(memory)])

    def parts(self) -> list[Moments]:
        """Return what each worker found, plane by plane."""
        return self._moments

    def evict(self) -> float:
        """Empty the page cache; the share of the file that stayed."""
        return self._cache.evict()

    def fill(self) -> float:
        """Bring the file into the page cache; the share that is there."""
        return self._cache.fill()

    def resident(self) -> float:
        """Return the share of the file that the page cache holds."""
        return self._cache.resident()

    def kill(self) -> None:
        """End all at once; harmless after `end`."""
        super().kill()
        self._cache.close()
        node_memory.tidy()
