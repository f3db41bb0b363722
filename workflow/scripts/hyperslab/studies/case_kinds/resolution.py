"""Cases of views that become finer: a box is read level by level until full resolution, as a viewer does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from hyperslab.studies.case_kinds.kind import CaseMistake, Kind, Resolved, Shape
from hyperslab.studies.case_kinds.selection import check_box, check_level, extent_of

if TYPE_CHECKING:
    from hyperslab.layouts.layout import Layout
    from hyperslab.studies.dataset_schema import Dataset
    from hyperslab.studies.schema import Case


class Resolution(Kind):
    """Boxes at random places that are read from coarse to fine, cold and warm."""

    name = "resolution"
    given = "a view that becomes finer"
    options = ("level", "picture")
    keys = ("extent", "levels", "picture")
    # Since 2 what refines reads nothing of a view twice.
    protocol = 2
    draws_boxes = True
    timed = "view"
    most_repeats: ClassVar[Mapping[str, int]] = {"cold": 45}
    reads_selections = True
    study_figures = ("counts",)

    def mistake(self, case: Case) -> str | None:
        """Return what is wrong with levels or states, whatever the dataset, or None."""
        if case.level is None:
            return "a `resolution` case needs `level`: the coarsest, or a list of levels, such as [6, 3, 0]"
        if isinstance(case.level, list) and case.level != sorted(case.level, reverse=True):
            return "level: a view becomes finer; name the coarsest level first"
        if "session" in case.states:
            return "states: views are cold and warm, and have no session"
        return None

    def resolve(self, case: Case, shape: Shape) -> dict[str, Any]:
        """Return extent, levels from coarse to fine, and the axes of pictures; raises CaseMistake."""
        assert case.resolution is not None and case.level is not None
        check_box(case.resolution, shape, self.name)
        given = case.level if isinstance(case.level, list) else [case.level]
        for level in given:
            check_level(level, shape)
        levels = given if isinstance(case.level, list) else list(range(case.level, -1, -1))
        if len(shape) < 2:
            raise CaseMistake(self.name, "needs two axes or more, of which there can be pictures")
        picture = case.picture or list(shape)[-2:]
        if len(set(picture)) != 2 or not {*picture} <= {*shape}:
            raise CaseMistake("picture", f"{picture} must name two of {', '.join(shape)}")
        extent = extent_of(case.resolution, shape)
        return {"extent": extent, "states": list(case.states), "levels": levels, "picture": picture}

    def check(self, case: Case, resolved: Resolved, dataset: Dataset, layout: Layout) -> None:
        """Raise CaseMistake where a layout cannot be asked for a level."""
        if not (layout.abilities.coarse_levels or layout.abilities.strides):
            raise CaseMistake("level", f"{layout.title} cannot be asked for every so many elements")
        super().check(case, resolved, dataset, layout)

    def figures(self, name: str, case: Resolved, gridded: bool) -> list[str]:
        """Return the view from coarse to fine, and the bars of what it takes in all."""
        return [f"resolution-{name}", f"session-{name}"]
