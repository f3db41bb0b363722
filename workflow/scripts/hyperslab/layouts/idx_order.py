"""HZ order: levels of resolution and blocks of an IDX dataset as regular lattices of samples.

Coordinates, steps and extents are those of an array as it lies on disk, slowest axis first; IDX counts its
axes from the fastest one. Formula: Pascucci and Frank, UCRL-JC-140581 (2001).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Shape = Sequence[int]
Integers = npt.NDArray[np.int64]
Whole = TypeVar("Whole", int, npt.NDArray[np.int64])
# Addresses are kept in 64 bits with a sign, and block numbers are shifted by a bit.
MOST_BITS = 62
# So many splits may a bitmask have beyond those that an array needs: what is looped over doubles with each.
SPARE_BITS = 16
# OpenVisus has points of so many coordinates (Visus/Point.h).
MOST_AXES = 5


@dataclass(frozen=True)
class Lattice:
    """Samples at regular steps: those at `origin` + number x `step`, `counts` of them along each axis."""

    origin: tuple[int, ...]
    step: tuple[int, ...]
    counts: tuple[int, ...]

    def within(self, origin: Shape, extent: Shape) -> tuple[slice, ...] | None:
        """Return the numbers of the samples that lie in a box, per axis; None where there is none."""
        found = []
        for start, step, count, low, width in zip(
            self.origin, self.step, self.counts, origin, extent, strict=True
        ):
            first = max(0, -((start - low) // step))
            last = min(count, (low + width - 1 - start) // step + 1)
            if first >= last:
                return None
            found.append(slice(first, last))
        return tuple(found)

    def indices(self, numbers: Sequence[slice], origin: Shape, divided_by: Shape) -> tuple[slice, ...]:
        """Return where samples of these numbers lie in an array of every `divided_by`-th sample from
        `origin`.
        """
        found = []
        for start, step, number, low, divisor in zip(
            self.origin, self.step, numbers, origin, divided_by, strict=True
        ):
            first, by = (start + number.start * step - low) // divisor, step // divisor
            found.append(slice(first, first + (number.stop - number.start - 1) * by + 1, by))
        return tuple(found)


class Bitmask:
    """The order in which the axes of an array of `dims` axes are split in halves, coarsest split first."""

    def __init__(self, text: str, dims: int) -> None:
        self.text, self.dims = text, dims
        # The axis of each digit, numbered as the array has them.
        self.axes = tuple(dims - 1 - int(digit) for digit in text[1:])

    @classmethod
    def of(cls, axes: Sequence[int], dims: int) -> Bitmask:
        """Return the bitmask that splits these axes, numbered as an array has them, in this order."""
        return cls("V" + "".join(str(dims - 1 - axis) for axis in axes), dims)

    @property
    def bits(self) -> int:
        """The number of splits, which is that of the finest level."""
        return len(self.axes)

    def counts(self, first: int, last: int) -> tuple[int, ...]:
        """Return the parts per axis into which the digits `first` … `last` - 1 split."""
        part = self.axes[first:last]
        return tuple(1 << part.count(axis) for axis in range(self.dims))

    @cached_property
    def extents(self) -> tuple[int, ...]:
        """Elements per axis, powers of two."""
        return self.counts(0, self.bits)

    def steps(self, level: int) -> tuple[int, ...]:
        """Return the distance, in elements per axis, between samples of the levels from 0 to `level`."""
        return self.counts(level, self.bits)

    def level_of_steps(self, steps: Shape) -> int:
        """Return the lowest level up to which the levels hold every sample at multiples of `steps`."""
        for level in range(self.bits + 1):
            if all(own <= asked for own, asked in zip(self.steps(level), steps, strict=True)):
                return level
        return self.bits

    def level(self, number: int) -> Lattice:
        """Return the samples of a level, without those of coarser ones; level 0 has the first sample."""
        if number == 0:
            return Lattice((0,) * self.dims, self.extents, (1,) * self.dims)
        split, fine = self.axes[number - 1], self.steps(number)
        origin = tuple(fine[axis] if axis == split else 0 for axis in range(self.dims))
        return Lattice(origin, self.steps(number - 1), self.counts(0, number - 1))

    def split_into(self, first: int, last: int, numbers: Whole) -> list[Whole]:
        """Return the coordinates, per axis, of numbers whose bits are the digits `first` … `last` - 1.

        One number, as Python has it, is taken apart faster than an array of it.
        """
        found = [numbers * 0 for _ in range(self.dims)]
        taken = [0] * self.dims
        for position, axis in enumerate(reversed(self.axes[first:last])):
            found[axis] = found[axis] | (numbers >> position & 1) << taken[axis]
            taken[axis] += 1
        return found

    def joined(self, first: int, last: int, coordinates: Sequence[Integers]) -> list[Integers]:
        """Return what each axis' coordinates contribute to the number that `split_into` takes apart."""
        found = [np.zeros_like(along) for along in coordinates]
        taken = [0] * self.dims
        for position, axis in enumerate(reversed(self.axes[first:last])):
            found[axis] |= (coordinates[axis] >> taken[axis] & 1) << position
            taken[axis] += 1
        return found


