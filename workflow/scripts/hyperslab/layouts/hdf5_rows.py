"""Ragged rows in HDF5: the variable-length type, or vectors and arrays of a fixed type."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hyperslab import text
from hyperslab.layouts.hdf5 import FILE_BYTES, OBJECT_BYTES, Filtered, Hdf5Layout
from hyperslab.layouts.hdf5_filters import largest_chunk_bytes
from hyperslab.layouts.layout import Abilities, Array
from hyperslab.layouts.rows import RowsLayout

# A reference into the global heap: length, address of the collection, index in it (H5T_VLEN in a file).
REFERENCE_BYTES = 16
# Header of an object in the heap, and the multiple to which its size is filled up (H5HG_SIZEOF_OBJHDR).
HEAP_OBJECT_BYTES, HEAP_ALIGNMENT = 16, 8
# A collection of the heap has at least so many (H5HG_MINSIZE).
HEAP_BYTES = 4096
# What can be written while others read.
FOLLOWED_LIBVERS = ("v110", "v112", "v114", "latest")
# Variable-length types lose what a filter's set_local finds out (HDF5 issue 5942); these need nothing of it.
OF_REFERENCES = ("gzip", "lzf", "zstd", "lz4", "bzip2")
# A chunk's entry in any of HDF5's indexes, with room to spare.
ENTRY_BYTES = 64


@dataclass(frozen=True)
class Storage:
    """One way of keeping rows: its words, bytes a row beside its values, and what can be said of it.

    chunked_values: values can lie in chunks of a number of bytes. offsets: offsets instead of lengths can be
    asked for. vector: each of its two datasets has a chunk cache of its own, and space of replaced rows can
    be reused. padded: each row is filled up to the longest. replaced: a row can be replaced by a longer one.
    followed: others can read rows while some are added. rewriting: a user's rows can be rewritten to it.
    only_filters: those that can treat its references to rows, where others cannot.
    """

    words: str
    bytes_a_row: int
    chunked_values: bool = True
    offsets: bool = False
    vector: bool = False
    padded: bool = False
    replaced: bool = True
    followed: bool = True
    rewriting: bool = False
    only_filters: tuple[str, ...] = ()
    # Chunks where nothing is said: bytes of values without and with filters, and rows.
    chunk_bytes: int | None = None
    filtered_chunk_bytes: int | None = None
    row_chunk: int | None = None

    def filters_refusal(self, filters: Sequence[Mapping[str, Any]]) -> str | None:
        """Return which filter cannot treat references to rows, or None."""
        strange = [chosen["name"] for chosen in filters if chosen["name"] not in self.only_filters]
        if not (self.only_filters and strange):
            return None
        known = ", ".join(self.only_filters)
        return f"{strange[0]} cannot treat references of variable-length rows; {known} can"


STORAGES = {
    "vlen": Storage(
        "variable-length type", REFERENCE_BYTES + HEAP_OBJECT_BYTES + HEAP_ALIGNMENT, False,
        followed=False, rewriting=True, only_filters=OF_REFERENCES,
    ),
    "flattened": Storage("flattened vector with lengths", 8, offsets=True, replaced=False),
    "offset-vector": Storage(
        "byte vector with offsets and lengths", 16, vector=True, rewriting=True, chunk_bytes=2**23,
        filtered_chunk_bytes=2**20, row_chunk=4096,
    ),
    "padded": Storage("padded array with lengths", 8, False, padded=True),
}  # fmt: skip


class Hdf5RowsLayout(Filtered, RowsLayout):
    """A resolved layout of ragged rows in an HDF5 file."""

    title = "HDF5 rows"
    suffix = ".h5"
    libraries = Hdf5Layout.libraries
    settings = Hdf5Layout.settings
    abilities = Abilities(many_arrays=True, rewriting=True)

    @property
    def storage(self) -> Storage:
        """The way in which rows are kept."""
        return STORAGES[self.described["storage"]]

    def largest_bytes(self, array: Array, arrays: int = 0) -> int:
        """Return an upper bound: rows as they are or padded, what leads to them, whole chunks, indexes."""
        rows, storage = math.prod(array.shape), self.storage
        values: int = rows * self.described["width"] * array.itemsize if storage.padded else array.nbytes
        beside = rows * storage.bytes_a_row
        # A heap collection holds at least 4096 bytes, of which the last row may leave almost half free.
        heap = not (storage.chunked_values or storage.padded)
        values *= 2 if heap else 1
        chunks = values // self.chunk_bytes + 1 if self.chunk_bytes else 1
        chunks += rows // self.row_chunk + 1 if self.row_chunk else 1
        width = self.described["width"] * array.itemsize if storage.padded else 0
        largest = max(self.chunk_bytes or 1, (self.row_chunk or 1) * max(REFERENCE_BYTES, width))
        grown = largest_chunk_bytes(self.filters, [largest], 1) / largest
        size = math.ceil((values + beside) * grown) + chunks * ENTRY_BYTES + 2 * largest
        settings = self.described["settings"]
        page: int = settings.get("paging", {}).get("page_bytes", 0)
        if page:
            # What crosses no border of a page leaves less than half of its pages empty.
            size = 2 * size + 8 * page
        # Up to an alignment may stay free before each chunk, each node of an index and each collection.
        pieces = 2 * chunks + 16 + (size // HEAP_BYTES if heap else 0)
        aligned: int = settings.get("alignment", {}).get("bytes", 1) - 1
        blocks: int = 2 * settings.get("meta_block_bytes", 0)
        size += pieces * aligned + blocks
        return size + max(arrays, 1) * OBJECT_BYTES * 2 + FILE_BYTES

    def flush_bytes(self, itemsize: int) -> int:
        """Return by how much each flush beside readers can make a file longer: a filtered chunk that changed
        gets another place, and its old one is lost.
        """
        if not self.filters:
            return 0
        if self.chunk_bytes:
            chunk = largest_chunk_bytes(self.filters, [self.chunk_bytes], 1)
        else:
            chunk = largest_chunk_bytes(
                self.filters, [self.row_chunk or 1, self.described["width"]], itemsize
            )
        aligned: int = self.described["settings"].get("alignment", {}).get("bytes", 1) - 1
        return chunk + aligned

    def growth_refusal(self) -> str | None:
        """Return which chunks are missing for rows to be added, or None."""
        if self.storage.chunked_values and not self.chunk_bytes:
            return "a contiguous vector cannot grow; give the layout chunk_bytes"
        return None if self.row_chunk else "contiguous datasets cannot grow; give the layout a row_chunk"

    def rewrite_refusal(self) -> str | None:
        """Return why a row cannot be replaced: there is no room between two flattened ones; or None."""
        return None if self.storage.replaced else "flattened rows lie side by side, and cannot be replaced"

    def follow_refusal(self) -> str | None:
        """Return what HDF5's mode for one writer and many readers lacks here, or None."""
        if not self.storage.followed:
            return "HDF5's mode for readers beside a writer does not reach the global heap"
        settings = self.described["settings"]
        if settings["libver"] not in FOLLOWED_LIBVERS:
            known = ", ".join(FOLLOWED_LIBVERS)
            return f"readers beside a writer need another settings.libver than {settings['libver']}: {known}"
        if beside := [key for key in ("driver", "paging") if key in settings]:
            return (
                f"readers beside a writer need HDF5's default way to the file; leave settings.{beside[0]} out"
            )
        return self.growth_refusal()

    def words(self, axes: Sequence[str], itemsize: int) -> str:
        """Return how rows are kept, and what every layout says of itself."""
        kept = self.storage.words
        if self.described.get("offsets"):
            kept = kept.replace("lengths", "offsets")
        if self.described.get("reuse"):
            kept += ", space of replaced rows reused"
        caches = [
            f"{name} cache of {text.size(self.described[key])}"
            for key, name in (("chunk_cache", "chunk"), ("row_cache", "row"))
            if key in self.described
        ]
        return ", ".join([kept, super().words(axes, itemsize), *caches])


LAYOUT = Hdf5RowsLayout
