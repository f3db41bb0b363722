"""Layouts of HDF5 in an object store: one file, one object, read by ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hyperslab.layouts import s3_access
from hyperslab.layouts.hdf5 import Hdf5Layout
from hyperslab.layouts.layout import Abilities


class Hdf5S3Layout(Hdf5Layout):
    """A resolved layout of an HDF5 dataset whose file is an object."""

    title = "HDF5 in an object store"
    released = None
    abilities = Abilities(memory_types=True, strides=True, pages=False, collections=True)
    settings = {**s3_access.SETTINGS, **Hdf5Layout.settings}
    libraries = {**Hdf5Layout.libraries, "s3fs": "s3fs", "fsspec": "fsspec", "obstore": "obstore"}

    def words(self, axes: Sequence[str], itemsize: int) -> str:
        """Return what every layout says of itself, and how it is read."""
        return f"{super().words(axes, itemsize)}, an object {s3_access.words(self.described['access'])}"

    def copied(self) -> Mapping[str, Any] | None:
        """Return that of the file that was the object."""
        return {**{key: value for key, value in self.described.items() if key != "access"}, "format": "hdf5"}

    def clients(self) -> tuple[str, ...]:
        """Return the modules of what puts the file, and of the client that reads it."""
        return s3_access.CLIENT, s3_access.MODULES[self.described["access"]["through"]]

    def environment(self) -> str | None:
        """Return what says that the environment with the clients of object stores is complete."""
        return s3_access.ENVIRONMENT


LAYOUT = Hdf5S3Layout
