"""Four ways in which ranks move the same bytes: parallel HDF5, MPI-IO, POSIX, one file a process."""

from __future__ import annotations

import ctypes
import os
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from hyperslab import formats
from hyperslab.cases.mpi.communicator import info_of
from hyperslab.cases.parallel.pattern import Pattern
from hyperslab.specifications import Specification

Buffers = list[npt.NDArray[Any]]
MODE = 0o644


class Api(ABC):
    """One rank's side of an open file. `create` and `open` and `close` are collective; data move by calls."""

    # Whether every rank has a file of its own.
    own_file = False

    def __init__(self, comm: MPI.Comm, pattern: Pattern, spec: Specification, path: str) -> None:
        self.comm, self.pattern, self.spec = comm, pattern, spec
        self.asked: dict[str, Any] = spec["case"]["parallel"]
        self.dtype = np.dtype(spec["dataset"]["dtype"])
        self.path = f"{path}.part{pattern.rank}" if self.own_file else path

    @abstractmethod
    def create(self) -> None:
        """Make the file with room for all datasets, and open it for writing."""

    @abstractmethod
    def open(self) -> None:
        """Open it for reading."""

    @abstractmethod
    def write(self, buffers: Buffers) -> None:
        """Write this rank's share: one buffer a dataset."""

    @abstractmethod
    def read(self, buffers: Buffers) -> None:
        """Read it."""

    @abstractmethod
    def close(self) -> None:
        """Close it."""

    def stored(self, number: int, place: slice) -> npt.NDArray[Any]:
        """Return some elements of a dataset in the file, of one of its own those of this rank's share, read
        back by this process alone.
        """
        size = self.pattern.bytes if self.own_file else self.pattern.dataset_bytes
        offset = number * size + place.start * self.dtype.itemsize
        found: npt.NDArray[Any] = np.fromfile(self.path, self.dtype, place.stop - place.start, offset=offset)
        return found

    def flush(self) -> None:  # noqa: B027
        """Hand what a library buffers to the kernel; most buffer nothing."""

    def in_force(self) -> dict[str, Any]:
        """Return the settings as they are in force, read back after use; collective."""
        return {"dataset_layout": "contiguous"}


class Posix(Api):
    """pwrite and pread on one file that all ranks have open."""

    def __init__(self, comm: MPI.Comm, pattern: Pattern, spec: Specification, path: str) -> None:
        super().__init__(comm, pattern, spec, path)
        # Where pieces lie is known before the stopwatch, as HDF5 has its selections.
        self._places = [
            [self._segments(number, call) for call in range(pattern.calls)]
            for number in range(pattern.datasets)
        ]

    def create(self) -> None:
        """Make the file on rank 0, then open it on the others."""
        if self.pattern.rank == 0:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, MODE)
        self.comm.Barrier()
        if self.pattern.rank != 0:
            self._descriptor = os.open(self.path, os.O_RDWR)

    def open(self) -> None:
        self._descriptor = os.open(self.path, os.O_RDONLY)

    def _segments(self, number: int, call: int) -> list[tuple[int, int]]:
        base = number * self.pattern.dataset_bytes
        return [(base + offset, length) for offset, length in self.pattern.segments(call)]

    def write(self, buffers: Buffers) -> None:
        for number, call, view in self._pieces(buffers):
            for offset, length in self._places[number][call]:
                piece, view = view[:length], view[length:]
                while piece:
                    count = os.pwrite(self._descriptor, piece, offset)
                    piece, offset = piece[count:], offset + count

    def read(self, buffers: Buffers) -> None:
        for number, call, view in self._pieces(buffers):
            for offset, length in self._places[number][call]:
                piece, view = view[:length], view[length:]
                while piece:
                    count = os.preadv(self._descriptor, [piece], offset)
                    if count == 0:
                        raise OSError(f"{self.path}: ends at {offset}")
                    piece, offset = piece[count:], offset + count

    def _pieces(self, buffers: Buffers) -> Any:
        size = self.pattern.transfer
        for number, buffer in enumerate(buffers):
            view = buffer.data.cast("B")
            for call in range(self.pattern.calls):
                yield number, call, view[call * size : (call + 1) * size]

    def close(self) -> None:
        os.close(self._descriptor)


class FilePerProcess(Posix):
    """The same, each rank on a file of its own."""

    own_file = True

    def create(self) -> None:
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, MODE)

    def _segments(self, number: int, call: int) -> list[tuple[int, int]]:
        return [(number * self.pattern.bytes + call * self.pattern.transfer, self.pattern.transfer)]


