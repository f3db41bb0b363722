"""Cases of many small arrays: each index along the first axis becomes an array of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hyperslab.studies.case_kinds.kind import CaseMistake, Kind, Resolved, Shape
from hyperslab.validation.nearest import choices

if TYPE_CHECKING:
    from hyperslab.layouts.layout import Layout
    from hyperslab.studies.dataset_schema import Dataset
    from hyperslab.studies.schema import Case


class Objects(Kind):
    """Arrays that are created and written in turn, and the latest of them read."""

    name = "objects"
    given = "an axis"
    protocol = 2
    makes_its_file = True
    many_arrays = True
    study_figures = ("objects",)

    def resolve(self, case: Case, shape: Shape) -> dict[str, Any]:
        """Return the states; raises CaseMistake for another axis than the first of several."""
        if case.objects not in shape:
            raise CaseMistake(self.name, f"no such axis; the dataset has {choices(case.objects, shape)}")
        if len(shape) < 2 or case.objects != next(iter(shape)):
            message = "needs the first of several axes; the others are what an object holds"
            raise CaseMistake(self.name, message)
        return {"states": ["write", *case.states]}

    def check(self, case: Case, resolved: Resolved, dataset: Dataset, layout: Layout) -> None:
        """Raise CaseMistake where the layout's files hold one array only."""
        if not layout.abilities.many_arrays:
            raise CaseMistake(self.name, f"{layout.title} does not hold many arrays in a file")
        super().check(case, resolved, dataset, layout)

    def array_shape(self, resolved: Resolved) -> list[int]:
        """Return the extents of one array: those of the other axes."""
        return list(resolved["shape"][1:])

    def arrays(self, resolved: Resolved) -> int:
        """Return how many there are: the extent of the first axis."""
        return int(resolved["shape"][0])
