"""Small boxes that continue each other, gathered to large ones before they are written.

Each box costs work by level, however small it is. So the second of two boxes that continue each other begins
a slab: as many whole rows of boxes, in the direction in which they come, as may wait. Boxes are copied to
their places in it, and it is written when it is full.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.layouts.idx_files import Place

Block = npt.NDArray[Any]
Shape = Sequence[int]
# A box of so many bytes is written as it is; smaller ones are gathered in slabs of at most so many bytes.
LARGE_BYTES, SLAB_BYTES = 8 * 2**20, 64 * 2**20
# Slabs of several fields or time steps may wait at once, of so many bytes together.
WAITING_BYTES = 2 * SLAB_BYTES


@dataclass
class Part:
    """A box: where it begins, and its extents."""

    origin: tuple[int, ...]
    extent: tuple[int, ...]

    def continued_by(self, other: Part) -> int | None:
        """Return the axis along which another box continues this one, None where it does not."""
        for axis in range(len(self.origin)):
            moved = list(self.origin)
            moved[axis] += self.extent[axis]
            same = all(
                a == b for n, (a, b) in enumerate(zip(self.extent, other.extent, strict=True)) if n != axis
            )
            if same and tuple(moved) == other.origin:
                return axis
        return None

    def joined_with(self, other: Part, axis: int) -> Part:
        """Return the box of this one and of one that continues it."""
        extent = list(self.extent)
        extent[axis] += other.extent[axis]
        return Part(self.origin, tuple(extent))

    def holds(self, other: Part) -> bool:
        """Return whether another box lies in this one."""
        return all(
            low <= start and start + width <= low + size
            for low, size, start, width in zip(
                self.origin, self.extent, other.origin, other.extent, strict=True
            )
        )

    def meets(self, other: Part) -> bool:
        """Return whether another box has elements of this one."""
        return all(
            start < low + size and low < start + width
            for low, size, start, width in zip(
                self.origin, self.extent, other.origin, other.extent, strict=True
            )
        )

    def within(self, origin: Shape) -> tuple[slice, ...]:
        """Return where the box lies in an array that begins at `origin`."""
        return tuple(
            slice(start - low, start - low + width)
            for start, low, width in zip(self.origin, origin, self.extent, strict=True)
        )


class Slab:
    """Memory for a region of which boxes arrive one by one; `parts` are those that have, joined."""

    def __init__(self, region: Part, dtype: np.dtype[Any]) -> None:
        self.region = region
        self.values = np.empty(region.extent, dtype)
        self.parts: list[Part] = []
        self._left = self.values.size

    def takes(self, box: Part) -> bool:
        """Return whether a box lies in the region, and nothing of it is there yet."""
        return self.region.holds(box) and not any(part.meets(box) for part in self.parts)

    def add(self, box: Part, values: Block) -> bool:
        """Copy a box to its place; return whether everything is there now."""
        self.values[box.within(self.region.origin)] = values
        self.parts.append(box)
        # A row of boxes that is complete continues the row before it, and so on.
        while len(self.parts) > 1 and (axis := self.parts[-2].continued_by(self.parts[-1])) is not None:
            last = self.parts.pop()
            self.parts[-1] = self.parts[-1].joined_with(last, axis)
        self._left -= values.size
        return self._left == 0


class Joining:
    """Boxes of an array of `shape` on their way to `write`, which gets those of a field and time step in the
    order in which they came.
    """

    def __init__(self, write: Callable[[Place, Shape, Block], None], shape: Shape) -> None:
        self._write, self._shape = write, tuple(shape)
        self._slabs: dict[Place, Slab] = {}

    def add(self, place: Place, origin: Shape, values: Block) -> bool:
        """Take a box; return whether it went on as it is. Else its values were copied."""
        box = Part(tuple(origin), values.shape)
        slab = self._slabs.get(place)
        # What is large goes on, and so does a whole field, which nothing continues.
        if values.nbytes >= LARGE_BYTES or values.shape == self._shape:
            self._flush(place)
            self._write(place, origin, values)
            return True
        if slab is None or not slab.takes(box):
            if slab is not None and (larger := self._grown(slab, box)) is not None:
                self._slabs[place] = slab = larger
            else:
                self._flush(place)
                self._make_room(values.nbytes)
                self._slabs[place] = slab = Slab(box, values.dtype)
        if slab.add(box, values) and slab.region.extent != box.extent:
            self._flush(place)
        return False

    def _grown(self, slab: Slab, box: Part) -> Slab | None:
        """Return a slab for rows of boxes with what one of a single box has, where another continues that."""
        (first, *more) = slab.parts
        axis = None if more or first.extent != slab.region.extent else first.continued_by(box)
        if axis is None:
            return None
        fastest = [axis, *(other for other in reversed(range(len(self._shape))) if other != axis)]
        region = self._region(first, fastest, slab.values.itemsize)
        if not region.holds(box):
            return None
        self._make_room(math.prod(region.extent) * slab.values.itemsize)
        grown = Slab(region, slab.values.dtype)
        grown.add(first, slab.values)
        return grown

    def _make_room(self, size: int) -> None:
        """Write slabs, the oldest first, until another of `size` bytes may wait."""
        for place in list(self._slabs):
            if sum(slab.values.nbytes for slab in self._slabs.values()) + size <= WAITING_BYTES:
                return
            self._flush(place)

    def _region(self, first: Part, fastest: Shape, itemsize: int) -> Part:
        """Return the region of boxes like the first one that come in turn along these axes, fastest first."""
        extent = list(first.extent)
        for axis in fastest:
            rest = self._shape[axis] - first.origin[axis]
            fitting = SLAB_BYTES // (math.prod(extent) // extent[axis] * itemsize)
            boxes = max(1, fitting // first.extent[axis])
            extent[axis] = min(rest, boxes * first.extent[axis])
            if first.origin[axis] or extent[axis] < rest:
                # The next row begins elsewhere.
                break
        return Part(first.origin, tuple(extent))

    def _flush(self, place: Place) -> None:
        slab = self._slabs.pop(place, None)
        if slab is None:
            return
        for part in slab.parts:
            self._write(place, part.origin, slab.values[part.within(slab.region.origin)])

    def flush(self) -> None:
        """Write all boxes that wait."""
        for place in list(self._slabs):
            self._flush(place)
