"""Cases that summarise: least, greatest, mean and deviation of every plane, without what has no value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from hyperslab.layouts.environments import of_cell
from hyperslab.specifications import EACH, PLAIN
from hyperslab.studies.case_kinds.kind import CaseMistake, Resolved, Shape
from hyperslab.studies.case_kinds.reduce import Reduce, shared
from hyperslab.studies.case_kinds.selection import check_box, is_stride
from hyperslab.studies.case_kinds.workers import DASK, NODE_MEMORY, PROCESSES, RANKS, WORKERS, by_ranks

if TYPE_CHECKING:
    from hyperslab.layouts.layout import Layout
    from hyperslab.studies.dataset_schema import Dataset
    from hyperslab.studies.schema import Case


class Summaries(Reduce):
    """Summaries of planes, such as the grids of days, by processes, MPI ranks or Dask workers."""

    name = "summaries"
    given = "planes that are summarised"
    options = (PROCESSES, RANKS, DASK, "split", "fetch", "ahead", NODE_MEMORY)
    keys = (*Reduce.keys, "statistics", "fetch", "ahead", "beside", NODE_MEMORY)
    protocol = 1
    older_protocols: ClassVar[Mapping[int, str]] = {}

    def mistake(self, case: Case) -> str | None:
        """Return what is wrong with the counts of workers, or None."""
        if not any(getattr(case, field) for field in WORKERS):
            return f"a `{self.name}` case needs {', '.join(WORKERS)}: numbers of workers, such as [1, 2]"
        if case.fetch and set(case.states) != {"cold"}:
            return "fetch: files that are copied first are cold; take `states: [cold]`"
        if case.fetch and case.ranks:
            return "fetch: MPI ranks open the files themselves; take processes or dask"
        if case.ahead and (case.ranks or case.dask):
            return "ahead: MPI ranks and workers of Dask are not told what comes next; take processes"
        if case.node_memory_bytes and (case.ranks or "warm" in case.states):
            return (
                f"{NODE_MEMORY}: no one node holds all of a warm file; take processes or dask, and `session`"
            )
        return super(Reduce, self).mistake(case)

    def resolve(self, case: Case, shape: Shape) -> dict[str, Any]:
        """Return the axis of the planes, that which workers share, and who they are; raises CaseMistake."""
        assert case.summaries is not None
        check_box(case.summaries, shape, self.name)
        planes = list(case.summaries)
        if len(planes) != 1 or is_stride(case.summaries[planes[0]]):
            raise CaseMistake(self.name, "needs one axis with a number of planes or all, such as {day: all}")
        split = case.split or planes[0]
        if split not in shape:
            raise CaseMistake("split", f"should be one of {' or '.join(shape)}")
        found = shared(case, case.summaries, planes[0], split, shape)
        found |= {"statistics": self.name, **({"fetch": case.fetch} if case.fetch else {})}
        if case.ahead:
            found |= {"ahead": True}
            # Of all planes, so of all bytes of the files.
            if found["by"] != RANKS and found["extent"] == list(shape.values()) and not case.fetch:
                found |= {"beside": PLAIN}
        return found | ({NODE_MEMORY: case.node_memory_bytes} if case.node_memory_bytes else {})

    def asks_objects(self, resolved: Resolved) -> bool:
        """Return whether workers reach objects: ranks open files alone."""
        return not by_ranks(resolved)

    def check(self, case: Case, resolved: Resolved, dataset: Dataset, layout: Layout) -> None:
        """Raise CaseMistake where workers lack their engine, or what they would copy is not what is read."""
        own = layout.environment()
        if resolved["by"] == DASK and of_cell(resolved, own) != own and own:
            raise CaseMistake(DASK, f"{layout.title} has an environment of its own, {own}")
        if resolved.get("fetch") and layout.copied() is None:
            raise CaseMistake("fetch", f"a copy of {layout.title} is not what is read")
        nowhere = [0] * len(dataset.axes)
        if resolved.get("fetch") == EACH and layout.files_of(dataset.axes, nowhere, nowhere) is None:
            raise CaseMistake("fetch", f"of {layout.title} a worker cannot copy a part; say true")
        super().check(case, resolved, dataset, layout)
