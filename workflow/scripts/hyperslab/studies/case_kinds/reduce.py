"""Cases that reduce: the variance of a run of planes, split along an axis among workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from hyperslab.studies.case_kinds.kind import CaseMistake, Resolved, Shape
from hyperslab.studies.case_kinds.selection import check_box, extent_of
from hyperslab.studies.case_kinds.workers import PROCESSES, RANKS, WORKERS, Team

if TYPE_CHECKING:
    from hyperslab.studies.schema import Case


def shared(case: Case, asked: Mapping[str, Any], planes: str, split: str, shape: Shape) -> dict[str, Any]:
    """Return extent and states of planes that workers share along `split`, and who the workers are.

    Raises CaseMistake where there are more workers than there is to share.
    """
    by = next((field for field in WORKERS if getattr(case, field)), PROCESSES)
    workers = (getattr(case, by) or [1])[0]
    extent = extent_of(asked, shape)
    there = extent[list(shape).index(split)]
    if workers > there:
        raise CaseMistake(by, f"{workers} cannot share axis {split}, which has {there}")
    resolved = {"planes": planes, "split": split, "by": by, "workers": workers}
    return {"extent": extent, "states": list(case.states), **resolved}


class Reduce(Team):
    """Reductions by processes or MPI ranks; speed-up is claimed of more workers."""

    name = "reduce"
    given = "a number of planes"
    options: ClassVar[tuple[str, ...]] = (PROCESSES, RANKS, "split")
    keys: ClassVar[tuple[str, ...]] = ("extent", "planes", "split", "by", "workers", "family")
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
        return shared(case, case.reduce, planes[0], split, shape)

    def apart(self, case: Resolved, title: str) -> tuple[str, str]:
        """Return the family's title, and the number of workers."""
        shared, _, workers = title.rpartition(", ")
        return shared, workers
