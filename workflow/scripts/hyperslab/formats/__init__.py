"""The seam of storage formats, library side: a format is a module here and one line in MODULES.

What a study may say of it, and all that needs no library, is in hyperslab.layouts.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy.typing as npt

    from hyperslab.data.rows import Lengths, RowBlock
    from hyperslab.data.selections import Box
    from hyperslab.data.values import Values
    from hyperslab.measuring.artifact import Artifact
    from hyperslab.specifications import Specification

# name in a study -> module with FORMAT; imported when used
MODULES = {
    "hdf5": "hyperslab.formats.hdf5.array",
    "zarr": "hyperslab.formats.zarr.array",
    "idx": "hyperslab.formats.idx.array",
    "hdf5-rows": "hyperslab.formats.hdf5_rows.rows",
    "zarr-rows": "hyperslab.formats.zarr_rows.rows",
    "parquet": "hyperslab.formats.parquet.rows",
}


# Rows of one dataset: a run, or some of them in ascending order.
Numbers = Sequence[int]


class Unavailable(Exception):
    """What a layout asks for is not in this build or release of the library; one line that says so."""


class OpenArray(Protocol):
    """One array in one open file. Boxes are in array terms, whatever the order of axes on disk."""

    def read(self, box: Box) -> npt.NDArray[Any]:
        """Return the elements of `box`."""

    def reader(self, box: Box) -> Callable[[], npt.NDArray[Any]]:
        """Return `read` of `box` with everything done but the read, for a stopwatch."""

    def write(self, box: Box, block: npt.NDArray[Any]) -> None:
        """Store `block` at `box`."""

    def flush(self) -> None:
        """Hand everything buffered in the library to the kernel."""

    def close(self) -> None:
        """Close array and file."""


class OpenArrays(Protocol):
    """Many equal arrays in one open file, known by their numbers from 0."""

    def add(self, number: int, block: npt.NDArray[Any]) -> None:
        """Create array `number` and write all of it."""

    def read(self, number: int) -> npt.NDArray[Any]:
        """Return all of array `number`, opened and closed for it."""

    def columns(self) -> dict[str, Any]:
        """Return what the library says of itself meanwhile, as columns of the table."""

    def flush(self) -> None:
        """Hand everything buffered in the library to the kernel."""

    def close(self) -> None:
        """Close the file."""


class ManyArrays(Protocol):
    """What a format offers whose files can hold many arrays: all but the first axis of `spec` each."""

    def create(self, path: str, spec: Specification) -> OpenArrays:
        """Create a file without arrays; raises Unavailable."""

    def open(self, path: str, spec: Specification) -> OpenArrays:
        """Open for reading with the library settings of `spec`; raises Unavailable."""

    def report(self, path: str, spec: Specification) -> dict[str, Any]:
        """Return what the file says of itself: sizes in bytes over all arrays, and the effective settings."""


class Share(Protocol):
    """What one rank holds of each of several arrays of one axis, and in which calls it moves; in bytes."""

    @property
    def datasets(self) -> int:
        """The number of arrays."""

    @property
    def dataset_bytes(self) -> int:
        """Bytes of one array, of all ranks."""

    @property
    def transfer(self) -> int:
        """Bytes that one call moves."""

    @property
    def calls(self) -> int:
        """Calls that move this rank's share of one array."""

    def hyperslab(self, call: int) -> tuple[int, int, int, int]:
        """Return (start, stride, count, block) of what a call moves, within an array."""


class SharedFile(Protocol):
    """A file of several arrays of one axis that all ranks have open; all but moving data is collective."""

    def create(self) -> None:
        """Make the file with room for all arrays, and open it for writing."""

    def open(self) -> None:
        """Open it for reading."""

    def write(self, buffers: Sequence[npt.NDArray[Any]]) -> None:
        """Write this rank's share: one buffer an array."""

    def read(self, buffers: Sequence[npt.NDArray[Any]]) -> None:
        """Read it."""

    def flush(self) -> None:
        """Hand everything buffered in the library to the kernel."""

    def close(self) -> None:
        """Close it."""

    def stored(self, number: int) -> npt.NDArray[Any]:
        """Return all of an array, read back by this process alone."""

    def in_force(self) -> dict[str, Any]:
        """Return the settings as they are in force, read back after use."""


class Parallel(Protocol):
    """What a format offers whose files MPI ranks can open together.

    `comm` and `hints` are objects of mpi4py: the ranks' communicator, and hints to MPI-IO.
    """

    def open(self, path: str, spec: Specification, comm: Any, hints: Any) -> OpenArray:
        """Open the array of a test file on all ranks, for reading; collective."""

    def shared(self, path: str, spec: Specification, comm: Any, hints: Any, share: Share) -> SharedFile:
        """Return a file for `share` and its equals on the other ranks, which is not opened yet."""


