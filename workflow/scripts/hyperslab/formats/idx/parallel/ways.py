"""Ways in which ranks write their sub-volumes of one IDX dataset: one after the other, level by level, or
aggregated into whole files. `create`, `write` and `close` are collective.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter_ns
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.data.selections import Box
from hyperslab.formats.idx import inspection
from hyperslab.formats.idx.ordering import Ordering
from hyperslab.formats.idx.parallel import runs
from hyperslab.formats.idx.reading import Reader
from hyperslab.formats.idx.writing import Writer, create_file, describe, file_of
from hyperslab.layouts.idx_files import IdxFiles, Place
from hyperslab.specifications import Specification

Block = npt.NDArray[Any]
# MPI counts what one call moves by a signed number of 32 bits.
MOST_BYTES = 2**30


def write_at(file: Any, offset: int, content: npt.NDArray[np.uint8], kind: Any) -> None:
    """Write bytes of MPI's type `kind` at their place in an open file of MPI, in as few calls as it takes."""
    for start in range(0, len(content), MOST_BYTES):
        file.Write_at(offset + start, [content[start : start + MOST_BYTES], kind])


@dataclass(frozen=True)
class Job:
    """What is written: the dataset, every rank's box in disk order, and this rank's values, a field each."""

    path: str
    # mpi4py's MPI, which only ranks have.
    mpi: Any
    spec: Specification
    files: IdxFiles
    # The array's axes as they lie on disk.
    order: list[int]
    boxes: list[Box]
    values: list[Block]
    # Ranks that put blocks together, or binary files for which one does; None: all ranks.
    aggregators: int | None
    files_each: int | None

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of a sample as it is stored."""
        return self.values[0].dtype


class Way(ABC):
    """One rank's side. `spent` has nanoseconds by phase, `levels` by level; `opens` counts files opened,
    and `processes` are others that work for this rank.
    """

    def __init__(self, job: Job) -> None:
        self.mpi, self.comm, self.job = job.mpi, job.mpi.COMM_WORLD, job
        self.rank: int = self.comm.Get_rank()
        self.box = job.boxes[self.rank]
        self.order = Ordering(job.files.blocks, job.files.row_major)
        self.spent = {"order": 0, "exchange": 0}
        self.levels: dict[int, int] = {}
        # None where it is not known.
        self.opens: int | None = 0
        self.processes: list[int] = []

    def create(self) -> None:
        """Make the description on rank 0, then the binary files, shared out among the ranks."""
        files = self.job.files
        if self.rank == 0:
            describe(self.job.path, files, self.job.dtype)
        self.comm.Barrier()
        for first in files.files[self.rank :: self.comm.Get_size()].tolist():
            create_file(self.job.path, files, 0, first)

    @abstractmethod
    def write(self) -> None:
        """Write this rank's sub-volume."""

    def stored(self) -> Block:
        """Return this rank's part, read back by this process alone, in array terms."""
        return self.in_array_terms(self.read_back())

    def read_back(self) -> list[Block]:
        """Return this rank's sub-volume of every field, read back."""
        reader, box = Reader(self.job.path), self.box
        found = [
            reader.read(0, field, box.origin, box.extent, (1,) * len(box.origin))
            for field in range(self.job.files.fields)
        ]
        reader.close()
        return found

    def in_array_terms(self, fields: list[Block]) -> Block:
        """Return sub-volumes of all fields as the array has its axes."""
        whole = np.stack(fields) if self.job.files.has_fields else fields[0]
        return whole.transpose([self.job.order.index(axis) for axis in range(whole.ndim)])

    def described(self) -> dict[str, Any]:
        """Return the report of the dataset."""
        return inspection.report(self.job.path, self.job.files)

    def close(self) -> None:  # noqa: B027
        """Close what is open."""

    def end(self) -> None:  # noqa: B027
        """End processes that work for this rank."""

    def timed(self, phase: str, action: Callable[[], Any]) -> Any:
        """Return what an action does, whose time counts for a phase."""
        started = perf_counter_ns()
        found = action()
        self.spent[phase] += perf_counter_ns() - started
        return found

    def count_open(self) -> None:
        """Add one to the files that were opened."""
        self.opens = (self.opens or 0) + 1

    def opened(self, first: int) -> Any:
        """Return a binary file that this rank opens for itself through MPI-IO."""
        self.count_open()
        path = file_of(self.job.path, self.job.files, 0, first)
        return self.mpi.File.Open(self.mpi.COMM_SELF, path, self.mpi.MODE_WRONLY)


