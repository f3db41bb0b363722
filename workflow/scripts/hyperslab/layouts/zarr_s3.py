"""Layouts of Zarr in an object store: an object a chunk, or an object a shard of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hyperslab.layouts import s3_access
from hyperslab.layouts.layout import Abilities
from hyperslab.layouts.zarr import ZarrLayout

# What reads it.
CLIENT = {"through": "obstore"}


class ZarrS3Layout(ZarrLayout):
    """A resolved layout of a Zarr array, version 3, whose files are objects."""

    title = "Zarr in an object store"
    abilities = Abilities(forgets=True, pages=False, collections=True)
    settings = {"client": s3_access.SETTINGS["client"], **ZarrLayout.settings}
    libraries = {"obstore": "obstore"}

    def words(self, axes: Sequence[str], itemsize: int) -> str:
        """Return what every layout says of itself, and how it is read."""
        return f"{super().words(axes, itemsize)}, objects {s3_access.words(CLIENT)}"

    def copied(self) -> Mapping[str, Any] | None:
        """Return that of the files that were the objects."""
        return {**self.described, "format": "zarr"}

    def clients(self) -> tuple[str, ...]:
        """Return the module of what puts and reads objects."""
        return (s3_access.CLIENT,)

    def environment(self) -> str | None:
        """Return what says that the environment with the clients of object stores is complete."""
        return s3_access.ENVIRONMENT

    def _chunks_text(self, axes: Sequence[str], itemsize: int) -> str:
        return super()._chunks_text(axes, itemsize).replace(", a file each", ", an object each")


LAYOUT = ZarrS3Layout
