"""Cases that write: the whole array, by a strategy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hyperslab.studies.case_kinds.kind import Kind, Shape
from hyperslab.studies.case_kinds.selection import check_box

if TYPE_CHECKING:
    from hyperslab.studies.schema import Case


class Write(Kind):
    """Durable writes of the whole array, create to fsync."""

    name = "write"
    given = "a strategy"
    keys = ("strategy", "block")
    protocol = 2
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
