"""HSDS through h5pyd: create a domain with a dataset, write, open, read, report what the server says."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.data.selections import Box
from hyperslab.data.tiles import tiles
from hyperslab.data.values import Values
from hyperslab.formats import Format, OpenArray
from hyperslab.formats.hsds import inspection, transfer
from hyperslab.formats.hsds.server import (
    DOMAIN,
    FAILED,
    NO_CONTENT,
    OK,
    PAUSE_S,
    TIMEOUT_S,
    HsdsArtifact,
    answered,
    client,
    keywords,
)
from hyperslab.layouts import layout_of
from hyperslab.layouts.hsds_filters import FILTERS
from hyperslab.measuring.machine import versions_of
from hyperslab.measuring.servers import Connection, ServerError, connection_of
from hyperslab.specifications import Specification

Block = npt.NDArray[Any]
DATASET = "data"
# h5pyd keeps what is written until it is flushed: not more than this.
PENDING_BYTES = 32 * 2**20
# So long may it take until the server has written all that it keeps.
FLUSH_S = 900.0


class HsdsArray(OpenArray):
    """The array of one open domain; boxes are in array terms, which are those of the server."""

    def __init__(self, file: Any, connection: Connection, spec: Specification) -> None:
        self._file, self._connection = file, connection
        try:
            self._dataset = answered(connection, lambda: file[DATASET])
        except BaseException:
            # Its idle connection would keep a task of the server from another client.
            with suppress(Exception):
                file.close()
            raise
        self._dtype = np.dtype(spec["dataset"]["dtype"])
        self._json = spec["layout"]["settings"]["transfer"] == "json"
        self._pending = 0

    @property
    def http(self) -> Any:
        """The connection that h5pyd has opened."""
        return self._file.id.db.plugin.http_conn

    @property
    def dataset(self) -> Any:
        """The dataset as h5pyd has it."""
        return self._dataset

    def reader(self, box: Box) -> Callable[[], Block]:
        """Return a read of `box` that lacks nothing but the read."""
        dataset, connection, index = self._dataset, self._connection, box.slices()
        if self._json:
            http, identity, dtype = self.http, dataset.id.uuid, self._dtype
            return lambda: answered(connection, lambda: transfer.read(http, identity, box, dtype))

        def ask() -> Block:
            found: Block = dataset[index]
            if found.shape != box.extent:
                raise ServerError(f"HSDS gives {found.shape} for {transfer.select(box)}")
            return found

        return lambda: answered(connection, ask)

    def write(self, box: Box, block: Block) -> None:
        """Store `block` at `box`: as JSON at once, else with others that h5pyd keeps up to PENDING_BYTES."""
        if self._json:
            answered(self._connection, lambda: transfer.write(self.http, self._dataset.id.uuid, box, block))
            return
        # h5pyd keeps it, but sends all that it keeps now and then.
        answered(self._connection, lambda: self._dataset.__setitem__(box.slices(), block))
        self._pending += block.nbytes
        if self._pending >= PENDING_BYTES:
            self._send()

    def _send(self) -> None:
        answered(self._connection, self._file.flush)
        self._pending = 0

    def flush(self) -> None:
        """Hand everything to the server, and have it write all that it keeps."""
        self._send()

        end = time.monotonic() + FLUSH_S

        def written() -> None:
            while (status := self.http.PUT("/", params={"flush": 1}).status_code) not in (OK, NO_CONTENT):
                # The server says so where ten seconds were not enough; it writes some 30 chunks a second.
                if status != FAILED or time.monotonic() > end:
                    raise OSError(status, "not flushed")
                time.sleep(PAUSE_S)

        answered(self._connection, written)

    def close(self) -> None:
        """Close the connection; what h5pyd keeps is sent before."""
        answered(self._connection, self._file.close)


class Hsds(Format):
    """The HSDS side of the format seam."""

    artifact = HsdsArtifact

    def versions(self) -> dict[str, str]:
        """Return the versions of server and client, and of what they rest on."""
        return versions_of(("hsds", "h5pyd", "h5json", "aiohttp", "numcodecs"))

    def create(self, path: str, spec: Specification) -> HsdsArray:
        """Create the domain and an empty dataset; raises ServerError where it is not as asked for."""
        connection = connection_of(path)
        file = self._opened(connection, "w")
        asked = layout_of(spec["layout"]).chunks
        assert asked is not None
        dataset, filters = spec["dataset"], {one["name"]: one for one in spec["layout"]["filters"]}
        compressor = next((name for name in filters if FILTERS[name].compresses), None)
        level = filters.get(compressor or "", {}).get("level")
        if compressor is not None and level is None:
            level = FILTERS[compressor].parameters["level"].default
        answered(
            connection,
            lambda: file.create_dataset(
                DATASET, shape=tuple(dataset["shape"]), dtype=dataset["dtype"], chunks=tuple(asked),
                compression=compressor, compression_opts=level, fletcher32="fletcher32" in filters,
            ),
        )  # fmt: skip
        answered(connection, file.flush)
        created = HsdsArray(file, connection, spec)
        if tuple(created.dataset.chunks) != tuple(asked):
            raise ServerError(f"HSDS stores chunks of {created.dataset.chunks}, not of {tuple(asked)}")
        return created

    def _opened(self, connection: Connection, mode: str) -> Any:
        h5pyd = client()
        return answered(
            connection,
            lambda: h5pyd.File(DOMAIN, mode, retries=1, timeout=TIMEOUT_S, **keywords(connection)),
        )

    def prepare(self, spec: Specification) -> None:
        """Load the client; raises Unavailable."""
        client()

    def open(self, path: str, spec: Specification) -> HsdsArray:
        """Open for reading; raises ServerError where there is no server, or it refuses."""
        connection = connection_of(path)
        return HsdsArray(self._opened(connection, "r"), connection, spec)

    def generate(self, path: str, spec: Specification, values: Values) -> str:
        """Fill a new dataset through the server, chunk by chunk; returns "plain"."""
        binary: Specification = {**spec, "layout": {**spec["layout"]}}
        binary["layout"]["settings"] = {**spec["layout"]["settings"], "transfer": "binary"}
        opened = self.create(path, binary)
        try:
            chunks = layout_of(spec["layout"]).chunks or []
            for tile in tiles(spec["dataset"]["shape"], chunks, values.dtype.itemsize):
                opened.write(tile, values.block(tile.origin, tile.extent))
            opened.flush()
        finally:
            opened.close()
        return "plain"

    def report(self, path: str, spec: Specification) -> dict[str, Any]:
        """Return sizes in bytes, counts of objects, and the settings that the server says are in force."""
        connection = connection_of(path)
        opened = self.open(path, spec)
        try:
            dataset = opened.dataset
            about = answered(connection, lambda: opened.http.GET("/about").json())
            settings = {
                "dataset_layout": "H5D_CHUNKED",
                "dtype": str(dataset.dtype),
                "chunk": list(dataset.chunks),
                "filters": dataset.id.filters,
                "node_count": about["node_count"],
                "chunk_cache_bytes": spec["layout"]["settings"]["chunk_cache_bytes"],
                "transfer": spec["layout"]["settings"]["transfer"],
                "server": about["hsds_version"],
            }
        finally:
            opened.close()
        return inspection.report(self.objects(path), self.folders(path), spec, settings)

    def objects(self, path: str) -> inspection.Objects:
        """Return the bytes of every object that the server keeps, by its name."""
        return inspection.objects_below(path)

    def folders(self, path: str) -> int:
        """Return the number of directories in which they lie."""
        return sum(1 for _ in os.walk(path))

    def stored_sizes(self, path: str, spec: Specification) -> dict[str, Any]:
        """Return what `predict` needs: the bytes of every chunk."""
        return {"stored": inspection.chunks_of(self.objects(path))}

    def predict(self, box: Box, spec: Specification, stored: dict[str, Any]) -> dict[str, float]:
        """Return the chunks that a selection touches and their bytes, which the server reads whole.

        With a filter its first request reads more, what Python loads then, which is not predicted.
        """
        chunks = layout_of(spec["layout"]).chunks
        assert chunks is not None
        sizes = inspection.touched(box, chunks, stored["stored"])
        requested = math.nan if spec["layout"]["filters"] else sum(sizes)
        return {"chunks_touched": len(sizes), "chunk_bytes": sum(sizes), "requested": requested}


FORMAT = Hsds()
