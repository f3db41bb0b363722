"""Cases of sub-volumes: every MPI rank writes a part of one IDX dataset, in one of several ways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hyperslab.studies.case_kinds.kind import CaseMistake, Kind, Resolved, Shape
from hyperslab.studies.case_kinds.workers import RANKS, WAY_NAMES, Team

if TYPE_CHECKING:
    from hyperslab.layouts.layout import Layout
    from hyperslab.studies.schema import Case, Dataset


class SubvolumeWrites(Team):
    """Durable writes by ranks; each way with each count of ranks is a case of its own."""

    name = "subvolumes"
    given = "how ranks write parts of a dataset"
    options = (RANKS,)
    keys = ("subvolumes", "by", "workers", "family")
    protocol = 1
    makes_its_file = True
    # What is written plainly has no layout.
    sized = False
    reads_all = True
    family_figure = "parallel"

    def mistake(self, case: Case) -> str | None:
        """Return what is wrong with workers, or None."""
        if not case.ranks or case.processes or case.split:
            return "a `subvolumes` case needs `ranks`, such as [1, 2, 4], and has no others"
        return super().mistake(case)

    def members(self, case: Case, count: int, dataset: Dataset) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield a case a way, on the part of the array that so many ranks hold."""
        assert case.subvolumes is not None
        asked = case.subvolumes
        if asked.along not in dataset.axes:
            raise ValueError(f"subvolumes.along: no such axis; the dataset has {', '.join(dataset.axes)}")
        whole = dict(zip(dataset.axes, dataset.shape, strict=True))
        size = (asked.each or 0) * count or case.shape.get(asked.along) or whole[asked.along]
        if size > whole[asked.along] or size < count:
            raise ValueError(
                f"subvolumes: {count} ranks cannot hold {size} along {asked.along}, which has "
                f"{whole[asked.along]}"
            )
        for way in asked.ways:
            one = asked.model_copy(update={"ways": [way]})
            changes = {"shape": {**case.shape, asked.along: size}, "subvolumes": one}
            yield way, WAY_NAMES[way], changes

    def resolve(self, case: Case, shape: Shape) -> dict[str, Any]:
        """Return the way in which ranks write, and what they share."""
        assert case.subvolumes is not None and case.ranks
        asked = case.subvolumes
        described = {"way": asked.ways[0], "along": asked.along, "aggregators": asked.aggregators}
        return {"states": ["write"], "subvolumes": described, "by": RANKS, "workers": case.ranks[0]}

    def check(self, case: Case, resolved: Resolved, dataset: Dataset, layout: Layout) -> None:
        """Raise CaseMistake where ranks cannot write a layout together."""
        if reason := layout.sub_volumes_mistake(resolved["subvolumes"]["along"]):
            raise CaseMistake("layouts", reason)
        # The format's library opens no file for all ranks: they write the bytes themselves.
        Kind.check(self, case, resolved, dataset, layout)

    def apart(self, case: Resolved, title: str) -> tuple[str, str]:
        """Return the title of as many ranks, and the way."""
        way = WAY_NAMES[case["subvolumes"]["way"]]
        return title.replace(f"{way}, ", ""), way
