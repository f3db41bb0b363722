"""HDF5 whose file is an object: written here, put into a bucket, read by h5py through a client's file."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import h5py
from h5py import h5f

from hyperslab.data.selections import Box
from hyperslab.formats.hdf5.array import Hdf5
from hyperslab.formats.hdf5.settings import Lists
from hyperslab.formats.hdf5_s3 import clients
from hyperslab.formats.object_reads import ObjectReads, said_plainly
from hyperslab.measuring.machine import versions_of
from hyperslab.measuring.object_store.address import address_of
from hyperslab.measuring.object_store.artifact import StoredArtifact
from hyperslab.specifications import Specification


class ClosingFile(h5py.File):  # type: ignore[misc]
    """A file of h5py's that lets its client go when it is closed."""

    def __init__(self, identifier: h5f.FileID, let_go: Callable[[], None]) -> None:
        super().__init__(identifier)
        self._let_go = let_go

    def close(self) -> None:
        """Close file and client."""
        super().close()
        self._let_go()


class Hdf5S3(Hdf5):
    """The HDF5 side of the format seam, in an object store."""

    artifact = StoredArtifact
    many_arrays = None
    parallel = None

    def __init__(self, client: clients.Client | None = None) -> None:
        # That of all files that are opened, and let go by whoever made it; else each has a new one.
        self._client = client

    def of_one_client(self, path: str, spec: Specification) -> tuple[Hdf5S3, Callable[[], None]]:
        """Return the format with a new client for what lies at `path`, and what lets that go."""
        client = clients.new(address_of(path), spec["layout"]["access"])
        return Hdf5S3(client), client.close

    def versions(self) -> dict[str, str]:
        """Return the versions of HDF5 and of the clients."""
        return super().versions() | versions_of(("s3fs", "fsspec", "aiobotocore", "obstore"))

    def prepare(self, spec: Specification) -> None:
        """Load what filters and client need; raises Unavailable."""
        super().prepare(spec)
        clients.load(spec["layout"]["access"])

    def open(self, path: str, spec: Specification) -> Any:
        """Open for reading through a new client with the library settings of `spec`."""
        return ObjectReads(said_plainly(partial(super().open, path, spec))())

    def opened(self, path: str, spec: Specification, lists: Lists) -> h5py.File:
        """Return the file, opened through a new client that has kept nothing."""
        with ExitStack() as opening:
            client = self._client
            if client is None:
                client = clients.new(address_of(path), spec["layout"]["access"])
                opening.callback(client.close)
            name, close = client.put_driver(lists.file_access, path)
            opening.callback(close)
            identifier = h5f.open(name, h5f.ACC_RDONLY, fapl=lists.file_access)
            return ClosingFile(identifier, opening.pop_all().close)

    def report(self, path: str, spec: Specification) -> dict[str, Any]:
        """Return what the file says of itself, which is as it was put, and how it was read."""
        found = super().report(path, spec)
        access = spec["layout"]["access"]
        client = {
            "client": access["through"],
            "client_cache": access.get("cache", "its default"),
            "client_block_bytes": access.get("block_bytes", "its default"),
        }
        return {**found, "settings": {**found["settings"], **client}}

    def predict(self, box: Box, spec: Specification, stored: dict[str, Any]) -> dict[str, float]:
        """Return the chunks touched and their stored bytes; what a client's cache asks for is unknown."""
        return {**super().predict(box, spec, stored), "requested": math.nan}


FORMAT = Hdf5S3()
