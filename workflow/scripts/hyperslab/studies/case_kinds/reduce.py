"""Cases that reduce: the variance of a run of planes, split along an axis among workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from hyperslab.studies.case_kinds.kind import CaseMistake, Resolved, Shape
from hyperslab.studies.case_kinds.selection import check_box, extent_of
from hyperslab.studies.case_kinds.workers import PROCESSES, RANKS, Team

if TYPE_CHECKING:
    from hyperslab.studies.schema import Case


class Reduce(Team):
    """Reductions by processes or MPI ranks; speed-up is claimed of more workers."""

    name = "reduce"
    given = "a number of planes"
    options = (PROCESSES, RANKS, "split")
    keys = ("extent", "planes", "split", "by", "workers", "family")
    protocol = 3
    older_protocols: ClassVar[Mapping[int, str]] = {
        2: "runs of planes lie anywhere, at the same places in all studies"
    }
    draws_boxes = True
    computes = True
    family_figure = "speedup"

    def mistake(self, case: Case) -> str | None:
        """Return what is wrong with the counts of workers, or None."""
        if not (case.processes or case.ranks):
            return "a `reduce` case needs `processes` or `ranks`, such as [1, 2, 4]"
        return super().mistake(case)

    def resolve(self, case: Case, shape: Shape) -> dict[str, Any]:
        """Return the planes' axis, the split axis and who the workers are; raises CaseMistake."""
        assert case.reduce is not None
        check_box(case.reduce, shape, self.name)
        planes = [axis for axis, extent in case.reduce.items() if isinstance(extent, int)]
        if len(planes) != 1 or len(case.reduce) != 1:
            raise CaseMistake(self.name, "needs one axis with a number of planes, such as {z: 25}")
        others = [axis for axis in shape if axis not in planes]
        split = case.split or next(iter(others), None)
        if split not in others:
            raise CaseMistake("split", f"should be another axis than {planes[0]}: {' or '.join(others)}")
        by = RANKS if case.ranks else PROCESSES
        workers = (case.ranks or case.processes or [1])[0]
        if workers > shape[split]:
            raise CaseMistake(by, f"{workers} cannot share axis {split}, which has {shape[split]}")
        resolved = {"planes": planes[0], "split": split, "by": by, "workers": workers}
        return {"extent": extent_of(case.reduce, shape), "states": list(case.states), **resolved}

    def apart(self, case: Resolved, title: str) -> tuple[str, str]:
        """Return the family's title, and the number of workers."""
        shared, _, workers = title.rpartition(", ")
        return shared, workers
