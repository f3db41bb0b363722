"""Cases of sub-volumes: every MPI rank writes a part of one dataset, in one of several ways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hyperslab.layouts.idx_ways import LEVEL_BY_LEVEL
from hyperslab.studies.case_kinds.kind import CaseMistake, Kind, Resolved, Shape
from hyperslab.studies.case_kinds.workers import RANKS, WAY_NAMES, RankWrites

if TYPE_CHECKING:
    from hyperslab.layouts.layout import Layout
    from hyperslab.studies.dataset_schema import Dataset
    from hyperslab.studies.schema import Case


class SubvolumeWrites(RankWrites):
    """Durable writes by ranks; each way with each count of ranks is a case of its own."""

    name = "subvolumes"
    given = "how ranks write parts of a dataset"
    keys = ("subvolumes", "by", "workers", "family")
    # Since 2 aggregators begin writeback, and level by level samples are put in order as they are written.
    protocol = 2

    def members(self, case: Case, count: int, dataset: Dataset) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield a case a way, on the part of the array that so many ranks hold."""
        assert case.subvolumes is not None
        asked = case.subvolumes
        for axis in asked.axes:
            if axis not in dataset.axes:
                raise ValueError(
                    f"subvolumes.along: no axis {axis}; the dataset has {', '.join(dataset.axes)}"
                )
        if (asked.aggregators or 0) > count:
            raise ValueError(
                f"subvolumes.aggregators: {asked.aggregators} of {count} ranks; name at most as many, or "
                "give ranks that have them"
            )
        if asked.each and (both := [axis for axis in asked.axes if axis in case.shape]):
            raise ValueError(
                f"subvolumes.each: shape has an extent of {both[0]}, too, which ranks and each already say"
            )
        whole = dict(zip(dataset.axes, dataset.shape, strict=True))
        parts = asked.parts({**whole, **case.shape}, count)
        sizes = {
            axis: (asked.elements(axis) or 0) * number or case.shape.get(axis) or whole[axis]
            for axis, number in parts.items()
        }
        for axis, number in parts.items():
            if not number <= sizes[axis] <= whole[axis]:
                raise ValueError(
                    f"subvolumes: {count} ranks cannot hold {sizes[axis]} along {axis} in {number} parts; it "
                    f"has {whole[axis]}"
                )
        for way in asked.ways:
            one = asked.model_copy(update={"ways": [way], "along": parts})
            yield way, WAY_NAMES[way], {"shape": {**case.shape, **sizes}, "subvolumes": one}

    def resolve(self, case: Case, shape: Shape) -> dict[str, Any]:
        """Return the way in which ranks write, and what they share."""
        assert case.subvolumes is not None and case.ranks
        asked = case.subvolumes
        described = {
            "way": asked.ways[0],
            # Each axis that is cut, and into how many parts.
            "along": asked.along,
            "aggregators": asked.aggregators,
            "files_each": asked.files_each,
        }
        return {"states": ["write"], "subvolumes": described, "by": RANKS, "workers": case.ranks[0]}

    def check(self, case: Case, resolved: Resolved, dataset: Dataset, layout: Layout) -> None:
        """Raise CaseMistake where ranks cannot write a layout together."""
        asked = resolved["subvolumes"]
        if reason := layout.sub_volumes_mistake(asked["way"], list(asked["along"])):
            raise CaseMistake("layouts", reason)
        # The format's library opens no file for all ranks: they write the bytes themselves.
        Kind.check(self, case, resolved, dataset, layout)

    def figures(self, name: str, case: Resolved, gridded: bool) -> list[str]:
        """Return the figure of a family whose ranks write level by level."""
        return [f"each_level-{case['family']}"] if case["subvolumes"]["way"] in LEVEL_BY_LEVEL else []

    def way(self, case: Resolved) -> str:
        """Return the way in words."""
        return WAY_NAMES[case["subvolumes"]["way"]]
