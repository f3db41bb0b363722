"""Seeded random boxes: every layout answers the same questions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Box:
    """A hyperslab in array terms: first element and extent per axis."""

    origin: tuple[int, ...]
    extent: tuple[int, ...]

    def slices(self) -> tuple[slice, ...]:
        """The box as an index for numpy or h5py."""
        return tuple(
            slice(start, start + width) for start, width in zip(self.origin, self.extent, strict=True)
        )

    def permuted(self, order: Sequence[int]) -> Box:
        """The same box with its axes in `order`."""
        return Box(tuple(self.origin[axis] for axis in order), tuple(self.extent[axis] for axis in order))


def generator(*parts: object) -> np.random.Generator:
    """A random generator that depends on `parts` alone, on every machine and in every Python process."""
    digest = hashlib.sha256("\x1f".join(str(part) for part in parts).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "little"))


def random_boxes(
    shape: Sequence[int], extent: Sequence[int], count: int, rng: np.random.Generator
) -> list[Box]:
    """`count` boxes of `extent`; starts are uniform in 0 … dimension - extent, both ends included."""
    highest = np.asarray(shape) - np.asarray(extent)
    origins = rng.integers(0, highest, size=(count, len(shape)), endpoint=True)
    return [Box(tuple(int(start) for start in origin), tuple(extent)) for origin in origins]
