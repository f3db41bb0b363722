"""The same bytes in no order: the limit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.data.selections import Box
from hyperslab.data.tiles import tiles
from hyperslab.formats.idx.parallel.division import PIECE_BYTES
from hyperslab.formats.idx.parallel.ways import PART_BYTES, Block, Way, write_at
from hyperslab.measuring.pagecache import begin_writeback


class Plain(Way):
    """Each rank in one contiguous piece of one file, through MPI-IO, as IOR does by default."""

    def create(self) -> None:
        """Open the file together."""
        mode = self.mpi.MODE_CREATE | self.mpi.MODE_WRONLY
        self._file = self.mpi.File.Open(self.comm, self.job.path, mode)
        self.opened[self.job.path] += 1

    def write(self) -> None:
        for field, values in enumerate(self.job.values):
            content = values.reshape(-1).view(np.uint8)
            self.write_piece(self._first(field) * self.job.files.itemsize, content)

    def _first(self, field: int) -> int:
        """Return how many samples lie before this rank's piece of a field."""
        sizes = [int(np.prod(box.extent)) for box in self.job.boxes]
        return field * sum(sizes) + sum(sizes[: self.rank])

    def write_piece(self, offset: int, content: npt.NDArray[np.uint8]) -> None:
        """Write bytes at their place."""
        self.timed("file_writes", partial(write_at, self._file, offset, content, self.mpi.BYTE))

    def close_files(self) -> None:
        """Close the file."""
        self._file.Close()

    def finish(self) -> None:
        """Do nothing: the file is all there is."""

    def described(self) -> dict[str, Any]:
        """Return the size of the file."""
        size = os.stat(self.job.path).st_size
        settings = {"dataset_layout": "one contiguous piece a rank"}
        return {"file_bytes": size, "data_bytes": size, "remainder_bytes": 0, "settings": settings}

    def read_back(self) -> Iterator[tuple[int, Box, Block]]:
        """Yield the field, the box in disk order and the samples of parts that make up the sub-volume."""
        extent, itemsize = self.box.extent, self.job.files.itemsize
        for field in range(self.job.files.fields):
            at = self._first(field)
            # They lie behind each other.
            for part in tiles(extent, [1] * len(extent), itemsize, PART_BYTES):
                size = int(np.prod(part.extent))
                found = np.fromfile(self.job.path, self.job.dtype, size, offset=at * itemsize)
                origin = tuple(low + start for low, start in zip(self.box.origin, part.origin, strict=True))
                yield field, Box(origin, part.extent), found
                at += size


class PlainWriteback(Plain):
    """The same a piece at a time, of which each is on its way to the device while the next is written, as
    those of aggregators are.
    """

    def create(self) -> None:
        """Open the file together, and once more, since MPI does not tell its descriptor."""
        super().create()
        self._descriptor = os.open(self.job.path, os.O_WRONLY)
        self.opened[self.job.path] += 1

    def write_piece(self, offset: int, content: npt.NDArray[np.uint8]) -> None:
        """Write bytes at their place."""
        for start in range(0, len(content), PIECE_BYTES):
            piece = content[start : start + PIECE_BYTES]
            super().write_piece(offset + start, piece)
            writeback = partial(begin_writeback, self._descriptor, offset + start, len(piece))
            self.timed("file_writes", writeback)

    def close_files(self) -> None:
        """Close the file."""
        os.close(self._descriptor)
        super().close_files()
