"""Timed writes of sub-volumes by ranks. Stopwatch: `timed` in mpi/steps.py, of the slowest rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI

from hyperslab.cases.context import Context, VerificationError
from hyperslab.cases.durable import PLAIN, in_turn
from hyperslab.cases.mpi.communicator import Ranks, report
from hyperslab.cases.mpi.steps import equal, plain_write, removed, timed
from hyperslab.data.sub_volumes import boxes_of
from hyperslab.formats import SubVolumes, SubVolumeWriter
from hyperslab.measuring.artifact import Artifact
from hyperslab.measuring.counters import Counters, between
from hyperslab.records import Row

PHASES = ("create", "write", "close", "fsync")
WRITTEN = ("written_bytes", "requested_writes")
# Of these the column that has those of each rank.
BY_RANK = {
    "opens": "opens_by_rank",
    "written_bytes": "written_by_rank",
    "requested_writes": "writes_by_rank",
}
# The levels of which the document says that they cost out of proportion.
COARSE_LEVELS = range(7)


class Cell:
    """One rank's part of a cell; every method is collective."""

    def __init__(self, ranks: Ranks, context: Context) -> None:
        spec = context.specification
        self._ranks, self._context = ranks, context
        offered = context.format.sub_volumes
        assert offered is not None
        self._sub_volumes: SubVolumes = offered
        self._box = boxes_of(spec)[ranks.rank]
        self._values = context.values.block(self._box.origin, self._box.extent)
        self._counters = Counters()
        self._artifact = Artifact(context.path)
        # The way of the last write, with its own copy of the values where it has one.
        self._way: SubVolumeWriter | None = None

    def _fsync(self) -> None:
        if self._ranks.first:
            self._artifact.fsync()

    def written(self) -> Row:
        """Return one timed write of a new dataset; each phase is a column of its own, between barriers."""
        self._way = None
        removed(self._ranks, self._artifact)
        spec = self._context.specification
        way = self._sub_volumes.writer(self._context.path, spec, MPI, self._values)
        self._counters.follow(way.processes)
        before = self._counters.read()
        steps: dict[str, Callable[[], None]] = {
            "create": way.create, "write": way.write, "close": way.close, "fsync": self._fsync
        }  # fmt: skip
        columns = {f"{name}_s": timed(self._ranks, steps[name]) for name in PHASES}
        counted = between(before, self._counters.read())
        # Part by part: beside the values nothing large is held.
        for part, found in way.stored():
            if not equal(found, self._values[part.slices()]):
                raise VerificationError(
                    f"{self._context.path}: the sub-volume at {self._box.origin} differs from what was "
                    "written"
                )
        way.end()
        self._way = way
        row: Row = {**columns, "time_s": sum(columns.values()), "flush_s": 0.0}
        row |= {f"{name}_s": self._ranks.greatest(spent / 1e9) for name, spent in way.spent.items()}
        row["written_device_bytes"] = int(self._ranks.total(counted["written_device_bytes"]))
        counts = {"opens": way.opens, **{name: counted[name] for name in WRITTEN}}
        for name, count in counts.items():
            if count is not None:
                by_rank = self._ranks.comm.allgather(int(count))
                row |= {name: sum(by_rank), BY_RANK[name]: " ".join(map(str, by_rank))}
        if way.most_opens is not None:
            row["most_opens"] = int(self._ranks.greatest(way.most_opens))
        if last := int(self._ranks.greatest(max(way.levels, default=0))):
            # The slowest rank of each level: they wait for each other's turn at the files, not by barriers.
            levels = [way.levels.get(level, 0) for level in range(last + 1)]
            slowest = np.max(self._ranks.comm.allgather(levels), axis=0) / 1e9
            row["time_by_level"] = " ".join(f"{one:.6g}" for one in slowest)
            row["levels_s"] = float(slowest.sum())
            row["coarse_levels_s"] = float(slowest[COARSE_LEVELS.start : COARSE_LEVELS.stop].sum())
        return row

    def writes(self, repeats: int) -> list[Row]:
        """Return timed writes, each beside a plain one; the first of two equal-size writes is discarded."""
        plain = str(self._context.artifact.part(PLAIN))
        buffers = [np.ascontiguousarray(self._values)]
        plain_write(self._ranks, plain, buffers)
        total = int(self._ranks.total(self._values.nbytes))
        common: Row = {"state": "write", "asked_bytes": total, "processes": self._ranks.size}

        def reference() -> float:
            return plain_write(self._ranks, plain, buffers)

        return [
            {**common, "repeat": repeat, **in_turn(repeat, repeats, reference, self.written)}
            for repeat in range(repeats)
        ]

    def described(self) -> dict[str, Any]:
        """Return the report of what was written last."""
        assert self._way is not None
        return self._way.described()

    def remove(self) -> None:
        """Remove what was written."""
        removed(self._ranks, self._artifact)


def run(ranks: Ranks, context: Context) -> dict[str, Any]:
    """Return what was measured; the same on all ranks."""
    cell = Cell(ranks, context)
    rows = cell.writes(context.specification["repeats"]["write"])
    described = cell.described()
    ranks.comm.Barrier()
    cell.remove()
    return report(ranks, context.format, {"rows": rows, "skipped": {}, "file": described})
