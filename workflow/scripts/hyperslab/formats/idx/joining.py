"""Small boxes that continue each other, joined before they are written: each box costs work by level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.layouts.idx_files import Place

Block = npt.NDArray[Any]
# A box of so many bytes is written as it is; of smaller ones so many bytes wait to be joined.
LARGE_BYTES, WAITING_BYTES = 8 * 2**20, 128 * 2**20


@dataclass
class Joined:
    """A box and the pieces that make it up, each with its origin."""

    origin: tuple[int, ...]
    extent: tuple[int, ...]
    pieces: list[tuple[tuple[int, ...], Block]]

    def continued_by(self, other: Joined) -> int | None:
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

    def values(self) -> Block:
        """Return the values of the box."""
        if len(self.pieces) == 1:
            return self.pieces[0][1]
        found = np.empty(self.extent, self.pieces[0][1].dtype)
        for origin, piece in self.pieces:
            start = [at - low for at, low in zip(origin, self.origin, strict=True)]
            found[tuple(slice(s, s + size) for s, size in zip(start, piece.shape, strict=True))] = piece
        return found


class Joining:
    """Boxes on their way to `write`, which gets them in the order in which they came."""

    def __init__(self, write: Callable[[Place, Sequence[int], Block], None]) -> None:
        self._write = write
        self._waiting: dict[Place, list[Joined]] = {}
        self._bytes = 0

    def add(self, place: Place, origin: Sequence[int], values: Block) -> bool:
        """Take a box; return whether it went on as it is. Else its values were copied."""
        if values.nbytes >= LARGE_BYTES:
            self.flush()
            self._write(place, origin, values)
            return True
        boxes = self._waiting.setdefault(place, [])
        boxes.append(Joined(tuple(origin), values.shape, [(tuple(origin), values.copy())]))
        # A row of boxes that is complete continues the row before it, and so on.
        while len(boxes) > 1 and (axis := boxes[-2].continued_by(boxes[-1])) is not None:
            last, before = boxes.pop(), boxes[-1]
            extent = list(before.extent)
            extent[axis] += last.extent[axis]
            before.extent = tuple(extent)
            before.pieces += last.pieces
        self._bytes += values.nbytes
        if self._bytes >= WAITING_BYTES:
            self.flush()
        return False

    def flush(self) -> None:
        """Write all boxes that wait."""
        for place, boxes in self._waiting.items():
            while boxes:
                box = boxes.pop(0)
                self._write(place, box.origin, box.values())
        self._bytes = 0
