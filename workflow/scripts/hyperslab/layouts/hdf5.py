"""Layouts of HDF5: contiguous, compact or chunked datasets with filters and library settings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hyperslab.layouts import chunks as arithmetic
from hyperslab.layouts import hdf5_index
from hyperslab.layouts.chunks import Shape
from hyperslab.layouts.hdf5_filters import largest_chunk_bytes, lossy, promised_error, text
from hyperslab.layouts.hdf5_releases import made
from hyperslab.layouts.layout import Abilities, Array, Layout, Setting

# Header of a dataset, its links, and one node of a version-1 B-tree of its chunks.
OBJECT_BYTES = 4096
# Superblock, object headers and local heaps of a file, with room to spare.
FILE_BYTES = 2**16
# A message of an object header is below 64 KiB (H5O_MESG_MAX_SIZE), and 4 bytes of it describe the layout.
COMPACT_BYTES = 2**16 - 1 - 4
# Why the core driver is not recommended, however fast: the work is done outside the time of a selection.
IN_MEMORY = "the core driver reads the whole file when it is opened, which is not in the time of a selection"


class Hdf5Layout(Layout):
    """A resolved layout of an HDF5 dataset."""

    title = "HDF5"
    suffix = ".h5"
    libraries = {"h5py": "h5py", "hdf5": "HDF5"}
    released = "hdf5"
    abilities = Abilities(memory_types=True, strides=True, many_arrays=True, ranks=True, rewriting=True)
    settings = {
        "chunk_cache_bytes": Setting("Chunk cache", size=True),
        "chunk_cache_slots": Setting("Chunk cache slots"),
        "chunk_cache_w0": Setting("Chunk cache w0"),
        "sieve_bytes": Setting("Sieve buffer", size=True),
        "meta_block_bytes": Setting("Metadata block", size=True),
        "libver": Setting("File format versions (libver)"),
        "alloc_time": Setting("Space allocated"),
        "fill_time": Setting("Fill values written"),
        "conversion_buffer_bytes": Setting("Conversion buffer", size=True),
        "metadata_cache": Setting("Metadata cache"),
        "alignment": Setting("Alignment"),
        "driver": Setting("Driver"),
        "paging": Setting("File space"),
        "garbage_collect_every": Setting("Garbage collected every"),
        "dtype": Setting("Type of the elements"),
    }

    @property
    def filters(self) -> list[dict[str, Any]]:
        """The filters, in order, each with its name and options."""
        found: list[dict[str, Any]] = self.described["filters"]
        return found

    def largest_bytes(self, array: Array, arrays: int = 0) -> int:
        """Return an upper bound: whole chunks that no filter shrinks, their index, and a little."""
        size, pieces = math.prod(array.shape) * array.itemsize, arrays
        if self.chunks:
            chunks = arithmetic.chunk_count(array.shape, self.chunks)
            nodes = hdf5_index.btree_nodes(chunks)
            size = chunks * largest_chunk_bytes(self.filters, self.chunks, array.itemsize)
            size += nodes * hdf5_index.btree_node_bytes(len(array.shape))
            pieces += chunks + nodes
        settings = self.described["settings"]
        # Up to an alignment may stay free before each piece, and of a dataset before its header and index.
        aligned: int = settings.get("alignment", {}).get("bytes", 1) - 1
        # A block of metadata and one of small raw data, or a page of each type of space, may stay half empty.
        blocks: int = 2 * settings.get("meta_block_bytes", 0)
        pages: int = 8 * settings.get("paging", {}).get("page_bytes", 0)
        return size + arrays * OBJECT_BYTES + (3 * pieces + 16) * aligned + blocks + pages + FILE_BYTES

    def refusal(self, shape: Shape, itemsize: int) -> str | None:
        """Return why a dataset of this shape cannot be compact, or None."""
        size = math.prod(shape) * itemsize
        if self.described.get("storage") == "compact" and size > COMPACT_BYTES:
            return f"compact storage holds at most {COMPACT_BYTES:,} bytes, and a dataset would have {size:,}"
        return None

    def lossy(self) -> bool:
        """Return whether a filter may change values."""
        return lossy(self.filters)

    def promised_error(self) -> float | None:
        """Return the largest absolute error that lossy filters promise; None without a promise of each."""
        return promised_error(self.filters)

    def filters_text(self) -> str:
        """Return the filters as one short text, such as "shuffle, gzip 4"."""
        return ", ".join(map(text, self.filters))

    def words(self, axes: Sequence[str], itemsize: int) -> str:
        """Return what every layout says of itself, and the release of HDF5 that it names."""
        said, release = super().words(axes, itemsize), self.described.get("release")
        return f"{said}, HDF5 {release}" if release else said

    def environment(self) -> str | None:
        """Return what says that the environment of the release that the layout names is complete."""
        release = self.described.get("release")
        return made(release) if release else None

    def other_file_systems(self) -> list[str]:
        """Return where the split driver keeps metadata, if the layout has it."""
        place = self._driver().get("metadata_on")
        return [place] if place else []

    def unfit(self) -> str | None:
        """Return why a layout read by the core driver is not recommended, or None."""
        return IN_MEMORY if self._driver().get("name") == "core" else None

    def _driver(self) -> dict[str, Any]:
        found: dict[str, Any] = self.described["settings"].get("driver", {})
        return found


LAYOUT = Hdf5Layout
