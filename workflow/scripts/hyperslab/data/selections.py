"""Boxes of an array, and seeded random ones: every layout of a round answers the same questions.

The starts of random ones are spread evenly, as a Latin hypercube: of n boxes each axis has one in each of n
equal parts. So the boxes of one round are all over the array, while those of another round or study are
another draw. Where a cell may go on with more boxes than it begins with, the hypercube is sliced (Qian,
Sliced Latin Hypercube Designs, Journal of the American Statistical Association 107, 2012): each slice is a
Latin hypercube, and so are all of them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.specifications import Specification


@dataclass(frozen=True)
class Box:
    """A hyperslab in array terms: first element and extent per axis."""

    origin: tuple[int, ...]
    extent: tuple[int, ...]

    def slices(self) -> tuple[slice, ...]:
        """Return the box as an index for numpy or h5py."""
        return tuple(
            slice(start, start + width) for start, width in zip(self.origin, self.extent, strict=True)
        )

    def of(self, block: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return what is selected of the `block` that the box covers: all of it."""
        return block

    def permuted(self, order: Sequence[int]) -> Box:
        """Return the same box with its axes in `order`."""
        return Box(tuple(self.origin[axis] for axis in order), tuple(self.extent[axis] for axis in order))


def disk_order(spec: Specification) -> list[int]:
    """Return the array's axes, by position, in the order in which they lie on disk, slowest first."""
    axes = spec["dataset"]["axes"]
    return [axes.index(name) for name in spec["layout"]["order"]]


def inverse_of(order: Sequence[int]) -> list[int]:
    """Return the order that puts axes in `order` back: for each axis its place there."""
    return [order.index(axis) for axis in range(len(order))]


def generator(*parts: object) -> np.random.Generator:
    """Return a random generator that depends on `parts` alone,
    on every machine and in every Python process.
    """
    digest = hashlib.sha256("\x1f".join(str(part) for part in parts).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "little"))


