"""Checks of selections and blocks: boxes in array terms, whole along every axis that is not named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperslab.studies.case_kinds.kind import CaseMistake, Shape
from hyperslab.validation.nearest import choices


def is_stride(asked: Any) -> bool:
    """Return whether an extent is a schema.Stride: some of the elements within an extent."""
    return not isinstance(asked, int | str)


def check_box(box: Mapping[str, Any], shape: Shape, path: str) -> None:
    """Raise CaseMistake for an axis that does not exist or an extent that does not fit."""
    for axis, asked in box.items():
        if axis not in shape:
            raise CaseMistake(f"{path}.{axis}", f"no such axis; the dataset has {choices(axis, shape)}")
        extent = asked.extent if is_stride(asked) else asked
        if isinstance(extent, int) and extent > shape[axis]:
            message = f"extent {extent} does not fit: axis {axis} has {shape[axis]}"
            raise CaseMistake(f"{path}.{axis}", message)


def check_level(level: Any, shape: Shape) -> None:
    """Raise CaseMistake for a level that an array of this shape does not have."""
    most = max((size - 1).bit_length() for size in shape.values())
    if not 0 <= level <= most:
        message = f"{level} does not exist; there are 0, which is all, to {most}, which is one element"
        raise CaseMistake("level", message)


def extent_of(selection: Mapping[str, Any], shape: Shape) -> list[int]:
    """Return the elements per axis of a selection, whole where nothing is named; of a stride, its box."""
    asked = {axis: selection.get(axis, "all") for axis in shape}
    boxes: dict[str, Any] = {axis: one.extent if is_stride(one) else one for axis, one in asked.items()}
    return [size if boxes[axis] == "all" else boxes[axis] for axis, size in shape.items()]
