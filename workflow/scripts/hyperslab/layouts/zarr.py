"""Layouts of Zarr: a file a chunk, or a file a shard of several, with codecs; none has a setting of HDF5."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hyperslab.layouts import zarr_store
from hyperslab.layouts.chunks import Shape
from hyperslab.layouts.layout import Abilities, Array, Layout, Setting
from hyperslab.layouts.zarr_codecs import text

# What a level adds to the description of a group.
GROUP_BYTES = 4096
# Seen on one machine, as an estimate.
PIECE_SECONDS = {"default": 150e-6, "zarrs": 30e-6}


class ZarrLayout(Layout):
    """A resolved layout of a Zarr array, version 3, in a directory."""

    title = "Zarr"
    suffix = ".zarr"
    abilities = Abilities(coarse_levels=True, forgets=True, rewriting=True, collections=True)
    settings = {
        "dtype": Setting("Type of the elements"),
        "codec_pipeline.path": Setting("Zarr: codec pipeline"),
        "async.concurrency": Setting("Zarr: chunks at once"),
        "codec_pipeline.chunk_concurrent_maximum": Setting("zarrs: most chunks at once"),
        "threading.max_workers": Setting("Zarr: most threads"),
        "write_empty_chunks": Setting("Zarr: empty chunks stored"),
    }

    def largest_bytes(self, array: Array, arrays: int = 0) -> int:
        """Return an upper bound: whole chunks that no codec shrinks, indexes, zarr.json, blocks of files."""
        size = zarr_store.largest_bytes(self.described, array.axes, array.shape, array.itemsize)
        return size + sum(layout.largest_bytes(part) + GROUP_BYTES for layout, part in self.coarser(array))

    def largest_files(self, array: Array) -> int:
        """Return the number of files and folders, where every chunk is stored."""
        count = zarr_store.file_count(self.described, array.axes, array.shape)
        # A pyramid lies in a group, which is a folder with a file.
        group = 2 if self.coarser_levels else 0
        return count + group + sum(layout.largest_files(part) for layout, part in self.coarser(array))

    def rewritten_bytes(self, shape: Shape, extent: Shape, itemsize: int, origin: Shape | None = None) -> int:
        """Return what is read and written again where boxes of `extent` cover only parts of files."""
        return zarr_store.rewritten_bytes(self.described, shape, extent, itemsize, origin)

    def piece_seconds(self) -> float:
        """Return about how long a chunk takes: each passes through zarr-python, or through zarrs."""
        return PIECE_SECONDS[self.described["settings"]["pipeline"]]

    def files_of(self, axes: Sequence[str], origin: Shape, extent: Shape) -> list[str] | None:
        """Return the names of the files that hold a box, and of what describes the array."""
        if self.coarser_levels:
            return None
        return zarr_store.file_names(self.described, axes, origin, extent)

    def filters_text(self) -> str:
        """Return the codecs as one short text, such as "zstd 3, crc32c"."""
        return ", ".join(map(text, self.described["codecs"]))

    def words(self, axes: Sequence[str], itemsize: int) -> str:
        """Return what every layout says of itself, its shards, and what reads it if not zarr-python alone."""
        said, pipeline = super().words(axes, itemsize), self.described["settings"]["pipeline"]
        return f"{said}, Zarr" + (f" through {pipeline}" if pipeline != "default" else "")

    def _chunks_text(self, axes: Sequence[str], itemsize: int) -> str:
        said = super()._chunks_text(axes, itemsize)
        if "shards" not in self.described:
            return f"{said}, a file each"
        shards = self.described["shards"]
        size = itemsize * math.prod(shards)
        return f"{said} in shards of {'x'.join(map(str, shards))} ({size / 2**20:,.4g} MiB)"


LAYOUT = ZarrLayout