def random_boxes(
    shape: Sequence[int], extent: Sequence[int], count: int, rng: np.random.Generator, slices: int = 1
) -> list[Box]:
    """Return `count` boxes of `extent`; starts are uniform in 0 … dimension - extent, both ends included.

    Along each axis every one of `count` equal parts has one start, in random order. Of several `slices`,
    which divide `count`, each run of `count / slices` boxes is spread like this by itself, too.
    """
    starts = [
        _starts(size - width + 1, count // slices, slices, rng)
        for size, width in zip(shape, extent, strict=True)
    ]
    return [Box(tuple(map(int, origin)), tuple(extent)) for origin in zip(*starts, strict=True)]


def _starts(choices: int, size: int, slices: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return `size` starts a slice, 0 … `choices` - 1, a slice behind the other."""
    # A row is a part of the axis in which each slice has one start, in a finer part of its own.
    finer = rng.permuted(np.tile(np.arange(slices), (size, 1)), axis=1)
    parts = rng.permuted(np.arange(size)[:, None] * slices + finer, axis=0).T.reshape(-1)
    position = (parts + rng.random(len(parts))) / len(parts)
    return np.minimum((position * choices).astype(np.int64), choices - 1)


def asked_boxes(spec: Specification, state: str) -> Iterator[Box]:
    """Yield the boxes of a cell in one state, for as long as they are asked for.

    Study, round and state have boxes of their own; layouts, and cases of one family, have the same. Each run
    of as many as the state has repeats, and of as many as it goes on to, is spread evenly over the array.
    """
    case, count = spec["case"], spec["repeats"][state]
    most = spec.get("most_repeats", {}).get(state, count)
    name = case.get("family", case["name"])
    rng = generator(spec["study"], spec["seed"], name, spec["round"], state)
    while True:
        yield from random_boxes(spec["dataset"]["shape"], case["extent"], most, rng, most // count)


@dataclass(frozen=True)
class Pattern(Box):
    """Blocks at regular steps inside a box: of every `step` elements the first `block`, per axis.

    A checkerboard has the same blocks once more, shifted by one block along every stepped axis; there, a step
    is two blocks. An axis that is taken whole has step and block 1. Extents are multiples of the steps, or
    blocks are single elements.
    """

    step: tuple[int, ...]
    block: tuple[int, ...]
    checkerboard: bool = False
    # It is asked for as this level of resolution, of which a layout may hold means; 0: elements of the array.
    level: int = 0

    def permuted(self, order: Sequence[int]) -> Pattern:
        """Return the same pattern with its axes in `order`."""

        def turned(values: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(values[axis] for axis in order)

        return Pattern(
            turned(self.origin), turned(self.extent), turned(self.step), turned(self.block),
            self.checkerboard, self.level,
        )  # fmt: skip

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of what is read: selected elements per axis; of a checkerboard one-dimensional."""
        axes = zip(self.extent, self.step, self.block, strict=True)
        counts = tuple(-(-extent // step) * block for extent, step, block in axes)
        return (2 * math.prod(counts),) if self.checkerboard else counts

    @property
    def single(self) -> bool:
        """Whether single elements are selected, so that an index with steps says which."""
        return not self.checkerboard and set(self.block) == {1}

    def slices(self) -> tuple[slice, ...]:
        """Return the box as an index, with the steps where single elements are selected."""
        if not self.single:
            return super().slices()
        return tuple(
            slice(start, start + width, by)
            for start, width, by in zip(self.origin, self.extent, self.step, strict=True)
        )

    def parts(self) -> list[Pattern]:
        """Return the patterns without a checkerboard that make up this one."""
        shift = [block if step > 1 else 0 for step, block in zip(self.step, self.block, strict=True)]
        shifted = tuple(start + by for start, by in zip(self.origin, shift, strict=True))
        origins = [self.origin, shifted] if self.checkerboard else [self.origin]
        return [Pattern(origin, self.extent, self.step, self.block) for origin in origins]

    def indices(self) -> list[npt.NDArray[np.int64]]:
        """Return selected indices along each axis, ascending, of a pattern without a checkerboard."""
        return [
            (start + np.arange(0, extent, step)[:, None] + np.arange(block)).reshape(-1)
            for start, extent, step, block in zip(
                self.origin, self.extent, self.step, self.block, strict=True
            )
        ]

    def mask(self) -> npt.NDArray[np.bool_]:
        """Return which elements of the box are selected."""
        chosen = np.zeros(self.extent, bool)
        for part in self.parts():
            inside = (found - start for found, start in zip(part.indices(), self.origin, strict=True))
            chosen[np.ix_(*inside)] = True
        return chosen

    def of(self, block: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return what this pattern selects of the `block` that its box covers."""
        if self.single:
            return block[tuple(slice(None, None, by) for by in self.step)]
        return block[self.mask()].reshape(self.shape)


def coarse(box: Box, steps: Sequence[int]) -> Box:
    """Return every so many elements of a box, which is moved back to multiples of the steps."""
    origin = tuple(start - start % step for start, step in zip(box.origin, steps, strict=True))
    if all(step == 1 for step in steps):
        return Box(origin, box.extent)
    return Pattern(origin, box.extent, tuple(steps), (1,) * len(origin))


def at_level(box: Box, level: int) -> Box:
    """Return every 2^level-th element of a box along each axis, from multiples of that."""
    found = coarse(box, [1 << level] * len(box.origin))
    return replace(found, level=level) if isinstance(found, Pattern) else found


def of_stored_level(box: Box, levels: int) -> tuple[int, Box]:
    """Return the nearest of so many stored levels that has what `box` asks for, and what it asks of that one.

    Level 0 is the array. Strides that are no level are taken of it, too.
    """
    if not isinstance(box, Pattern) or not (number := min(box.level, levels)):
        return 0, box
    origin = tuple(start >> number for start in box.origin)
    extent = tuple(-(-width >> number) for width in box.extent)
    return number, at_level(Box(origin, extent), box.level - number)


def steps_of(box: Box) -> tuple[int, ...]:
    """Return the distance between elements that are selected, per axis; 1 for a box of all."""
    return box.step if isinstance(box, Pattern) else (1,) * len(box.origin)