def every_nth_block(block: int, which: int, of: int) -> MPI.Datatype:
    """Return a type of `block` bytes: block number `which` of as many, for the view of a file.

    Made by the call with plain counts: mpi4py 4 takes the one with large counts, whose types the ROMIO of
    MPICH 4.0 cannot take apart (pmodels/mpich issue 6121).
    """
    library = ctypes.CDLL(MPI.__file__)
    handle = ctypes.c_int if MPI._sizeof(MPI.Datatype) == ctypes.sizeof(ctypes.c_int) else ctypes.c_void_p
    byte = handle.from_address(MPI._addressof(MPI.BYTE))
    own = MPI.Datatype()
    around, mine, start = (ctypes.byref(ctypes.c_int(value)) for value in (of * block, block, which * block))
    failed = library.MPI_Type_create_subarray(
        1, around, mine, start, MPI.ORDER_C, byte, ctypes.c_void_p(MPI._addressof(own))
    )
    if failed:
        raise OSError(f"MPI_Type_create_subarray failed with {failed}")
    return own.Commit()


class MpiIo(Api):
    """MPI_File_write_at and read_at, or their collective forms, through a file view of the rank's blocks."""

    def create(self) -> None:
        self._open(MPI.MODE_CREATE | MPI.MODE_RDWR)

    def open(self) -> None:
        self._open(MPI.MODE_RDONLY)

    def _open(self, mode: int) -> None:
        self._file = MPI.File.Open(self.comm, self.path, mode, info_of(self.asked["hints"]))
        own = every_nth_block(self.pattern.block, self.pattern.rank, self.pattern.ranks)
        # Datasets follow each other, and each holds whole rounds of blocks, so one view serves all of them.
        self._file.Set_view(0, MPI.BYTE, own, info=info_of(self.asked["hints"]))
        own.Free()

    def write(self, buffers: Buffers) -> None:
        self._move(self._file.Write_at_all if self.asked["collective"] else self._file.Write_at, buffers)

    def read(self, buffers: Buffers) -> None:
        self._move(self._file.Read_at_all if self.asked["collective"] else self._file.Read_at, buffers)

    def _move(self, move: Any, buffers: Buffers) -> None:
        size = self.pattern.transfer
        for number, buffer in enumerate(buffers):
            view, first = buffer.view(np.uint8), number * self.pattern.bytes
            for start in range(0, self.pattern.bytes, size):
                move(first + start, [view[start : start + size], MPI.BYTE])

    def close(self) -> None:
        self._file.Close()

    def in_force(self) -> dict[str, Any]:
        return {
            "dataset_layout": "contiguous",
            "hints": hints_in_force(self.comm, self.path, self.asked["hints"]),
        }


def hints_in_force(comm: MPI.Comm, path: str, hints: dict[str, str]) -> dict[str, str]:
    """Return what MPI-IO says of the hints in force for a file that is opened with `hints`; collective."""
    file = MPI.File.Open(comm, path, MPI.MODE_RDONLY, info_of(hints))
    found = dict(file.Get_info().items())
    file.Close()
    return found


class OfFormat(Api):
    """The format's own library, by which all ranks open one file: parallel HDF5."""

    def __init__(self, comm: MPI.Comm, pattern: Pattern, spec: Specification, path: str) -> None:
        super().__init__(comm, pattern, spec, path)
        parallel = formats.load(spec["layout"]["format"]).parallel
        assert parallel is not None
        self._file = parallel.shared(self.path, spec, comm, info_of(self.asked["hints"]), pattern)

    def create(self) -> None:
        self._file.create()

    def open(self) -> None:
        self._file.open()

    def write(self, buffers: Buffers) -> None:
        self._file.write(buffers)

    def read(self, buffers: Buffers) -> None:
        self._file.read(buffers)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def stored(self, number: int, place: slice) -> npt.NDArray[Any]:
        return self._file.stored(number, place)

    def in_force(self) -> dict[str, Any]:
        hints = hints_in_force(self.comm, self.path, self.asked["hints"])
        return {**self._file.in_force(), "hints": hints}


APIS: dict[str, type[Api]] = {
    "hdf5": OfFormat,
    "mpiio": MpiIo,
    "posix": Posix,
    "file-per-process": FilePerProcess,
}
