"""Cases that read: random selections of one extent, also coarser, with strides or another type in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from hyperslab.studies.case_kinds.kind import CaseMistake, Kind, Resolved, Shape
from hyperslab.studies.case_kinds.selection import check_box, check_level, extent_of, is_stride

if TYPE_CHECKING:
    from hyperslab.layouts.layout import Layout
    from hyperslab.studies.dataset_schema import Dataset
    from hyperslab.studies.schema import Case


class Read(Kind):
    """Selections that are read cold, warm and in a session."""

    name = "read"
    given = "a selection"
    options = ("pattern", "memory_dtype", "level")
    keys = ("extent", "pattern", "memory_dtype", "level")
    protocol = 4
    older_protocols: ClassVar[Mapping[int, str]] = {
        3: "selections lie anywhere, at the same places in all studies, and short ones were repeated no more "
        "often than others"
    }
    draws_boxes = True
    most_repeats: ClassVar[Mapping[str, int]] = {"cold": 45}
    of_objects = True
    reads_selections = True
    measures_error = True
    study_figures = ("counts",)

    def variants(self, name: str, case: Case, dataset: Dataset) -> Iterator[tuple[str, Case]]:
        """Yield the case, or one of each of several levels: view-level3 has every eighth element."""
        if not isinstance(case.level, list):
            yield name, case
            return
        for level in case.level:
            title = f"{case.title or name}, level {level}"
            yield f"{name}-level{level}", case.model_copy(update={"level": level, "title": title})

    def resolve(self, case: Case, shape: Shape) -> dict[str, Any]:
        """Return extent, states, strides or level, and the type in memory; raises CaseMistake."""
        assert case.read is not None
        check_box(case.read, shape, self.name)
        extent = extent_of(case.read, shape)
        resolved = {
            "extent": extent,
            "states": list(case.states),
            "pattern": _pattern(case, shape, extent),
            "memory_dtype": case.memory_dtype,
            "level": _level(case, shape),
        }
        # What is not asked for stays out of specifications, and with it out of their hashes.
        return {key: value for key, value in resolved.items() if value is not None}

    def check(self, case: Case, resolved: Resolved, dataset: Dataset, layout: Layout) -> None:
        """Raise CaseMistake where strides or a type in memory cannot be had of a layout."""
        pattern, able = resolved.get("pattern"), layout.abilities
        if resolved.get("level") and not (able.coarse_levels or able.strides):
            raise CaseMistake("level", f"{layout.title} cannot be asked for every so many elements")
        if pattern and not layout.abilities.strides:
            raise CaseMistake("read", f"{layout.title} cannot be asked for every so many elements")
        if pattern and pattern["checkerboard"] and layout.order != dataset.axes:
            message = "a checkerboard needs layouts whose order is that of the dataset's axes"
            raise CaseMistake("pattern", message)
        # Values of the file, if they are known to fit a narrower type than its own.
        stored = "uint8" if dataset.fill == "random-below-256" and not dataset.donor else dataset.dtype
        if case.memory_dtype and not _holds(case.memory_dtype, stored):
            message = f"{case.memory_dtype} does not hold every {stored}; take a wider type"
            raise CaseMistake("memory_dtype", message)
        if case.memory_dtype and not layout.abilities.memory_types:
            raise CaseMistake("memory_dtype", f"{layout.title} is read in the type that is stored")
        super().check(case, resolved, dataset, layout)

    def figures(self, name: str, case: Resolved, gridded: bool) -> list[str]:
        """Return bars, a ramp where there is a session, and a map where a grid is read cold or warm."""
        found = [f"session-{name}"]
        found += [f"ramp-{name}"] if "session" in case["states"] else []
        return found + ([f"grid-{name}"] if gridded and case["states"] != ["session"] else [])


def _level(case: Case, shape: Shape) -> int | None:
    """Return the level of a case, of which every 2^level-th element is read; raises CaseMistake."""
    if case.level is None:
        return None
    level = case.level[0] if isinstance(case.level, list) else case.level
    check_level(level, shape)
    assert case.read is not None
    if any(map(is_stride, case.read.values())):
        raise CaseMistake("level", "a selection has a level or strides, not both")
    return level


def _pattern(case: Case, shape: Shape, extent: list[int]) -> dict[str, Any] | None:
    """Return step and block of every axis where a selection has strides, else None; raises CaseMistake."""
    assert case.read is not None
    strides: dict[str, Any] = {axis: one for axis, one in case.read.items() if is_stride(one)}
    board = case.pattern == "checkerboard"
    if board and len(strides) < 2:
        raise CaseMistake("pattern", "a checkerboard needs a step and a block along at least two axes")
    if not strides:
        return None
    for axis, width in zip(shape, extent, strict=True):
        stride = strides.get(axis)
        if stride and stride.block >= stride.step:
            message = f"block should be below step ({stride.step}), or nothing would be left out"
            raise CaseMistake(f"read.{axis}", message)
        if stride and width % stride.step:
            raise CaseMistake(f"read.{axis}", f"extent {width} is not a multiple of the step, {stride.step}")
        if stride and board and stride.step != 2 * stride.block:
            raise CaseMistake(f"read.{axis}", "a checkerboard needs a step of two blocks")
    return {
        "step": [strides[axis].step if axis in strides else 1 for axis in shape],
        "block": [strides[axis].block if axis in strides else 1 for axis in shape],
        "checkerboard": board,
    }


def _holds(memory: str, stored: str) -> bool:
    """Return whether type `memory` holds every value of type `stored` exactly."""
    (kind, size), (other, other_size) = _type(stored), _type(memory)
    wider = other_size > size
    return memory == stored or (wider and (kind == other or kind == "uint" or other == "float"))


def _type(name: str) -> tuple[str, int]:
    """Return the kind of a type, such as "uint", and its bits."""
    kind = name.rstrip("0123456789")
    return kind, int(name.removeprefix(kind))
