"""Cases that replace ragged rows by rows of other lengths, in a file that is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hyperslab.layouts.rows import RowsLayout
from hyperslab.studies.case_kinds.kind import CaseMistake, Kind, Resolved, Shape

if TYPE_CHECKING:
    from hyperslab.layouts.layout import Layout
    from hyperslab.studies.dataset_schema import Dataset
    from hyperslab.studies.schema import Case


class RewriteRows(Kind):
    """Rows anywhere that are replaced, each in a call of its own, durably."""

    name = "rewrite_rows"
    given = "a number of rows"
    keys = ("rows",)
    protocol = 1
    data_model = "rows"
    draws_boxes = True
    makes_its_file = True
    study_figures = ("rows",)

    def resolve(self, case: Case, shape: Shape) -> dict[str, Any]:
        """Return how many rows are replaced; raises CaseMistake for more than there are, or one."""
        assert case.rewrite_rows is not None
        (count,) = shape.values()
        if case.rewrite_rows > count:
            raise CaseMistake(self.name, f"{case.rewrite_rows:,} rows are not there: there are {count:,}")
        if count < 2:
            raise CaseMistake(self.name, "one row alone has none of another length to be replaced by")
        return {"states": ["write"], "rows": {"replaced": case.rewrite_rows}}

    def check(self, case: Case, resolved: Resolved, dataset: Dataset, layout: Layout) -> None:
        """Raise CaseMistake where a layout cannot replace a row by one of another length."""
        if isinstance(layout, RowsLayout) and (wrong := layout.rewrite_refusal()):
            raise CaseMistake(self.name, wrong)
        super().check(case, resolved, dataset, layout)

    def beyond_bytes(self, resolved: Resolved, dataset: Dataset, layout: Layout) -> int:
        """Return what rows that are put in place of others take at most."""
        replaced: int = resolved["rows"]["replaced"]
        # Where no space is reused; collections of a heap may be half empty.
        return 2 * replaced * dataset.longest * dataset.itemsize