class SubVolumeWriter(Protocol):
    """One rank's side of a dataset of which every rank writes a part; `create`, `write` and `close` are
    collective.
    """

    # Whether what is written is a dataset of the format: a plain write beside it is none.
    dataset: bool
    # Nanoseconds by phase ("order", "exchange"), and by level where levels are written in turn; files opened.
    spent: dict[str, int]
    levels: dict[int, int]
    opens: int

    def create(self) -> None:
        """Make all files."""

    def write(self) -> None:
        """Write this rank's part."""

    def close(self) -> None:
        """Close what is open."""

    def stored(self) -> npt.NDArray[Any]:
        """Return this rank's part, read back by this process alone, in array terms."""


class SubVolumes(Protocol):
    """What a format offers of which MPI ranks can each write a part of one dataset."""

    def part(self, spec: Specification, rank: int, ranks: int) -> Box:
        """Return the part of a rank, in array terms; raises ValueError where the parts do not make up the
        array.
        """

    def writer(self, path: str, spec: Specification, mpi: Any, values: npt.NDArray[Any]) -> SubVolumeWriter:
        """Return what writes a rank's part in the way that a case names; `mpi` is mpi4py's MPI."""


class Store(Protocol):
    """What every storage format must offer, whatever its data model.

    `path` is where an artifact's data lie, a file or a directory; `spec` is a cell's specification.
    """

    # What its data are kept in: files by themselves, or with a server.
    artifact: type[Artifact]

    def versions(self) -> dict[str, str]:
        """Return the versions of the libraries that write and read it, by name."""

    def prepare(self, spec: Specification) -> None:
        """Load what the layout needs, so that no stopwatch measures it; raises Unavailable."""

    def generate(self, path: str, spec: Specification, values: Values) -> str:
        """Fill a new file by any way that yields the plain writer's file; says which way it was."""

    def workers_memory_bytes(self) -> int:
        """Return the largest memory of the processes that `generate` started, summed, in bytes."""

    def report(self, path: str, spec: Specification) -> dict[str, Any]:
        """Return what the file says of itself: sizes in bytes, chunk counts and the effective settings."""


class Format(Store, Protocol):
    """What a format of dense arrays must offer beside."""

    @property
    def many_arrays(self) -> ManyArrays | None:
        """How files with many arrays are made; None where there are none."""

    @property
    def parallel(self) -> Parallel | None:
        """How MPI ranks open one file together; None where they cannot."""

    @property
    def sub_volumes(self) -> SubVolumes | None:
        """How MPI ranks each write a part of one dataset; None where they cannot."""

    def create(self, path: str, spec: Specification) -> OpenArray:
        """Create the file and an empty array with the layout of `spec`."""

    def open(self, path: str, spec: Specification) -> OpenArray:
        """Open for reading with the library settings of `spec`."""

    def stored_sizes(self, path: str, spec: Specification) -> dict[str, Any]:
        """Return what `predict` needs from the file."""

    def predict(self, box: Box, spec: Specification, stored: dict[str, Any]) -> dict[str, float]:
        """Return the counts for one selection on a freshly opened file: chunks touched, their bytes,
        bytes requested.

        Where it can be known, the number of read calls, too: `requested_reads`.
        """


class OpenRows(Protocol):
    """One or several datasets of ragged rows in one open file, known by their numbers from 0."""

    def writer(self, part: int, first: int, block: RowBlock) -> Callable[[], None]:
        """Return a write of rows `first` and following of dataset `part` that lacks nothing but the write.

        A dataset that grows is made longer by it.
        """

    def reader(self, part: int, numbers: Numbers) -> Callable[[], Any]:
        """Return a read of rows of dataset `part` that lacks nothing but the read."""

    def replacer(self, part: int, number: int, row: npt.NDArray[Any]) -> Callable[[], None]:
        """Return a replacement of one row of dataset `part`, of any length, that lacks nothing but the call.

        Asked for only of layouts that have no `rewrite_refusal`, on a file that `modify` opened.
        """

    def block(self, found: Any) -> RowBlock:
        """Return what a read gave as a block of rows."""

    def columns(self) -> dict[str, Any]:
        """Return what the library says of itself meanwhile, as columns of the table."""

    def flush(self) -> None:
        """Hand everything buffered in the library to the kernel."""

    def close(self) -> None:
        """Close datasets and file."""


class RowsFormat(Store, Protocol):
    """What a format of ragged rows must offer beside."""

    def create(self, path: str, spec: Specification, parts: Sequence[Lengths], growing: bool) -> OpenRows:
        """Create a file with a dataset for each of `parts`, the lengths of its rows; empty where it grows."""

    def open(self, path: str, spec: Specification) -> OpenRows:
        """Open for reading with the library settings of `spec`."""

    def modify(self, path: str, spec: Specification) -> OpenRows:
        """Open a file for reading and for replacing rows."""


def load(name: str) -> Format:
    """Return the format registered under `name`; raises KeyError for an unknown one."""
    format_: Format = importlib.import_module(MODULES[name]).FORMAT
    return format_
