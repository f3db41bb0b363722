"""The seam of storage formats, library side: a format is a module here and one line in MODULES.

What a study may say of it, and all that needs no library, is in hyperslab.layouts.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy.typing as npt

    from hyperslab.data.selections import Box
    from hyperslab.data.values import Values
    from hyperslab.measuring.artifact import Artifact

# name in a study -> module with FORMAT; imported when used
MODULES = {"hdf5": "hyperslab.formats.hdf5.array", "zarr": "hyperslab.formats.zarr.array"}


class Unavailable(Exception):
    """What a layout asks for is not in this build or release of the library; one line that says so."""


class OpenArray(Protocol):
    """One array in one open file. Boxes are in array terms, whatever the order of axes on disk."""

    def read(self, box: Box) -> npt.NDArray[Any]:
        """The elements of `box`."""

    def reader(self, box: Box) -> Callable[[], npt.NDArray[Any]]:
        """`read` of `box` with everything done but the read, for a stopwatch."""

    def write(self, box: Box, block: npt.NDArray[Any]) -> None:
        """Store `block` at `box`."""

    def flush(self) -> None:
        """Hand everything buffered in the library to the kernel."""

    def close(self) -> None:
        """Close array and file."""


class Format(Protocol):
    """What a storage format must offer.

    `path` is where an artifact's data lie, a file or a directory; `spec` is a cell's specification.
    """

    # What its data are kept in: files by themselves, or with a server.
    artifact: type[Artifact]

    def create(self, path: str, spec: dict[str, Any]) -> OpenArray:
        """Create the file and an empty array with the layout of `spec`."""

    def prepare(self, spec: dict[str, Any]) -> None:
        """Load what the layout needs, so that no stopwatch measures it; raises Unavailable."""

    def open(self, path: str, spec: dict[str, Any]) -> OpenArray:
        """Open for reading with the library settings of `spec`."""

    def generate(self, path: str, spec: dict[str, Any], values: Values) -> str:
        """Fill a new file by any way that yields the plain writer's file; says which way it was."""

    def workers_memory_bytes(self) -> int:
        """The largest memory of the processes that `generate` started, summed, in bytes."""

    def report(self, path: str, spec: dict[str, Any]) -> dict[str, Any]:
        """What the file says of itself: sizes in bytes, chunk counts and the effective settings."""

    def stored_sizes(self, path: str, spec: dict[str, Any]) -> dict[str, Any]:
        """What `predict` needs from the file."""

    def predict(self, box: Box, spec: dict[str, Any], stored: dict[str, Any]) -> dict[str, float]:
        """Counts for one selection on a freshly opened file: chunks touched, their bytes, bytes requested."""


def load(name: str) -> Format:
    """The format registered under `name`; raises KeyError for an unknown one."""
    format_: Format = importlib.import_module(MODULES[name]).FORMAT
    return format_
