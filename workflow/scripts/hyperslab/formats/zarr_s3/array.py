"""Zarr whose files are objects: written here, put into a bucket, read by zarr-python through obstore."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import zarr
from zarr.storage import ObjectStore

from hyperslab.data.selections import Box
from hyperslab.formats.object_reads import ObjectReads, chunks_alone, said_plainly
from hyperslab.formats.zarr import settings
from hyperslab.formats.zarr.array import Zarr, ZarrArray
from hyperslab.formats.zarr.description import OnDisk
from hyperslab.layouts.zarr_s3 import CLIENT
from hyperslab.measuring.machine import versions_of
from hyperslab.measuring.object_store.address import address_of
from hyperslab.measuring.object_store.artifact import StoredArtifact
from hyperslab.specifications import Specification


class ZarrS3(Zarr):
    """The Zarr side of the format seam, in an object store."""

    artifact = StoredArtifact

    def __init__(self, store: Any = None) -> None:
        # The client of all arrays that are opened; else each has a new one.
        self._store = store

    def of_one_client(self, path: str, spec: Specification) -> tuple[ZarrS3, Callable[[], None]]:
        """Return the format with a new client for what lies at `path`, and nothing to let go."""
        return ZarrS3(address_of(path).store()), lambda: None

    def versions(self) -> dict[str, str]:
        """Return the versions of Zarr and of the client."""
        return super().versions() | versions_of(("obstore",))

    def prepare(self, spec: Specification) -> None:
        """Write and read a small array here, and import the client."""
        plain = Zarr()
        plain.prepare(spec)
        import obstore.store  # noqa: F401

    def open(self, path: str, spec: Specification) -> Any:
        """Open for reading through a new client with the library settings of `spec`."""
        settings.put(spec["layout"]["settings"])
        address, order = address_of(path), OnDisk.of(spec).order

        def opened() -> ZarrArray:
            name = address.name_of(path)
            if self._store is not None:
                shared = ObjectStore(self._store, read_only=True)
                return ZarrArray(zarr.open_array(shared, path=name, mode="r", zarr_format=3), order)
            store = ObjectStore(address.store(f"{name}/"), read_only=True)
            return ZarrArray(zarr.open_array(store, mode="r", zarr_format=3), order)

        return ObjectReads(said_plainly(opened)())

    def report(self, path: str, spec: Specification) -> dict[str, Any]:
        """Return what the array says of itself, which is as it was put, and how it was read."""
        found = super().report(path, spec)
        return {**found, "settings": {**found["settings"], "client": CLIENT["through"]}}

    def predict(self, box: Box, spec: Specification, stored: dict[str, Any]) -> dict[str, float]:
        """Return the chunks touched and their stored bytes; the kernel's requests are those of files."""
        return chunks_alone(super().predict(box, spec, stored))


FORMAT = ZarrS3()
