"""A reduction by MPI ranks: rank 0 leads and does a share of its own, the others follow its orders."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from hyperslab import formats
from hyperslab.cases.context import Context
from hyperslab.cases.mpi.communicator import Caches, Ranks, info_of, report
from hyperslab.cases.reduce import case
from hyperslab.cases.reduce.division import Division, Share
from hyperslab.cases.reduce.moments import Floats, Moments
from hyperslab.cases.reduce.source import Fetch, Source
from hyperslab.data.selections import Box
from hyperslab.measuring.pagecache import NotInState
from hyperslab.measuring.workers import Counts
from hyperslab.specifications import Specification


class RankTeam:
    """The ranks as a team. Rank 0 calls its methods; `follow` does the other ranks' part of each."""

    def __init__(self, ranks: Ranks, spec: Specification, path: str, memory_resident: bool) -> None:
        self._division = Division.of(spec)
        self._ranks = ranks
        self._own: Floats = np.zeros(self._division.cells)
        self._all: Floats | None = np.zeros((ranks.size, self._division.cells)) if ranks.rank == 0 else None
        self._caches = Caches(ranks, path, memory_resident, ranks.first)
        parallel = formats.load(spec["layout"]["format"]).parallel
        assert parallel is not None
        hints = info_of({})
        source = Source(spec, path, lambda: None)
        self._share = Share(
            source, ranks.rank, self._own, lambda: parallel.open(path, spec, ranks.comm, hints), gate={}
        )
        self._go: Callable[[], None] = lambda: None

    def follow(self) -> None:
        """Do what rank 0 orders, until it says that it is done."""
        while (order := self._ranks.comm.bcast(None)) is not None:
            name, arguments = order
            # Rank 0 has the same reason, and orders what is done then.
            with suppress(NotInState):
                getattr(self, f"_{name}")(*arguments)

    def _order(self, name: str, *arguments: Any) -> Any:
        self._ranks.comm.bcast((name, arguments))
        return getattr(self, f"_{name}")(*arguments)

    def _command(self, name: str) -> float:
        return self._ranks.greatest(self._share.command(name))

    def _prepare(self, task: Box | Fetch) -> None:
        self._go = self._share.prepare(task)
        self._ranks.comm.Barrier()

    def _run(self) -> None:
        self._ranks.comm.Barrier()
        self._go()
        self._ranks.comm.Gather(self._own, self._all)

    def _count(self) -> list[Counts] | None:
        found: list[Counts] | None = self._ranks.comm.gather(self._share.result())
        return found

    def _cache(self, name: str) -> float:
        share: float = getattr(self._caches, name)()
        return share

    def command(self, name: str) -> float:
        """Open or close the file everywhere; seconds of the slowest."""
        return float(self._order("command", name))

    def prepare(self, task: Box | Fetch) -> None:
        """Tell every rank the box, that it is to be released, and wait until all are ready."""
        self._order("prepare", task)
        # Sent before the stopwatch: what is left of the release is a barrier.
        self._ranks.comm.bcast(("run", ()))

    def go(self) -> None:
        """Release all; done when what they found has arrived."""
        self._run()

    def parts(self) -> list[Moments]:
        """Return what each rank found, plane by plane."""
        assert self._all is not None
        return [self._division.found_in(row) for row in self._all]

    def results(self) -> list[Counts]:
        """Return what each rank counted; what moves between ranks of a node does not pass the kernel's
        counters.
        """
        found: list[Counts] = self._order("count")
        return found

    def evict(self) -> float:
        """Empty the page cache of every node; the largest share of the file that stayed."""
        return float(self._order("cache", "evict"))

    def fill(self) -> float:
        """Bring the file into the page cache of every node; the smallest share that is there."""
        return float(self._order("cache", "fill"))

    def resident(self) -> float:
        """Return the largest share of the file that a node holds."""
        return float(self._order("cache", "resident"))

    def end(self) -> None:
        """Let the other ranks go."""
        self._ranks.comm.bcast(None)


def run(ranks: Ranks, context: Context) -> dict[str, Any]:
    """Return what rank 0 has measured; the other ranks return nothing of use."""
    team = RankTeam(ranks, context.specification, context.path, context.memory_resident)
    rows: list[dict[str, Any]] = []
    skipped: dict[str, str] = {}
    if ranks.rank == 0:
        rows, skipped = case.measure(context, team)
        team.end()
    else:
        team.follow()
    return report(ranks, context.format, {"rows": rows, "skipped": skipped})
