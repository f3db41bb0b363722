"""The seam of storage formats: what their modules offer, with what holds of most of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy.typing as npt

    from hyperslab.data.selections import Box
    from hyperslab.data.values import Values
    from hyperslab.measuring.artifact import Artifact
    from hyperslab.specifications import Specification


class OpenArray(ABC):
    """One array in one open file. Boxes are in array terms, whatever the order of axes on disk."""

    def read(self, box: Box) -> npt.NDArray[Any]:
        """Return the elements of `box`."""
        return self.reader(box)()

    @abstractmethod
    def reader(self, box: Box) -> Callable[[], npt.NDArray[Any]]:
        """Return `read` of `box` with everything done but the read, for a stopwatch."""

    @abstractmethod
    def write(self, box: Box, block: npt.NDArray[Any]) -> None:
        """Store `block` at `box`."""

    @abstractmethod
    def flush(self) -> None:
        """Hand everything buffered in the library to the kernel."""

    @abstractmethod
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

    def stored(self, number: int, place: slice) -> npt.NDArray[Any]:
        """Return some elements of an array, read back by this process alone."""

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

    # Nanoseconds by phase ("order", "exchange", "file_writes") where they are known, and by level where
    # levels are written in turn.
    spent: dict[str, int]
    levels: dict[int, int]

    @property
    def opens(self) -> int | None:
        """How often this rank has made or opened a file of data, None where that is not known."""

    @property
    def most_opens(self) -> int | None:
        """How often it has opened the same file to write into it, at most."""

    @property
    def processes(self) -> Sequence[int]:
        """Other processes that work for this rank, whose counters count."""

    def create(self) -> None:
        """Make all files."""

    def write(self) -> None:
        """Write this rank's part."""

    def close(self) -> None:
        """Close what is open."""

    def stored(self) -> Iterator[tuple[Box, npt.NDArray[Any]]]:
        """Yield small parts of this rank's sub-volume, read back by this process alone: where each lies in
        it, and its elements, in array terms.
        """

    def described(self) -> dict[str, Any]:
        """Return the report of what was written: sizes in bytes, and settings as they are in force."""

    def end(self) -> None:
        """End other processes that work for this rank; nothing is asked of it any more."""


class SubVolumes(Protocol):
    """What a format offers of which MPI ranks can each write a part of one dataset."""

    def writer(self, path: str, spec: Specification, mpi: Any, values: npt.NDArray[Any]) -> SubVolumeWriter:
        """Return what writes a rank's part in the way that a case names; `mpi` is mpi4py's MPI."""


class View(Protocol):
    """Levels of one box, each finer than the one before, of which what was read is kept."""

    def reader(self, box: Box) -> Callable[[], npt.NDArray[Any]]:
        """Return what reads a level of the box, with everything done but the read, for a stopwatch."""


class Refinement(Protocol):
    """What a format offers whose layouts keep what they have read of a box for finer levels of it."""

    def begin(self, opened: OpenArray) -> View:
        """Return what reads levels of one box of an open array."""

    def predict(
        self, boxes: Sequence[Box], spec: Specification, stored: dict[str, Any]
    ) -> list[dict[str, float]]:
        """Return `Format.predict` of each level of a box, from coarse to fine, on a freshly opened file."""


class Store(ABC):
    """What every storage format must offer, whatever its data model.

    `path` is where an artifact's data lie, a file or a directory; `spec` is a cell's specification.
    """

    # What its data are kept in: files by themselves, or with a server.
    artifact: type[Artifact]

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Return the versions of the libraries that write and read it, by name."""

    @abstractmethod
    def prepare(self, spec: Specification) -> None:
        """Load what the layout needs, so that no stopwatch measures it; raises Unavailable."""

    @abstractmethod
    def generate(self, path: str, spec: Specification, values: Values) -> str:
        """Fill a new file by any way that yields the plain writer's file; says which way it was."""

    def workers_memory_bytes(self) -> int:
        """Return the largest memory of the processes that `generate` started, summed, in bytes.

        Most start none. What a server takes is a column of its own.
        """
        return 0

    @abstractmethod
    def report(self, path: str, spec: Specification) -> dict[str, Any]:
        """Return what the file says of itself: sizes in bytes, chunk counts and the effective settings."""


class Format(Store):
    """What a format of dense arrays must offer beside; the attributes are None where it cannot do so."""

    # How files with many arrays are made.
    many_arrays: ManyArrays | None = None
    # How MPI ranks open one file together.
    parallel: Parallel | None = None
    # How MPI ranks each write a part of one dataset.
    sub_volumes: SubVolumes | None = None
    # How levels of a box are read, nothing twice, for layouts whose abilities say so.
    refinement: Refinement | None = None
    # Whether an open array has a file open all the time, and not in its calls alone.
    stays_open: bool = True

    @abstractmethod
    def create(self, path: str, spec: Specification) -> OpenArray:
        """Create the file and an empty array with the layout of `spec`."""

    @abstractmethod
    def open(self, path: str, spec: Specification) -> OpenArray:
        """Open for reading with the library settings of `spec`."""

    def kept_values(self, values: Values, spec: Specification) -> Values | None:
        """Return what lossy filters leave of values in a file that is made whole, None where nobody knows."""
        return None

    @abstractmethod
    def stored_sizes(self, path: str, spec: Specification) -> dict[str, Any]:
        """Return what `predict` needs from the file."""

    @abstractmethod
    def predict(self, box: Box, spec: Specification, stored: dict[str, Any]) -> dict[str, float]:
        """Return the counts for one selection on a freshly opened file: chunks touched, their bytes,
        bytes requested.

        Where it can be known, the number of read calls, too: `requested_reads`.
        """