class Blocks:
    """The blocks of an IDX dataset: 2^`bits_per_block` samples each, in HZ order.

    Block 0 holds the levels from 0 to `bits_per_block`; every other one lies in a level.
    """

    def __init__(self, bitmask: Bitmask, bits_per_block: int) -> None:
        self.bitmask, self.bits = bitmask, bits_per_block
        self._levels: dict[int, Lattice] = {}
        self._counts: dict[int, tuple[int, ...]] = {}

    @property
    def samples(self) -> int:
        """Samples of a block, those outside the array included."""
        return 1 << self.bits

    @property
    def count(self) -> int:
        """Blocks of an array of the bitmask's extents."""
        return 1 << self.bitmask.bits - self.bits

    def level_of(self, block: int) -> int:
        """Return the level of a block's samples, the finest one of block 0."""
        return self.bits + block.bit_length()

    def _digits(self, level: int) -> tuple[int, int]:
        """Return which digits of the bitmask number the samples within a block of a level."""
        return (0, self.bits) if level == self.bits else (level - 1 - self.bits, level - 1)

    def split_axes(self, level: int) -> tuple[int, ...]:
        """Return the axes along which a block of a level is split, coarsest split first."""
        first, last = self._digits(level)
        return self.bitmask.axes[first:last]

    def counts(self, level: int) -> tuple[int, ...]:
        """Return the samples of a block of a level, per axis."""
        if level not in self._counts:
            self._counts[level] = self.bitmask.counts(*self._digits(level))
        return self._counts[level]

    def whole_level(self, level: int) -> Lattice:
        """Return the samples of all blocks of a level; those of block 0 where `level` is the finest of it."""
        if level not in self._levels:
            first = Lattice((0,) * self.bitmask.dims, self.bitmask.steps(level), self.counts(level))
            self._levels[level] = first if level == self.bits else self.bitmask.level(level)
        return self._levels[level]

    def levels(self, finest: int) -> range:
        """Return the levels whose blocks hold all samples up to level `finest`; the first is block 0."""
        return range(self.bits, max(finest, self.bits) + 1)

    def lattice(self, block: int) -> Lattice:
        """Return the samples of a block."""
        level = self.level_of(block)
        whole, counts = self.whole_level(level), self.counts(level)
        number = block - (1 << block.bit_length() - 1) if block else 0
        places = self.bitmask.split_into(0, max(0, level - 1 - self.bits), number)
        origin = (
            start + place * count * step
            for start, place, count, step in zip(whole.origin, places, counts, whole.step, strict=True)
        )
        return Lattice(tuple(origin), whole.step, counts)

    def of_level(self, level: int, origin: Shape, extent: Shape) -> Integers:
        """Return the numbers of the blocks of a level that have samples in a box, ascending."""
        inside = self.whole_level(level).within(origin, extent)
        if inside is None:
            return np.zeros(0, np.int64)
        if level == self.bits:
            return np.zeros(1, np.int64)
        counts, digits = self.counts(level), level - 1 - self.bits
        axes = [
            np.arange(part.start // count, (part.stop - 1) // count + 1, dtype=np.int64)
            for part, count in zip(inside, counts, strict=True)
        ]
        numbers = np.zeros(1, np.int64)
        for along in self.bitmask.joined(0, digits, axes):
            numbers = np.add.outer(numbers, along).reshape(-1)
        return np.sort(numbers) + (1 << digits)

    def touched(self, origin: Shape, extent: Shape, finest: int | None = None) -> Integers:
        """Return the numbers of the blocks that a box touches up to a level, ascending."""
        last = self.bitmask.bits if finest is None else finest
        return np.concatenate([self.of_level(level, origin, extent) for level in self.levels(last)])

    def count_touched(self, origin: Shape, extent: Shape, finest: int | None = None) -> int:
        """Return how many blocks a box touches up to a level, without listing them: there may be millions."""
        found = 0
        for level in self.levels(self.bitmask.bits if finest is None else finest):
            if inside := self.whole_level(level).within(origin, extent):
                sides = zip(inside, self.counts(level), strict=True)
                found += math.prod((p.stop - 1) // count - p.start // count + 1 for p, count in sides)
        return found

    def order(self, level: int) -> npt.NDArray[np.intp]:
        """Return for each sample of a block of a level, in HZ order, its row-major number in the block."""
        return _order(self.split_axes(level), self.bitmask.dims, level == self.bits)

    def inverse(self, level: int) -> npt.NDArray[np.intp]:
        """Return for each sample of a block of a level, row-major, its number in HZ order."""
        return _inverse(self.split_axes(level), self.bitmask.dims, level == self.bits)


@lru_cache(64)
def _order(axes: tuple[int, ...], dims: int, of_levels: bool) -> npt.NDArray[np.intp]:
    """Return the row-major numbers of the samples of a block that is split along `axes`, in Z order; of block
    0, which holds several levels, in HZ order.
    """
    bitmask, bits = Bitmask.of(axes, dims), len(axes)
    numbers = np.arange(1 << bits, dtype=np.int64)
    if of_levels:
        # HZ address h of level l is sample number h - 2^(l-1) of that level.
        levels = bit_lengths(numbers)
        numbers = np.where(numbers == 0, 0, (2 * numbers - (1 << levels) + 1) << bits - levels)
    return np.ravel_multi_index(bitmask.split_into(0, bits, numbers), bitmask.extents)


@lru_cache(64)
def _inverse(axes: tuple[int, ...], dims: int, of_levels: bool) -> npt.NDArray[np.intp]:
    """Return the number in HZ order of each sample of a block, row-major."""
    return np.argsort(_order(axes, dims, of_levels))


def guessed_bitmask(shape: Shape) -> str:
    """Return the bitmask that OpenVisus guesses: axes in turn while they have parts left, then the rest."""
    left = [(extent - 1).bit_length() for extent in reversed(shape)]
    digits = []
    while any(left):
        for axis, bits in enumerate(left):
            if bits:
                digits.append(str(axis))
                left[axis] -= 1
    return "V" + "".join(digits)


def regular_bitmask(shape: Shape) -> str:
    """Return the bitmask whose finest splits take the axes in turn, so that levels are coarser along all.

    OpenVisus makes it where it is asked to be regular as soon as possible.
    """
    left = [(extent - 1).bit_length() for extent in reversed(shape)]
    digits = []
    while any(left):
        for axis in reversed(range(len(left))):
            if left[axis]:
                digits.append(str(axis))
                left[axis] -= 1
    return "V" + "".join(reversed(digits))


def bitmask_mistake(text: str, shape: Shape) -> str | None:
    """Return why a bitmask does not fit an array of this shape, or None."""
    dims = len(shape)
    if not re.fullmatch(r"V[0-9]*", text):
        return f"{text!r} should be V and the number of an axis for each split, such as V012012"
    if wrong := [digit for digit in text[1:] if int(digit) >= dims]:
        return f"{text!r} names axis {wrong[0]}, and there are {dims}, from 0"
    if len(text) - 1 > MOST_BITS:
        return f"{text[:12]}… has {len(text) - 1} splits; at most {MOST_BITS} are addressed"
    needed = sum(max(extent - 1, 0).bit_length() for extent in shape)
    if len(text) - 1 > needed + SPARE_BITS:
        return f"{text[:12]}… has {len(text) - 1} splits, and the array needs {needed}; take guess"
    for axis, (size, extent) in enumerate(zip(Bitmask(text, dims).extents, shape, strict=True)):
        if size < extent:
            name = dims - 1 - axis
            return f"{text!r} covers {size} along its axis {name}, and the array has {extent}"
    return None


# The formula, bit by bit over many samples at once: the truth for tests, and the way of slow writers.


def z_addresses(bitmask: Bitmask, coordinates: Sequence[Integers]) -> Integers:
    """Return Z addresses of samples: from right to left, each digit takes the next low bit of its axis."""
    found = np.zeros(np.broadcast_shapes(*(along.shape for along in coordinates)), np.int64)
    taken = [0] * bitmask.dims
    for position, axis in enumerate(reversed(bitmask.axes)):
        found |= (coordinates[axis] >> taken[axis] & 1) << position
        taken[axis] += 1
    return found


def hz_addresses(bitmask: Bitmask, coordinates: Sequence[Integers]) -> Integers:
    """Return the HZ addresses of samples: Z with a 1 set above, shifted until a 1 has been shifted out."""
    found = z_addresses(bitmask, coordinates) | 1 << bitmask.bits
    for _ in range(bitmask.bits):
        found = np.where(found & 1, found, found >> 1)
    return found >> 1


def bit_lengths(numbers: npt.NDArray[Any]) -> Integers:
    """Return the number of bits of each number, 0 of 0; of an HZ address that is its level."""
    found = np.zeros(numbers.shape, np.int64)
    left = numbers.astype(np.int64)
    while left.any():
        found += left > 0
        left >>= 1
    return found
