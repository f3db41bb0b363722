"""Cases that several workers carry out: a count of workers is a case of its own, of one family.

So tables, summary and comparisons need no further key.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hyperslab.studies.case_kinds.kind import CaseMistake, Kind, Resolved

if TYPE_CHECKING:
    from hyperslab.layouts.layout import Layout
    from hyperslab.studies.dataset_schema import Dataset
    from hyperslab.studies.schema import Case

PROCESSES, RANKS, DASK = "processes", "ranks", "dask"
# The memory that each of them has to itself.
NODE_MEMORY = "node_memory_bytes"
# field of a case that counts workers -> what ends the name of a case, and their names
WORKERS = {
    PROCESSES: ("p", "process", "processes"),
    RANKS: ("r", "MPI rank", "MPI ranks"),
    DASK: ("d", "Dask worker", "Dask workers"),
}
API_NAMES = {
    "hdf5": "parallel HDF5",
    "mpiio": "MPI-IO",
    "posix": "POSIX",
    "file-per-process": "one file a process",
}
WAY_NAMES = {
    "token": "one after the other",
    "per-level": "level by level",
    "per-level-kept": "files kept open",
    "per-level-fast-reopened": "fast order with files reopened",
    "per-level-fast": "fast order",
    "aggregated": "aggregated",
    "plain": "plain MPI-IO",
    "plain-writeback": "plain MPI-IO with early writeback",
    "independent": "independent calls",
    "collective": "collective calls",
}
# What figures and tables need of a resolved case of several workers.
TEAM_KEYS = ("family", "by", "workers", "parallel", "subvolumes")


def interface_of(case: Resolved) -> str | None:
    """Return the interface by which ranks of a case of parallel access reach their file, or None."""
    asked = case.get("parallel")
    return asked["api"] if asked else None


def way_of(case: Resolved) -> str | None:
    """Return the way in which ranks write their sub-volumes in a case of these, or None."""
    asked = case.get("subvolumes")
    return asked["way"] if asked else None


def by_ranks(resolved: Resolved) -> bool:
    """Return whether MPI ranks carry a resolved case out."""
    return resolved.get("by") == RANKS


def on_all_nodes(resolved: Resolved) -> bool:
    """Return whether workers of a resolved case are spread over all nodes of a job."""
    return resolved.get("by") in (RANKS, DASK)


class Team(Kind):
    """A kind whose cases several workers carry out; each count of them is a case of its own."""

    def mistake(self, case: Case) -> str | None:
        """Return what is wrong with the counts of workers, or None."""
        for name in WORKERS:
            counts = getattr(case, name) or []
            if len(set(counts)) != len(counts):
                return f"{name}: each number at most once"
        return None

    def check(self, case: Case, resolved: Resolved, dataset: Dataset, layout: Layout) -> None:
        """Raise CaseMistake where ranks cannot open the layout's files together."""
        if by_ranks(resolved):
            if not layout.abilities.ranks:
                raise CaseMistake(RANKS, f"MPI ranks cannot open {layout.title} together")
            if reason := layout.ranks_mistake(self.makes_its_file):
                raise CaseMistake("layouts", reason)
        super().check(case, resolved, dataset, layout)

    def variants(self, name: str, case: Case, dataset: Dataset) -> Iterator[tuple[str, Case]]:
        """Yield a case a count: slices-4p has four processes, slices-4r four ranks."""
        for workers, (letter, *_) in WORKERS.items():
            for count in getattr(case, workers) or ():
                alone: dict[str, Any] = {**dict.fromkeys(WORKERS), workers: [count]}
                words = self.counted(workers, count)
                for part, title, changes in self.members(case, count, dataset):
                    title = ", ".join([case.title or name, *([title] if title else []), words])
                    parts = [name, *([part] if part else []), f"{count}{letter}"]
                    yield "-".join(parts), case.model_copy(update={**alone, **changes, "title": title})

    def counted(self, workers: str, count: int) -> str:
        """Return a count of workers in words, such as 4 MPI ranks."""
        _, one, many = WORKERS[workers]
        return f"{count} {one if count == 1 else many}"

    def members(self, case: Case, count: int, dataset: Dataset) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield (part of the name, part of the title, changed fields) of each case of a count of workers."""
        yield "", "", {}


class RankWrites(Team):
    """Durable writes by MPI ranks in several ways; each way with each count of ranks is a case of its own."""

    options = (RANKS,)
    makes_its_file = True
    # What is written plainly has no layout.
    sized = False
    reads_all = True
    family_figure = "parallel"

    @abstractmethod
    def way(self, case: Resolved) -> str:
        """Return in words the way in which the ranks of a resolved case write."""

    def mistake(self, case: Case) -> str | None:
        """Return what is wrong with workers, or None."""
        if not case.ranks or case.processes or case.split:
            return f"a `{self.name}` case needs `ranks`, such as [1, 2, 4], and has no others"
        return super().mistake(case)

    def apart(self, case: Resolved, title: str) -> tuple[str, str]:
        """Return the title of as many ranks, and the way."""
        way = self.way(case)
        return title.replace(f"{way}, ", ""), way
