"""Cases that write ragged rows: so many in each call, into one dataset or several in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hyperslab.layouts.rows import RowsLayout
from hyperslab.studies.case_kinds.kind import CaseMistake, Kind, Resolved, Shape
from hyperslab.studies.case_kinds.read_rows import STATES

if TYPE_CHECKING:
    from hyperslab.layouts.layout import Layout
    from hyperslab.studies.dataset_schema import Dataset
    from hyperslab.studies.schema import Case


class WriteRows(Kind):
    """Durable writes of all rows; then, where a case has states, reads of the first dataset."""

    name = "write_rows"
    given = "rows a call"
    keys = ("rows",)
    protocol = 1
    data_model = "rows"
    writes_array = True
    makes_its_file = True
    study_figures = ("writes", "rows")

    def resolve(self, case: Case, shape: Shape) -> dict[str, Any]:
        """Return rows a call, datasets, and states; raises CaseMistake for more datasets than rows."""
        assert case.write_rows is not None
        (count,) = shape.values()
        asked = case.write_rows.model_dump(exclude_none=True)
        call = count if asked["call"] == "all" else min(asked["call"], count)
        if asked["datasets"] > -(-count // call):
            message = f"{-(-count // call)} calls write no {asked['datasets']} datasets in turn"
            raise CaseMistake(f"{self.name}.datasets", message)
        if "session" in case.states:
            raise CaseMistake("states", f"rows are read {' and '.join(STATES)}, and have no session")
        # Unlike cases of selections, most of these have nothing to read.
        read = case.states if "states" in case.model_fields_set else []
        return {"states": ["write", *read], "rows": asked}

    def check(self, case: Case, resolved: Resolved, dataset: Dataset, layout: Layout) -> None:
        """Raise CaseMistake where a layout's datasets cannot grow, or lie alone in their file."""
        rows = resolved["rows"]
        if rows["datasets"] > 1 and not layout.abilities.many_arrays:
            raise CaseMistake(
                f"{self.name}.datasets", f"{layout.title} does not hold many datasets in a file"
            )
        if rows["growing"] and isinstance(layout, RowsLayout) and (wrong := layout.growth_refusal()):
            raise CaseMistake(f"{self.name}.growing", wrong)
        super().check(case, resolved, dataset, layout)
