"""Mean and variance of the planes of a box, in parts: how it is split, read in pieces, and merged again."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from hyperslab.data.selections import Box, inverse_of
from hyperslab.data.tiles import split
from hyperslab.layouts import chunks as arithmetic

Floats = npt.NDArray[np.float64]
# What one read brings in, and what is converted to float64 at once so that it stays in the processor's cache.
PIECE_BYTES = 16 * 2**20
STEP_ELEMENTS = 2**16
# So many pieces beyond the one that is read the kernel is told of.
AHEAD = 2
# Relative to a plane's root mean square: far above rounding, far below one changed unit in 10^9 values.
TOLERANCE = 1e-12


class Readable(Protocol):
    """What a reduction needs of an open array."""

    def read(self, box: Box) -> npt.NDArray[Any]:
        """Return the elements of `box`."""


@runtime_checkable
class ReadsAhead(Protocol):
    """What an open array offers of which the kernel can be told what will be read next."""

    def ahead(self, box: Box) -> None:
        """Have the kernel begin to read `box`, as far as it is known where that lies; returns at once."""


@dataclass(frozen=True)
class Moments:
    """Number of values, mean, and sum of squared deviations from it (M2), each an array over planes."""

    count: Floats
    mean: Floats
    m2: Floats

    # How many arrays over planes there are.
    ROWS: ClassVar[int] = 3

    @classmethod
    def zeros(cls, planes: int) -> Moments:
        """Return the moments of nothing yet."""
        return cls(np.zeros(planes), np.zeros(planes), np.zeros(planes))

    def of(self, table: Sequence[Floats]) -> Self:
        """Return what lives in a table of `ROWS` arrays over planes, otherwise like these."""
        return replace(self, count=table[0], mean=table[1], m2=table[2])

    def like(self, planes: int) -> Self:
        """Return what is found of nothing yet, of so many planes, otherwise like these."""
        found = self.of([np.zeros(planes) for _ in self.table])
        found.clear()
        return found

    @property
    def table(self) -> list[Floats]:
        """The arrays, in the order of a table."""
        return [self.count, self.mean, self.m2]

    def clear(self) -> None:
        """Make these the moments of nothing."""
        for values in self.table:
            values[:] = 0

    def planes(self, first: int, count: int) -> Self:
        """Return the views of `count` planes from `first` on."""
        return self.of([values[first : first + count] for values in self.table])

    def add(self, block: npt.NDArray[Any], axis: int) -> None:
        """Add the values of a block whose planes lie along `axis`; two passes over each piece (stable)."""
        planes = block.shape[axis]
        values = np.moveaxis(block, axis, -1).reshape(-1, planes)
        step = max(1, STEP_ELEMENTS // planes)
        for row in range(0, len(values), step):
            part = values[row : row + step].astype(np.float64)
            mean = part.mean(axis=0)
            part -= mean
            m2 = np.einsum("ij,ij->j", part, part)
            self.merge(Moments(np.full(planes, float(len(part))), mean, m2))

    def merge(self, other: Moments) -> None:
        """Add `other`, in place (Chan, Golub, LeVeque 1979, "Updating formulae", equation 2.1)."""
        total = self.count + other.count
        share = np.divide(other.count, total, out=np.zeros_like(total), where=total > 0)
        delta = other.mean - self.mean
        self.m2[:] += other.m2 + delta * delta * self.count * share
        self.mean[:] += delta * share
        self.count[:] = total

    def exact(self, block: npt.NDArray[Any], axis: int) -> None:
        """Make these the truth of a block whose planes lie along `axis`."""
        self.add(block, axis)

    def differing(self, truth: Self) -> npt.NDArray[np.intp]:
        """Return the planes whose number, mean or M2 is not the truth within rounding (`TOLERANCE`); what is
        not finite equals what is not.
        """
        rms = np.sqrt(truth.mean**2 + truth.variance)
        deviation = np.sqrt(truth.variance)
        slack = truth.count * (TOLERANCE * rms * deviation + (TOLERANCE * rms) ** 2)
        same = (
            (self.count == truth.count)
            & _close(self.mean, truth.mean, TOLERANCE * rms)
            & _close(self.m2, truth.m2, slack)
        )
        return np.flatnonzero(~same)

    @property
    def variance(self) -> Floats:
        """Mean squared deviation (numpy.var) of each plane."""
        with np.errstate(invalid="ignore"):
            return self.m2 / self.count


def whole(planes: Moments) -> tuple[float, float, float]:
    """Return (number, mean, M2) of all planes together."""
    count = float(planes.count.sum())
    mean = float((planes.count * planes.mean).sum() / count) if count else math.nan
    m2 = float(planes.m2.sum() + (planes.count * (planes.mean - mean) ** 2).sum())
    return count, mean, m2


def merged(parts: Iterable[Moments], planes: int) -> tuple[Moments, float]:
    """Return what the workers found, merged plane by plane, and the variance of the whole selection."""
    total: Moments | None = None
    for part in parts:
        if total is None:
            total = part.like(planes)
        total.merge(part)
    assert total is not None
    count, _, m2 = whole(total)
    return total, m2 / count if count else math.nan


def part_of(box: Box, axis: int, index: int, parts: int) -> Box:
    """Return the part of a box that worker `index` of `parts` reduces: its share of `axis`."""
    start, length = split(box.extent[axis], parts)[index]
    origin, extent = list(box.origin), list(box.extent)
    origin[axis] += start
    extent[axis] = length
    return Box(tuple(origin), tuple(extent))


def pieces(
    box: Box, chunk: Sequence[int] | None, order: Sequence[int], itemsize: int, limit: int = PIECE_BYTES
) -> list[Box]:
    """Return the box in pieces of at most `limit` bytes (one chunk's extent, where that is more),
    in disk order.

    `chunk` in array terms (None: contiguous), `order` are the array's axes as on disk. Cuts lie on chunk
    boundaries, so no chunk belongs to two pieces, and along the slowest axes first, as the data lie.
    """
    grid = list(chunk) if chunk else [1] * len(box.extent)
    step = list(box.extent)
    for axis in order:
        if math.prod(step) * itemsize <= limit:
            break
        one = math.prod(step) // step[axis] * grid[axis] * itemsize
        step[axis] = min(step[axis], max(1, limit // one) * grid[axis])
    cuts = []
    for axis in order:
        start, end = box.origin[axis], box.origin[axis] + box.extent[axis]
        first = start // grid[axis] * grid[axis] + step[axis]
        inner = range(first, end, step[axis]) if step[axis] < box.extent[axis] else range(0)
        cuts.append(list(itertools.pairwise([start, *inner, end])))
    place = inverse_of(order)
    found = []
    for combination in itertools.product(*cuts):
        spans = [combination[position] for position in place]
        found.append(Box(tuple(a for a, _ in spans), tuple(b - a for a, b in spans)))
    return found


def cut_at(box: Box, axis: int, borders: Sequence[int]) -> list[Box]:
    """Return a box in parts, cut before each of the `borders` along an axis that lie inside."""
    start, end = box.origin[axis], box.origin[axis] + box.extent[axis]
    inner = borders[bisect_right(borders, start) : bisect_left(borders, end)]
    found = []
    for first, stop in itertools.pairwise([start, *inner, end]):
        origin, extent = list(box.origin), list(box.extent)
        origin[axis], extent[axis] = first, stop - first
        found.append(Box(tuple(origin), tuple(extent)))
    return found


def moved(box: Box, axis: int, by: int) -> Box:
    """Return a box that begins further on along an axis."""
    origin = list(box.origin)
    origin[axis] += by
    return Box(tuple(origin), box.extent)


def by_file(box: Box, axis: int, borders: Sequence[int]) -> Iterator[tuple[Box, int]]:
    """Yield the part of a box in each file, and the index along the axis with which that file begins."""
    for part in cut_at(box, axis, borders):
        position = bisect_right(borders, part.origin[axis])
        yield part, borders[position - 1] if position else 0


def reduce_pieces(
    opened: Readable, parts: Sequence[Box], axis: int, first: int, into: Moments, ahead: bool = False
) -> None:
    """Read the pieces one after another and add each to its planes; plane `first` is the first of `into`.

    `ahead`: while one is read and added, the kernel already reads those behind it, where that can be had.
    """
    told = opened.ahead if ahead and isinstance(opened, ReadsAhead) else None
    for number, piece in enumerate(parts):
        if told is not None:
            # The first one, too: a piece is more than the kernel reads ahead by itself.
            for later in parts[number + AHEAD if number else 0 : number + AHEAD + 1]:
                told(later)
        block = opened.read(piece)
        into.planes(piece.origin[axis] - first, piece.extent[axis]).add(block, axis)


def chunks_shared(
    box: Box,
    chunk: Sequence[int] | None,
    axis: int,
    parts: int,
    borders: tuple[int, Sequence[int]] = (0, ()),
) -> int:
    """Return the chunks of which more than one worker reads elements when `axis` is split;
    0 where there are none.

    `borders`: an axis, and the indices along it with which files begin, and in each the chunks anew.
    """
    return sum(
        _shared(moved(part, borders[0], -first), box, chunk, axis, parts, first if axis == borders[0] else 0)
        for part, first in by_file(box, *borders)
        if chunk
    )


def _shared(inside: Box, box: Box, chunk: Sequence[int], axis: int, parts: int, first: int) -> int:
    """Return the same of a box's part in one file, `inside` that; along `axis` the file begins at `first`."""
    low, high = inside.origin[axis], inside.origin[axis] + inside.extent[axis]
    readers: Counter[int] = Counter()
    for index in range(parts):
        mine = part_of(box, axis, index, parts)
        start = max(low, mine.origin[axis] - first)
        stop = min(high, mine.origin[axis] - first + mine.extent[axis])
        if start < stop:
            readers.update(range(start // chunk[axis], (stop - 1) // chunk[axis] + 1))
    touched = arithmetic.touched_per_axis(inside.origin, inside.extent, chunk)
    others = math.prod(len(part) for number, part in enumerate(touched) if number != axis)
    return others * sum(count > 1 for count in readers.values())


def whole_differs(variance: float, truth: Moments) -> bool:
    """Return whether the variance of all planes together is not the truth within the same rounding."""
    count, mean, m2 = (np.array([value]) for value in whole(truth))
    found = Moments(count, mean, variance * count)
    return len(found.differing(Moments(count, mean, m2))) > 0


def _close(found: Floats, truth: Floats, slack: Floats) -> npt.NDArray[np.bool_]:
    # With infinite values, which of these a mean becomes depends on the pieces in which they were added.
    both: npt.NDArray[np.bool_] = (~np.isfinite(found) & ~np.isfinite(truth)) | (found == truth)
    return both | (np.abs(found - truth) <= slack)
