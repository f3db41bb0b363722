"""Pyramids: coarser levels of an array that are stored beside it, each half as long along every axis.

An array of one element more than an even number of them has a last element of its own at the next level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hyperslab.specifications import Specification

AVERAGING = "averaging"


@dataclass(frozen=True)
class Part:
    """An array like another (`layout.Array`), of other extents."""

    axes: list[str]
    shape: list[int]
    dtype: Any
    itemsize: int

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return math.prod(self.shape) * self.itemsize


def level_shape(shape: Sequence[int], level: int) -> list[int]:
    """Return the extents of a level: of every 2^level elements along an axis one, and one of the rest."""
    return [-(-size >> level) for size in shape]


def most_levels(shape: Sequence[int]) -> int:
    """Return the level that has one element."""
    return max((size - 1).bit_length() for size in shape)


def level_layout(described: Mapping[str, Any], shape: Sequence[int], level: int) -> dict[str, Any]:
    """Return how a level of an array of `shape` is stored: as the array, no chunk larger than the level."""
    found = {key: value for key, value in described.items() if key != "pyramid"}
    if not (level and found.get("chunks")):
        return found
    extents = level_shape(shape, level)
    found["chunks"] = [min(pair) for pair in zip(found["chunks"], extents, strict=True)]
    if "shards" in found:
        # Whole chunks, as many as there are.
        whole = [-(-size // one) * one for size, one in zip(extents, found["chunks"], strict=True)]
        axes = zip(found["shards"], described["chunks"], found["chunks"], whole, strict=True)
        found["shards"] = [min(shard // given * one, most) for shard, given, one, most in axes]
        if found["shards"] == found["chunks"]:
            del found["shards"]
    return found


def stored_levels(described: Mapping[str, Any]) -> int:
    """Return how many coarser levels a layout stores beside the array."""
    return int(described["pyramid"]["levels"]) if described.get("pyramid") else 0


def array_of(spec: Specification) -> Part:
    """Return the array of a specification."""
    dataset = spec["dataset"]
    itemsize = int(dataset["dtype"].lstrip("uintfloa")) // 8
    return Part(dataset["axes"], dataset["shape"], dataset["dtype"], itemsize)


def level_specification(spec: Specification, level: int) -> Specification:
    """Return what specifies one level by itself, 0 being the array; the same where there is no pyramid."""
    if not spec["layout"].get("pyramid"):
        return spec
    shape = spec["dataset"]["shape"]
    layout: Any = level_layout(spec["layout"], shape, level)
    return {**spec, "layout": layout, "dataset": {**spec["dataset"], "shape": level_shape(shape, level)}}
