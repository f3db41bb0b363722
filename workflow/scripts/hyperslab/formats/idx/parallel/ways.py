"""What all ways have in common in which ranks write their sub-volumes of one IDX dataset."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter_ns
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.data.selections import Box, inverse_of
from hyperslab.formats.idx import inspection
from hyperslab.formats.idx.creation import create_file, describe, make_directory
from hyperslab.formats.idx.ordering import Ordering
from hyperslab.formats.idx.parallel.division import created_by
from hyperslab.formats.idx.places import tiles_of
from hyperslab.formats.idx.reading import Reader
from hyperslab.formats.idx.writing import file_of
from hyperslab.layouts.idx_files import IdxFiles
from hyperslab.specifications import Specification

Block = npt.NDArray[Any]
# MPI counts what one call moves by a signed number of 32 bits.
MOST_BYTES = 2**30
# What was written is read back so much at a time.
PART_BYTES = 4 * 2**20


def write_at(file: Any, offset: int, content: npt.NDArray[np.uint8], kind: Any) -> None:
    """Write bytes of MPI's type `kind` at their place in an open file of MPI, in as few calls as it takes."""
    for start in range(0, len(content), MOST_BYTES):
        file.Write_at(offset + start, [content[start : start + MOST_BYTES], kind])


@dataclass(frozen=True)
class Job:
    """What is written: the dataset, every rank's box in disk order, and this rank's values in array terms."""

    path: str
    # mpi4py's MPI, which only ranks have.
    mpi: Any
    spec: Specification
    files: IdxFiles
    # The array's axes as they lie on disk.
    order: list[int]
    boxes: list[Box]
    given: Block
    # Ranks that put blocks together, or binary files for which one does; None: all ranks.
    aggregators: int | None
    files_each: int | None

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of a sample as it is stored."""
        return self.given.dtype.newbyteorder("<")

    @cached_property
    def values(self) -> list[Block]:
        """This rank's values, a field each, in disk order: a copy where that is not the array's."""
        turned = self.given.transpose(self.order)
        fields = list(turned) if self.files.has_fields else [turned]
        return [np.ascontiguousarray(field, self.dtype) for field in fields]


class Way(ABC):
    """One rank's side; `create`, `write` and `close` are collective. `spent` has nanoseconds by phase, and
    `levels` by level; `processes` are others that work for this rank.
    """

    def __init__(self, job: Job) -> None:
        self.mpi, self.comm, self.job = job.mpi, job.mpi.COMM_WORLD, job
        self.rank: int = self.comm.Get_rank()
        self.box = job.boxes[self.rank]
        self.order = Ordering(job.files.blocks, job.files.row_major)
        # Files that it has made, and how often it has opened each to write into it.
        self.made = 0
        self.opened: Counter[Any] = Counter()
        self.spent = {"order": 0, "exchange": 0, "file_writes": 0}
        self.levels: dict[int, int] = {}
        self.processes: list[int] = []

    @property
    def opens(self) -> int | None:
        """How often this rank has made or opened a file of data."""
        return self.made + sum(self.opened.values())

    @property
    def most_opens(self) -> int | None:
        """How often it has opened the same file to write into it, at most."""
        return max(self.opened.values(), default=0)

    def prepare(self) -> None:
        """Have the values as they are written, which belongs to no stopwatch."""
        _ = self.job.values

    def create(self) -> None:
        """Make the directory on rank 0, then the binary files, shared out among the ranks."""
        files = self.job.files
        if self.rank == 0:
            make_directory(self.job.path)
        self.comm.Barrier()
        for first in created_by(files, self.rank, self.comm.Get_size()):
            create_file(self.job.path, files, 0, first)
            self.made += 1

    @abstractmethod
    def write(self) -> None:
        """Write this rank's sub-volume."""

    def close(self) -> None:
        """Close what is open; once all ranks have, the dataset gets its description."""
        self.close_files()
        self.comm.Barrier()
        if self.rank == 0:
            self.finish()

    def close_files(self) -> None:  # noqa: B027
        """Close what is open."""

    def finish(self) -> None:
        """Write the description, without which nobody finds the dataset."""
        describe(self.job.path, self.job.files, self.job.dtype)

    def stored(self) -> Iterator[tuple[Box, Block]]:
        """Yield parts of this rank's sub-volume, read back by this process alone: where each lies in it, and
        its elements, in array terms.
        """
        job = self.job
        back = inverse_of(job.order)
        for field, part, found in self.read_back():
            origin = [start - low for start, low in zip(part.origin, self.box.origin, strict=True)]
            leading = [field] if job.files.has_fields else []
            where = Box((*leading, *origin), (*(1 for _ in leading), *part.extent))
            yield where.permuted(back), found.reshape(where.extent).transpose(back)

    def read_back(self) -> Iterator[tuple[int, Box, Block]]:
        """Yield the field, the box in disk order and the samples of parts that make up the sub-volume."""
        reader = Reader(self.job.path)
        for field in range(self.job.files.fields):
            for origin, extent in tiles_of(self.job.files, PART_BYTES):
                if part := _common(self.box, Box(tuple(origin), tuple(extent))):
                    steps = (1,) * len(part.origin)
                    yield field, part, reader.read(0, field, part.origin, part.extent, steps)
        reader.close()

    def described(self) -> dict[str, Any]:
        """Return the report of the dataset."""
        return inspection.report(self.job.path, self.job.files)

    def end(self) -> None:  # noqa: B027
        """End processes that work for this rank."""

    def timed(self, phase: str, action: Callable[[], Any]) -> Any:
        """Return what an action does, whose time counts for a phase."""
        started = perf_counter_ns()
        found = action()
        self.spent[phase] += perf_counter_ns() - started
        return found

    def path_of(self, first: int) -> str:
        """Return the path of the binary file whose first block is `first`."""
        return file_of(self.job.path, self.job.files, 0, first)


def _common(one: Box, other: Box) -> Box | None:
    """Return the box that two boxes have in common, None where there is none."""
    origin = tuple(map(max, one.origin, other.origin))
    ends = (
        min(a + b, c + d)
        for a, b, c, d in zip(one.origin, one.extent, other.origin, other.extent, strict=True)
    )
    extent = tuple(end - start for end, start in zip(ends, origin, strict=True))
    return Box(origin, extent) if min(extent) > 0 else None
