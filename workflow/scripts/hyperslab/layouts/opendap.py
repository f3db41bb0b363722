"""Layouts of OPeNDAP: a dataset of HDF5 that clients read through a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hyperslab.layouts.environments import made
from hyperslab.layouts.hdf5 import Hdf5Layout
from hyperslab.layouts.layout import Abilities, Array

# Seen on one machine, as an estimate.
PIECE_SECONDS, RESTART_SECONDS = 200e-6, 2.0
# The environment of server and client.
ENVIRONMENT = "pydap-3.5.9"


class OpendapLayout(Hdf5Layout):
    """A resolved layout of HDF5 behind an OPeNDAP server: that of the file, and the server's workers."""

    title = "OPeNDAP"
    suffix = ".opendap"
    released = None
    libraries = {"pydap": "pydap", "h5py": "h5py", "hdf5": "HDF5"}
    abilities = Abilities(writes=False, forgets=True)

    def largest_files(self, array: Array) -> int:
        """Return the number of files and directories: the file, and the directory that is served."""
        return 2

    def piece_seconds(self) -> float:
        """Return about how long a chunk takes on its way through the server."""
        return PIECE_SECONDS

    def restart_seconds(self) -> float:
        """Return about how long the server takes until it answers."""
        return RESTART_SECONDS

    def words(self, axes: Sequence[str], itemsize: int) -> str:
        """Return what every layout says of itself, and the server."""
        workers: int = self.described["workers"]
        return f"{super().words(axes, itemsize)}, OPeNDAP with {workers} worker{'' if workers == 1 else 's'}"

    def copied(self) -> None:
        """Return None: the file is read through the server."""

    def clients(self) -> tuple[str, ...]:
        """Return the module of pydap's client."""
        return ("pydap.client",)

    def environment(self) -> str | None:
        """Return what says that the environment of pydap is complete."""
        return made(ENVIRONMENT)

    def of_file(self) -> dict[str, Any]:
        """Return the layout of the file behind the server."""
        return {**{key: value for key, value in self.described.items() if key != "workers"}, "format": "hdf5"}


LAYOUT = OpendapLayout
