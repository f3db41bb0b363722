"""An array cut into one sub-volume for each of several ranks: which part each holds; arithmetic alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from hyperslab.data.selections import Box
from hyperslab.data.tiles import split
from hyperslab.specifications import Specification


def boxes_of(spec: Specification) -> list[Box]:
    """Return the box of each rank of a cell, in array terms.

    Raises ValueError naming the ranks whose sub-volumes do not make up the array.
    """
    dataset, along = spec["dataset"], spec["case"]["subvolumes"]["along"]
    found = sub_volumes(dataset["shape"], [along.get(axis, 1) for axis in dataset["axes"]])
    if wrong := mistake(found, dataset["shape"]):
        raise ValueError(wrong)
    return found


def parts_along(extents: Mapping[str, int], ranks: int) -> dict[str, int]:
    """Return into how many parts each axis is cut for so many ranks: parts are as near to cubes as can be.

    Each prime factor of the number of ranks, the largest first, cuts the axis whose parts are longest.
    """
    found = dict.fromkeys(extents, 1)
    for factor in reversed(factors(ranks)):
        found[max(found, key=lambda axis: extents[axis] / found[axis])] *= factor
    return found


def factors(number: int) -> list[int]:
    """Return the prime factors of a number, ascending."""
    found, factor = [], 2
    while number > 1:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    return found


def sub_volumes(shape: Sequence[int], parts: Sequence[int]) -> list[Box]:
    """Return the box of each rank: every axis cut into so many equal parts, the last axis in turn first.

    Where an axis has fewer elements than parts some boxes are empty, which `mistake` names.
    """
    cuts = [split(size, count) for size, count in zip(shape, parts, strict=True)]
    return [
        Box(tuple(first for first, _ in place), tuple(width for _, width in place))
        for place in itertools.product(*cuts)
    ]


def mistake(boxes: Sequence[Box], shape: Sequence[int]) -> str | None:
    """Return which sub-volumes overlap, are empty or leave holes, or None: then they make up the array."""
    for number, box in enumerate(boxes):
        ends = [start + width for start, width in zip(box.origin, box.extent, strict=True)]
        if min(box.extent) < 1 or min(box.origin) < 0 or any(e > s for e, s in zip(ends, shape, strict=True)):
            return f"rank {number} holds {box.extent} at {box.origin}, outside of the array {tuple(shape)}"
        for other, before in enumerate(boxes[:number]):
            apart = any(
                start >= first + width or first >= end
                for start, end, first, width in zip(
                    box.origin, ends, before.origin, before.extent, strict=True
                )
            )
            if not apart:
                return f"ranks {other} and {number} both hold samples at {box.origin}"
    held = sum(math.prod(box.extent) for box in boxes)
    if held < math.prod(shape):
        return f"the ranks hold {held:,} samples of {math.prod(shape):,}: their sub-volumes leave holes"
    return None
