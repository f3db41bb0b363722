"""Cases that read ragged rows: all of them, a run, one row, or rows that lie anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from hyperslab.studies.case_kinds.kind import CaseMistake, Kind, Resolved, Shape

if TYPE_CHECKING:
    from hyperslab.studies.schema import Case

STATES = ("cold", "warm")


class ReadRows(Kind):
    """Rows that are read cold and warm."""

    name = "read_rows"
    given = "a number of rows"
    keys = ("rows",)
    protocol = 2
    older_protocols: ClassVar[Mapping[int, str]] = {
        1: "what a call had read was freed within the time of the next one, by formats that copy it into "
        "rows; some 5 % of a warm read"
    }
    data_model = "rows"
    draws_boxes = True
    reads_selections = True
    study_figures = ("counts", "rows")

    def resolve(self, case: Case, shape: Shape) -> dict[str, Any]:
        """Return which rows a selection has; raises CaseMistake for more than there are."""
        (count,) = shape.values()
        assert case.read_rows is not None
        asked = case.read_rows.model_dump(exclude_none=True)
        if asked["rows"] != "all" and asked["rows"] > count:
            raise CaseMistake(f"{self.name}.rows", f"{asked['rows']:,} rows do not fit: there are {count:,}")
        if "session" in case.states:
            raise CaseMistake("states", f"rows are read {' and '.join(STATES)}, and have no session")
        return {"states": list(case.states), "rows": asked}

    def extent(self, resolved: Resolved, values: list[int]) -> list[int]:
        """Return about how many values a selection has."""
        (count,), (size,), rows = resolved["shape"], values, resolved["rows"]["rows"]
        return [size if rows == "all" else max(1, size * rows // count)]

    def figures(self, name: str, case: Resolved, gridded: bool) -> list[str]:
        """Return the bars of the first state."""
        return [f"session-{name}"]
