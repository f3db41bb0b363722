"""Cases that open: every file of a layout is found and opened, as by whoever asks what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hyperslab.studies.case_kinds.kind import Kind, Resolved, Shape

if TYPE_CHECKING:
    from hyperslab.studies.schema import Case


class OpenAll(Kind):
    """All files of a layout that are found, opened and closed."""

    name = "open_all"
    given = "true"
    protocol = 1
    of_objects = True
    opens_all = True
    timed = "opening"

    def mistake(self, case: Case) -> str | None:
        """Return what is wrong with the states, or None."""
        return None if case.open_all else "open_all: true, or no case"

    def resolve(self, case: Case, shape: Shape) -> dict[str, Any]:
        """Return the states."""
        return {"states": [state for state in case.states if state != "session"]}

    def extent(self, resolved: Resolved, values: list[int]) -> list[int]:
        """Return the extents of one element: no more is read of each file."""
        return [1] * len(values)

    def figures(self, name: str, case: Resolved, gridded: bool) -> list[str]:
        """Return bars by layout."""
        return [f"session-{name}"]
