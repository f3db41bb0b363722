"""OPeNDAP through pydap: a file that HDF5 writes, opened and read by the protocol's second version."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.data.selections import Box
from hyperslab.data.values import Values
from hyperslab.formats import Format, OpenArray, Unavailable
from hyperslab.formats.hdf5.array import DATASET
from hyperslab.formats.hdf5.array import FORMAT as HDF5
from hyperslab.formats.opendap.server import FILE, TIMEOUT_S, UNAUTHORISED, OpendapArtifact
from hyperslab.layouts.opendap import LAYOUT
from hyperslab.measuring import received
from hyperslab.measuring.machine import versions_of
from hyperslab.measuring.servers import Connection, ServerError, connection_of
from hyperslab.specifications import LayoutSpecification, Specification

Block = npt.NDArray[Any]
# Of what a library says of an error.
MOST_LETTERS = 300


def client() -> Any:
    """Return pydap's client; raises Unavailable where it is not installed."""
    try:
        from pydap import client
    except ImportError:
        raise Unavailable("the package pydap is not installed here") from None
    received.begin()
    return client


@contextmanager
def answered(connection: Connection) -> Iterator[None]:
    """Raise ServerError, in one line without the password, for whatever fails between client and server."""
    from webob.exc import HTTPError

    try:
        yield
    except (HTTPError, ValueError, OSError) as error:
        if f"{UNAUTHORISED} Client Error" in str(error):
            raise ServerError(f"pydap refuses the password of user {connection.user} (status 401)") from None
        words = " ".join(f"{type(error).__name__}: {error}".split()).replace(connection.password, "…")
        how = "has ended while it was asked"
        if not connection.ended():
            how = f"does not answer as it should ({words[:MOST_LETTERS]})"
        raise ServerError(f"pydap {how}; its log ends with: {connection.last_words()}") from None


class OpendapArray(OpenArray):
    """The array of one open dataset; boxes are in array terms."""

    def __init__(self, connection: Connection, spec: Specification) -> None:
        self._connection = connection
        self._dtype = np.dtype(spec["dataset"]["dtype"])
        # pydap makes a session of its own for each request, so that it is told each time.
        asked = {"auth": (connection.user, connection.password)}
        with answered(connection):
            opened = client().open_url(
                f"{connection.endpoint}/{FILE}", protocol="dap2", timeout=TIMEOUT_S, get_kwargs=asked
            )
            self._variable = opened[DATASET.decode()].data

    def reader(self, box: Box) -> Callable[[], Block]:
        """Return a read of `box` that lacks nothing but the read; values travel in the network's order."""
        variable, connection, dtype, index = self._variable, self._connection, self._dtype, box.slices()

        def read() -> Block:
            with answered(connection):
                found: Block = np.asarray(variable[index]).astype(dtype, copy=False)
                if found.shape != box.extent:
                    raise ValueError(f"{found.shape} instead of {box.extent}")
                return found

        return read

    def write(self, box: Box, block: Block) -> None:
        """Raise ServerError: the protocol only reads."""
        raise ServerError("OPeNDAP is read only")

    def flush(self) -> None:
        """Do nothing: nothing was written."""

    def close(self) -> None:
        """Do nothing: each request has a connection of its own."""


def inside(path: str, spec: Specification) -> tuple[str, Specification]:
    """Return the file in the directory that is served, and what HDF5 is told of it."""
    described: Any = LAYOUT(spec["layout"]).of_file()
    layout: LayoutSpecification = described
    return os.path.join(path, FILE), {**spec, "layout": layout}


class Opendap(Format):
    """The OPeNDAP side of the format seam."""

    artifact = OpendapArtifact

    def versions(self) -> dict[str, str]:
        """Return the versions of pydap, of what it serves with, and of the library of the file."""
        return {**versions_of(("pydap", "gunicorn")), **HDF5.versions()}

    def create(self, path: str, spec: Specification) -> OpendapArray:
        """Raise ServerError: a study cannot ask for it, because the protocol only reads."""
        raise ServerError("OPeNDAP is read only")

    def prepare(self, spec: Specification) -> None:
        """Load the client; raises Unavailable."""
        client()

    def open(self, path: str, spec: Specification) -> OpendapArray:
        """Open for reading; raises ServerError where there is no server, or it refuses."""
        return OpendapArray(connection_of(path), spec)

    def generate(self, path: str, spec: Specification, values: Values) -> str:
        """Fill a new file, as a layout of HDF5 does."""
        os.makedirs(path, exist_ok=True)
        return HDF5.generate(*inside(path, spec), values)

    def workers_memory_bytes(self) -> int:
        """Return the largest memory of the processes that `generate` started, summed, in bytes."""
        return HDF5.workers_memory_bytes()

    def report(self, path: str, spec: Specification) -> dict[str, Any]:
        """Return what the file says of itself, and how many workers the server has."""
        found = HDF5.report(*inside(path, spec))
        return {**found, "settings": {**found["settings"], "workers": spec["layout"]["workers"]}}

    def stored_sizes(self, path: str, spec: Specification) -> dict[str, Any]:
        """Return what `predict` needs from the file."""
        return HDF5.stored_sizes(*inside(path, spec))

    def predict(self, box: Box, spec: Specification, stored: dict[str, Any]) -> dict[str, float]:
        """Return the chunks touched and their bytes; what the server asks for is not predicted."""
        found = HDF5.predict(box, inside("", spec)[1], stored)
        return {**found, "requested": math.nan, "requested_reads": math.nan}


FORMAT = Opendap()
