"""The prototype and its improvements: each level in turn, by independent writes through MPI-IO."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from time import perf_counter_ns
from typing import Any

import numpy as np

from hyperslab.formats.idx.parallel.runs import ByBlocks, ByFormula, in_files
from hyperslab.formats.idx.parallel.ways import Block, Job, Way, write_at


class PerLevel(Way):
    """Files are opened and closed for each level, and each sample's address is computed bit by bit."""

    keeps_files = False
    runs: type[ByFormula] | type[ByBlocks] = ByFormula

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._kept: dict[int, Any] = {}

    def write(self) -> None:
        files = self.job.files
        for field, values in enumerate(self.job.values):
            runs = self.runs(files, self.order, self.box.origin, values)
            for level in range(files.bitmask.bits + 1):
                self._write_level(level, in_files(files, field, runs.of_level(level)))

    def _write_level(self, level: int, pieces: Iterator[tuple[int, int, Block]]) -> None:
        """Put samples of a level in order and write them, in turn; the time of the level is that of files."""
        spent = 0
        while piece := self.timed("order", partial(next, pieces, None)):
            started = perf_counter_ns()
            self._write_piece(*piece)
            spent += perf_counter_ns() - started
        started = perf_counter_ns()
        if not self.keeps_files:
            self.close_files()
        self.levels[level] = self.levels.get(level, 0) + spent + perf_counter_ns() - started

    def _write_piece(self, first: int, offset: int, samples: Block) -> None:
        if first not in self._kept:
            self._kept[first] = self.mpi.File.Open(
                self.mpi.COMM_SELF, self.path_of(first), self.mpi.MODE_WRONLY
            )
            self.opened[first] += 1
        content = samples.view(np.uint8)
        self.timed("file_writes", partial(write_at, self._kept[first], offset, content, self.mpi.BYTE))

    def close_files(self) -> None:
        """Close the files that are open."""
        while self._kept:
            self._kept.popitem()[1].Close()


class PerLevelKept(PerLevel):
    """The same with files kept open until everything is written."""

    keeps_files = True


class PerLevelFastReopened(PerLevel):
    """Files opened and closed for each level, and the fast order."""

    runs = ByBlocks


class PerLevelFast(PerLevelKept):
    """Both improvements."""

    runs = ByBlocks
