"""Which boxes to read and write so that memory is bounded and chunks are decoded as rarely as possible."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hyperslab.data.selections import Box
from hyperslab.layouts.chunks import chunks_per_axis

# HDF5 keeps some hundred bytes for every chunk that one call touches.
MOST_CHUNKS = 32768
# A process that shares boxes holds one, what filters make of it, and what it hands on.
COPIES = 4
# Boxes that stay in a processor's cache, unless there would be too many.
BOX_BYTES, MOST_BOXES = 4 * 2**20, 1024
# Starting processes takes longer than copying less than this.
LEAST_BYTES = 32 * 2**20


@dataclass(frozen=True)
class Pieces:
    """Boxes of equal `extent` (cut at the edge) that cover an array.

    `decoded` is how often the average chunk of the source is touched: 1 where no box cuts one. `processes`
    share the boxes.
    """

    extent: tuple[int, ...]
    decoded: float
    processes: int = 1

    def boxes(self, shape: Sequence[int]) -> Iterator[Box]:
        """Yield the boxes, in row-major order; none for an array without elements."""
        if 0 in shape:
            return
        counts = chunks_per_axis(shape, self.extent)
        for position in range(math.prod(counts)):
            origin: list[int] = []
            for axis in reversed(range(len(shape))):
                position, coordinate = divmod(position, counts[axis])
                origin.insert(0, coordinate * self.extent[axis])
            ends = (min(o + e, n) for o, e, n in zip(origin, self.extent, shape, strict=True))
            yield Box(tuple(origin), tuple(end - o for end, o in zip(ends, origin, strict=True)))


def _meetings(box: int, chunk: int, extent: int) -> int:
    """Return how many pairs of a box and a chunk overlap along an axis:
    both kinds of borders cut it into pieces.
    """
    common = math.lcm(box, chunk)
    return -(-extent // box) + -(-extent // chunk) - -(-extent // common)


def decoded(extent: Sequence[int], chunk: Sequence[int], shape: Sequence[int]) -> float:
    """Return how often boxes of `extent` touch the average chunk of an array of `shape`."""
    met = math.prod(_meetings(e, c, n) for e, c, n in zip(extent, chunk, shape, strict=True))
    return met / math.prod(chunks_per_axis(shape, chunk))


def _candidates(unit: int, chunk: int, extent: int) -> list[int]:
    """Return the multiples of `unit` worth trying along an axis: doublings,
    what fits the source's chunks, all of it.
    """
    most = -(-extent // unit)
    steps = {1, most}
    for step in (1, math.lcm(unit, chunk) // unit):
        while step < most:
            steps.add(step)
            step *= 2
    return [step * unit for step in sorted(steps)]


def plan(
    shape: Sequence[int],
    unit: Sequence[int] | None,
    chunk: Sequence[int] | None,
    itemsize: int,
    limit: int,
) -> Pieces:
    """Return the boxes of whole `unit`s (chunks to write) of at most `limit` bytes,
    kind to the chunks of the source.

    `unit` and `chunk` are None for storage without chunks. A single unit may exceed the limit: it cannot be
    written in parts. Begins with the smallest box that cuts no chunk, or where that is too large with one
    unit, and grows the axis that lets the boxes cut the fewest chunks of the source; of equal ones the last,
    for long runs in a file.
    """
    axes = range(len(shape))
    counted = [storage for storage in (unit, chunk) if storage is not None]
    unit, chunk = unit or [1] * len(shape), chunk or [1] * len(shape)
    extent = list(unit)
    if 0 in shape or not shape:
        return Pieces(tuple(extent), 1.0)
    choices = [_candidates(unit[axis], chunk[axis], shape[axis]) for axis in axes]

    def fits(candidate: Sequence[int]) -> bool:
        cut = [min(e, n) for e, n in zip(candidate, shape, strict=True)]
        # A box that begins inside a chunk may touch one more along an axis.
        touched = [math.prod(-(-e // c) + 1 for e, c in zip(cut, by, strict=True)) for by in counted]
        return math.prod(cut) * itemsize <= limit and max(touched, default=0) <= MOST_CHUNKS

    # Along an axis that is not longer than a chunk of the source, all units.
    whole = [-(-n // u) * u if c >= n else math.lcm(u, c) for u, c, n in zip(unit, chunk, shape, strict=True)]
    if fits(whole):
        extent = whole
    while True:
        found = []
        for axis in axes:
            # The most that memory allows, too.
            others = math.prod(
                min(e, n) for a, (e, n) in enumerate(zip(extent, shape, strict=True)) if a != axis
            )
            most = limit // (itemsize * others) // unit[axis] * unit[axis]
            for size in [*choices[axis], *([most] if most < choices[axis][-1] else [])]:
                candidate = [*extent[:axis], size, *extent[axis + 1 :]]
                if size > extent[axis] and fits(candidate):
                    found.append((decoded(candidate, chunk, shape), -axis, -size, candidate))
        best = min(found, default=None)
        if best is None or best[0] > decoded(extent, chunk, shape):
            return Pieces(tuple(extent), decoded(extent, chunk, shape))
        extent = best[3]


def pays(held: int) -> bool:
    """Return whether so many bytes may be shared by processes; how many there are is not asked for less."""
    return held >= LEAST_BYTES


def shared(
    shape: Sequence[int],
    unit: Sequence[int] | None,
    chunk: Sequence[int] | None,
    itemsize: int,
    budget: int,
    held: int,
    processors: int,
) -> Pieces:
    """Return boxes as `plan` does, and how many processes share them, so that the work ends soonest.

    Every box is encoded once, and every chunk of the source decoded as often as boxes touch it, by processes
    of which more have less memory each: of a `budget` in bytes. Boxes of one process have half of it. `held`
    are the bytes that the source really has. Of equal ones those win that leave the new chunks in row-major
    order, then the smaller.
    """
    alone = plan(shape, unit, chunk, itemsize, budget // 2)
    if not pays(held):
        return alone
    found = [alone]
    for processes in range(2, processors + 1):
        most = budget // (COPIES * (processes + 1))
        limit = max(BOX_BYTES, math.prod(shape) * itemsize // MOST_BOXES)
        while True:
            limit = min(limit, most)
            pieces = plan(shape, unit, chunk, itemsize, limit)
            box = math.prod(min(e, n) for e, n in zip(pieces.extent, shape, strict=True)) * itemsize
            if box <= limit:
                found.append(replace(pieces, processes=processes))
            if limit == most:
                break
            limit *= 2

    def cost(pieces: Pieces) -> tuple[float, bool]:
        boxes = math.prod(chunks_per_axis(shape, pieces.extent))
        shares = max(1, min(pieces.processes, boxes))
        return (pieces.decoded + 1) / shares, not _in_rows(pieces.extent, unit, shape)

    return min(found, key=cost)


def _in_rows(extent: Sequence[int], unit: Sequence[int] | None, shape: Sequence[int]) -> bool:
    """Return whether boxes one after the other have their chunks in row-major order."""
    several = [e > u for e, u in zip(extent, unit or [1] * len(shape), strict=True)]
    first = several.index(True) if True in several else len(shape) - 1
    return all(e >= n for e, n in zip(extent[first + 1 :], shape[first + 1 :], strict=True))