class Token(Way):
    """Serialised: a rank writes, as a process alone would, when the one before it has finished."""

    def write(self) -> None:
        if self.rank:
            self.comm.recv(source=self.rank - 1)
        self.write_alone()
        if self.rank + 1 < self.comm.Get_size():
            self.comm.send(None, dest=self.rank + 1)

    def write_alone(self) -> None:
        """Write this rank's sub-volume, while no other rank writes."""
        writer = Writer(self.job.path, self.job.files, self.job.dtype, alone=False)
        for field, values in enumerate(self.job.values):
            writer.write(Place(0, field), self.box.origin, values)
        writer.close()


class PerLevel(Way):
    """The prototype: each level in turn by independent writes; files are opened and closed for each level."""

    keeps_files = False
    by_formula = True

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._kept: dict[int, Any] = {}

    def _ordered(self, values: Block) -> list[list[runs.Run]]:
        if self.by_formula:
            return runs.by_formula(self.job.files, self.box.origin, values)
        return runs.by_blocks(self.job.files, self.order, self.box.origin, values)

    def write(self) -> None:
        for field, values in enumerate(self.job.values):
            levels = self.timed("order", partial(self._ordered, values))
            for level, held in enumerate(levels):
                started = perf_counter_ns()
                self._write_level(field, held)
                self.levels[level] = self.levels.get(level, 0) + perf_counter_ns() - started

    def _write_level(self, field: int, held: list[runs.Run]) -> None:
        for first, offset, samples in runs.in_files(self.job.files, field, held):
            if first not in self._kept:
                self._kept[first] = self.opened(first)
            content = samples[0] if len(samples) == 1 else np.concatenate(samples)
            write_at(self._kept[first], offset, content.view(np.uint8), self.mpi.BYTE)
        if not self.keeps_files:
            self._close_all()

    def _close_all(self) -> None:
        while self._kept:
            self._kept.popitem()[1].Close()

    def close(self) -> None:
        """Close the files that were kept open."""
        self._close_all()


class PerLevelKept(PerLevel):
    """The same with files kept open until everything is written."""

    keeps_files = True


class PerLevelFast(PerLevelKept):
    """The same with the fast order."""

    by_formula = False


class Plain(Way):
    """The same bytes without any order: each rank in one contiguous piece of one file, through MPI-IO."""

    def create(self) -> None:
        """Open the file together."""
        mode = self.mpi.MODE_CREATE | self.mpi.MODE_WRONLY
        self.count_open()
        self._file = self.mpi.File.Open(self.comm, self.job.path, mode)

    def write(self) -> None:
        sizes = [int(np.prod(box.extent)) * self.job.files.itemsize for box in self.job.boxes]
        total, offset = sum(sizes), sum(sizes[: self.rank])
        for field, values in enumerate(self.job.values):
            content = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
            write_at(self._file, field * total + offset, content, self.mpi.BYTE)

    def close(self) -> None:
        """Close it."""
        self._file.Close()

    def described(self) -> dict[str, Any]:
        """Return the size of the file."""
        size = os.stat(self.job.path).st_size
        settings = {"dataset_layout": "one contiguous piece a rank"}
        return {"file_bytes": size, "data_bytes": size, "remainder_bytes": 0, "settings": settings}

    def read_back(self) -> list[Block]:
        """Return this rank's piece of every field, read back."""
        sizes = [int(np.prod(box.extent)) for box in self.job.boxes]
        firsts = [field * sum(sizes) + sum(sizes[: self.rank]) for field in range(len(self.job.values))]
        return [
            np.fromfile(
                self.job.path, self.job.dtype, sizes[self.rank], offset=first * self.job.files.itemsize
            ).reshape(self.box.extent)
            for first in firsts
        ]


WAYS: dict[str, type[Way]] = {
    "token": Token,
    "per-level": PerLevel,
    "per-level-kept": PerLevelKept,
    "per-level-fast": PerLevelFast,
    "plain": Plain,
}
