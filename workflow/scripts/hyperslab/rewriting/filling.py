"""The values of a dataset on their way into another, box by box; several processes share them if that pays.

A process reads a box, and puts it through the filters of the new dataset, whose chunks this one then stores
in their order. Of all that is read a digest stays, with which the new file is compared when it is read back.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from operator import add
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash
from h5py import h5d

from hyperslab.data.selections import Box
from hyperslab.formats.hdf5.encoding import encoded
from hyperslab.measuring.processors import processors
from hyperslab.rewriting.elements import PlainReader, write_plain
from hyperslab.rewriting.forks import in_order
from hyperslab.rewriting.pieces import Pieces, shared
from hyperslab.rewriting.storage import StoredChunks, chunk_of

# First element, filter mask and bytes of a chunk.
Chunk = tuple[tuple[int, ...], int, bytes]


@dataclass(frozen=True)
class Digests:
    """What was read of a dataset: of the boxes of `pieces`, by number, in which something was stored."""

    pieces: Pieces
    values: dict[int, bytes]


def digest(block: npt.NDArray[Any]) -> bytes:
    """Return 128 bits that two different blocks have in common by chance alone (XXH3)."""
    return xxhash.xxh3_128_digest(block.reshape(-1).view(np.uint8).data)


class Filling:
    """A dataset that is to get the values of another; `pieces` are the boxes in which it does."""

    def __init__(self, source: h5d.DatasetID, new: h5d.DatasetID, budget: int) -> None:
        """Take both, open, the new one empty; `budget` bounds the memory for values, in bytes."""
        self._new, self._unit, self._stored = new, chunk_of(new), StoredChunks(source)
        self._reader = PlainReader(source)
        # The chunks within a box of this extent, which most boxes have.
        self._extent: tuple[int, ...] | None = None
        self._within: list[Box] = []
        self._creation, self._datatype = new.get_create_plist(), new.get_type().copy()
        self._itemsize = self._datatype.get_size()
        held = self._stored.count_bytes()
        self.pieces = shared(
            new.shape, self._unit, chunk_of(source), self._itemsize, budget, held, processors()
        )
        # One process alone lets HDF5 filter while it writes.
        self._encode = self.pieces.processes > 1 and self._creation.get_nfilters() > 0
        if self._encode:
            self._creation.set_alloc_time(h5d.ALLOC_TIME_INCR)

    def run(self, advance: Callable[[int], None]) -> Digests:
        """Copy every element; where no chunk of the source exists, none is made.

        Calls `advance` with the bytes of each box. Raises ChildProcessError where a process that shares the
        work fails, else what HDF5 raises.
        """
        boxes, digests = list(self.pieces.boxes(self._new.shape)), dict[int, bytes]()
        some = [number for number, box in enumerate(boxes) if self._stored.any(box)]
        made = in_order(lambda n: self._made(boxes[some[n]]), len(some), self.pieces.processes)
        with closing(made) as results:
            for number, box in enumerate(boxes):
                if self._stored.any(box):
                    digests[number], content = next(results)
                    self._store(box, content)
                advance(math.prod(box.extent) * self._itemsize)
        return Digests(self.pieces, digests)

    def _made(self, box: Box) -> tuple[bytes, list[Chunk] | npt.NDArray[Any]]:
        """Return the digest of a box of the source, and its chunks as they are to be stored or its values."""
        block = self._reader.read(box)
        return digest(block), self._encoded(box, block) if self._encode else block

    def _store(self, box: Box, content: list[Chunk] | npt.NDArray[Any]) -> None:
        """Store what was made of a box."""
        if isinstance(content, list):
            for place, mask, chunk in content:
                self._new.write_direct_chunk(place, chunk, mask)
        elif self._stored.all(box):
            write_plain(self._new, box, content)
        else:
            for part, place in self._parts(box):
                write_plain(self._new, Box(place, part.extent), content[part.slices()])

    def _encoded(self, box: Box, block: npt.NDArray[Any]) -> list[Chunk]:
        parts = self._parts(box)
        within = (part.origin for part, _ in parts)
        chunks = encoded(block, self._creation, self._datatype, within, self._datatype)
        return [(place, *chunk) for (_, place), chunk in zip(parts, chunks, strict=True)]

    def _parts(self, box: Box) -> list[tuple[Box, tuple[int, ...]]]:
        """Return the chunks within a box for which the source has values, each with its place in all."""
        if self._extent != box.extent:
            self._extent = box.extent
            self._within = list(Pieces(self._unit or box.extent, 1.0).boxes(box.extent))
        places = (tuple(map(add, box.origin, part.origin)) for part in self._within)
        parts = list(zip(self._within, places, strict=True))
        if self._stored.all(box):
            return parts
        return [(part, place) for part, place in parts if self._stored.any(Box(place, part.extent))]
