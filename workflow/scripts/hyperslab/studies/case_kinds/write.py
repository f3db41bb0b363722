"""Cases that write: the whole array, by a strategy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hyperslab.data.strategies import block_extent
from hyperslab.studies.case_kinds.kind import CaseMistake, Kind, Resolved, Shape
from hyperslab.studies.case_kinds.selection import check_box

if TYPE_CHECKING:
    from hyperslab.layouts.layout import Layout
    from hyperslab.studies.dataset_schema import Dataset
    from hyperslab.studies.schema import Case


class Write(Kind):
    """Durable writes of the whole array, create to fsync."""

    name = "write"
    given = "a strategy"
    keys = ("strategy", "block")
    protocol = 2
    of_objects = True
    writes_array = True
    makes_its_file = True
    measures_error = True
    study_figures = ("writes",)

    def resolve(self, case: Case, shape: Shape) -> dict[str, Any]:
        """Return the strategy, with its block where the study says one; raises CaseMistake."""
        block = case.write if isinstance(case.write, dict) else None
        check_box(block or {}, shape, self.name)
        strategy = case.write if isinstance(case.write, str) else "box"
        return {"strategy": strategy, "block": block, "states": ["write"]}

    def check(self, case: Case, resolved: Resolved, dataset: Dataset, layout: Layout) -> None:
        """Raise CaseMistake where a write call would cover a part of what a layout stores as one piece."""
        if not layout.abilities.writes:
            raise CaseMistake("layouts", f"{layout.title} is read only")
        chunks, shape = layout.chunks, resolved["shape"]
        extent = block_extent(resolved, dataset.axes, shape, chunks)
        whole = all(
            width % one == 0 or width == size
            for width, one, size in zip(extent, chunks or [1] * len(shape), shape, strict=True)
        )
        if not whole and not layout.abilities.partial_writes:
            raise CaseMistake(self.name, f"{layout.title} is written in whole pieces of {chunks} only")
        super().check(case, resolved, dataset, layout)
