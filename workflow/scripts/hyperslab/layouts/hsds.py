"""Layouts of HSDS: the chunks of a dataset are objects of their own, which a server reads and writes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hyperslab.layouts.chunks import chunk_count
from hyperslab.layouts.environments import made
from hyperslab.layouts.hsds_filters import FILTERS
from hyperslab.layouts.layout import Abilities, Array, Layout, Setting
from hyperslab.layouts.parameters import in_short

# Seen on one machine, as an estimate: a chunk passes from a data node to the service node to the client.
PIECE_SECONDS, RESTART_SECONDS = 4e-3, 3.0
# The environment of server and client.
ENVIRONMENT = "hsds-1.0.2"
# Descriptions of domain, group and dataset, the folders above them, and what the server notes of a domain.
OTHER_OBJECTS, OTHER_FOLDERS, OTHER_BYTES = 12, 16, 2**16
BLOCK_BYTES = 4096


class HsdsLayout(Layout):
    """A resolved layout of a dataset behind HSDS."""

    title = "HSDS"
    suffix = ".hsds"
    abilities = Abilities()
    settings = {
        "dtype": Setting("Type of the elements"),
        "node_count": Setting("HSDS: data nodes"),
        "chunk_cache_bytes": Setting("HSDS: chunk cache of each data node", size=True),
        "transfer": Setting("HSDS: values travel as"),
    }
    libraries = {"hsds": "HSDS", "h5pyd": "h5pyd"}

    def largest_bytes(self, array: Array, arrays: int = 0) -> int:
        """Return an upper bound: whole chunks that no filter shrinks, descriptions, blocks of files."""
        assert self.chunks is not None
        extra = sum(FILTERS[one["name"]].extra for one in self.described["filters"])
        one = math.prod(self.chunks) * array.itemsize + extra + BLOCK_BYTES
        return chunk_count(array.shape, self.chunks) * one + OTHER_BYTES + OTHER_FOLDERS * BLOCK_BYTES

    def largest_files(self, array: Array) -> int:
        """Return an upper bound of the number of objects and folders: an object a chunk, and few others."""
        assert self.chunks is not None
        return chunk_count(array.shape, self.chunks) + OTHER_OBJECTS + OTHER_FOLDERS

    def piece_seconds(self) -> float:
        """Return about how long a chunk takes on its way through the server."""
        return PIECE_SECONDS

    def restart_seconds(self) -> float:
        """Return about how long HSDS takes until it answers."""
        return RESTART_SECONDS

    def filters_text(self) -> str:
        """Return the filters as one short text, such as "gzip 4, fletcher32"."""
        return ", ".join(in_short(one, FILTERS) for one in self.described["filters"])

    def words(self, axes: Sequence[str], itemsize: int) -> str:
        """Return what every layout says of itself, and the server."""
        said, settings = super().words(axes, itemsize), self.described["settings"]
        nodes = f"{settings['nodes']} data node{'' if settings['nodes'] == 1 else 's'}"
        tasks = f", up to {settings['tasks']:,} tasks at once" if "tasks" in settings else ""
        return f"{said}, HSDS with {nodes}{tasks}" + (", as JSON" if settings["transfer"] == "json" else "")

    def _chunks_text(self, axes: Sequence[str], itemsize: int) -> str:
        return f"{super()._chunks_text(axes, itemsize)}, an object each"

    def copied(self) -> None:
        """Return None: what the server keeps is read through it."""

    def clients(self) -> tuple[str, ...]:
        """Return the module of HSDS's client."""
        return ("h5pyd",)

    def environment(self) -> str | None:
        """Return what says that the environment of HSDS is complete."""
        return made(ENVIRONMENT)


LAYOUT = HsdsLayout
