"""Cases that append ragged rows, so many a call, while other processes read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hyperslab.layouts.rows import RowsLayout
from hyperslab.studies.case_kinds.kind import CaseMistake, Kind, Resolved, Shape

if TYPE_CHECKING:
    from hyperslab.layouts.layout import Layout
    from hyperslab.studies.dataset_schema import Dataset
    from hyperslab.studies.schema import Case


class FollowRows(Kind):
    """Appends that are flushed one by one, and readers that follow them."""

    name = "follow_rows"
    given = "rows an append, which readers follow"
    keys = ("rows",)
    protocol = 1
    data_model = "rows"
    writes_array = True
    makes_its_file = True
    study_figures = ("writes", "rows")

    def resolve(self, case: Case, shape: Shape) -> dict[str, Any]:
        """Return rows an append, readers, and how long they wait between two looks."""
        assert case.follow_rows is not None
        return {"states": ["write"], "rows": case.follow_rows.model_dump()}

    def check(self, case: Case, resolved: Resolved, dataset: Dataset, layout: Layout) -> None:
        """Raise CaseMistake where nobody can read a layout's rows while others are added."""
        if isinstance(layout, RowsLayout) and (wrong := layout.follow_refusal()):
            raise CaseMistake(self.name, wrong)
        super().check(case, resolved, dataset, layout)

    def beyond_bytes(self, resolved: Resolved, dataset: Dataset, layout: Layout) -> int:
        """Return what the flushes of all appends leave behind at most."""
        if not isinstance(layout, RowsLayout):
            return 0
        (rows,) = resolved["shape"]
        appends: int = -(-rows // resolved["rows"]["call"])
        return appends * layout.flush_bytes(dataset.itemsize)
