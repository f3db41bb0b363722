"""Layouts of HDF5: contiguous, compact or chunked datasets with filters and library settings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hyperslab.layouts import chunks as arithmetic
from hyperslab.layouts import hdf5_index
from hyperslab.layouts.chunks import Shape
from hyperslab.layouts.hdf5_filters import (
    chunk_refusal,
    encoding_seconds,
    largest_chunk_bytes,
    lossy,
    promised_error,
    text,
)
from hyperslab.layouts.hdf5_releases import made
from hyperslab.layouts.layout import Abilities, Array, Layout, Setting

# Header of a dataset, its links, and one node of a version-1 B-tree of its chunks.
OBJECT_BYTES = 4096
# Superblock, object headers and local heaps of a file, with room to spare.
FILE_BYTES = 2**16
# A message of an object header is below 64 KiB (H5O_MESG_MAX_SIZE), and 4 bytes of it describe the layout.
COMPACT_BYTES = 2**16 - 1 - 4
# How calls of MPI ranks move data (H5Pset_dxpl_mpio).
SUB_VOLUME_WAYS = ("independent", "collective")
# Why a layout of two copies is not recommended, however fast.
TWO_COPIES = (
    "it holds the array twice, which is an answer of its own (recommendation.copies: true lets it in)"
)
# Seen with HDF5 2.0: nothing of such a dataset is stored, and no call fails.
LOSS = (
    "never loses the values of a dataset of one chunk from libver v110 on; take another chunk shape, "
    "`alloc_time: early` or libver v108"
)


def paged_bytes(count: int, size: int, settings: Mapping[str, Any]) -> int:
    """Return what so many pieces of at most `size` bytes take, of which none crosses the border of a page."""
    page: int = settings.get("paging", {}).get("page_bytes", 1)
    if size >= page:
        return count * -(-size // page) * page
    return -(-count // (page // size)) * page


def loses_one_chunk(settings: Mapping[str, Any]) -> bool:
    """Return whether HDF5 forgets to allocate a dataset of one chunk that its cache does not hold."""
    new = settings.get("libver", "default") not in ("earliest", "v108", "default")
    late = settings.get("alloc_time") in (None, "incremental")
    return new and settings.get("fill_time") == "never" and late


class Filtered(Layout):
    """A resolved layout whose chunks go through filters of HDF5."""

    @property
    def filters(self) -> list[dict[str, Any]]:
        """The filters, in order, each with its name and options."""
        found: list[dict[str, Any]] = self.described["filters"]
        return found

    def encoding_seconds(self, size: int) -> float:
        """Return about how long the filters take to encode so many bytes."""
        return encoding_seconds(self.filters, size)

    def filters_text(self) -> str:
        """Return the filters as one short text, such as "shuffle, gzip 4"."""
        return ", ".join(map(text, self.filters))


class Hdf5Layout(Filtered):
    """A resolved layout of an HDF5 dataset."""

    title = "HDF5"
    suffix = ".h5"
    libraries = {"h5py": "h5py", "hdf5": "HDF5"}
    released: str | None = "hdf5"
    abilities = Abilities(
        memory_types=True, strides=True, many_arrays=True, ranks=True, rewriting=True, collections=True
    )
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

    def for_case(self, case: str) -> Mapping[str, Any]:
        """Return the layout of the copy that a case reads; what stands beside it in the file is `beside`."""
        if not (second := self.described.get("second")):
            return self.described
        first = {key: self.described[key] for key in ("chunks", "filters")}
        other = {key: second[key] for key in first}
        mine, beside = (other, first) if case in second["cases"] else (first, other)
        rest = {key: value for key, value in self.described.items() if key != "second"}
        return {**rest, **mine, "beside": beside}

    def named_cases(self) -> list[str]:
        """Return the cases that read the second copy."""
        found: list[str] = self.described.get("second", {}).get("cases", [])
        return found

    def largest_bytes(self, array: Array, arrays: int = 0) -> int:
        """Return an upper bound: whole chunks that no filter shrinks, their index, and a little."""
        if second := self.described.get("second"):
            rest = {key: value for key, value in self.described.items() if key != "second"}
            copies = ({**rest, "chunks": one["chunks"], "filters": one["filters"]} for one in (rest, second))
            return sum(Hdf5Layout(copy).largest_bytes(array, arrays) for copy in copies)
        settings = self.described["settings"]
        size, pieces = math.prod(array.shape) * array.itemsize, arrays
        if self.chunks:
            chunks = arithmetic.chunk_count(array.shape, self.chunks)
            nodes = hdf5_index.btree_nodes(chunks)
            chunk_bytes = largest_chunk_bytes(self.filters, self.chunks, array.itemsize)
            size = paged_bytes(chunks, chunk_bytes, settings)
            if self.filters:
                # Chunks that are written in parts are stored again, larger, and not all old places filled.
                size += size // 8
            size += paged_bytes(nodes, hdf5_index.btree_node_bytes(len(array.shape)), settings)
            pieces += chunks + nodes
        elif arrays:
            size = paged_bytes(arrays, math.ceil(size / arrays), settings)
        # Up to an alignment may stay free before each piece, and of a dataset before its header and index.
        aligned: int = settings.get("alignment", {}).get("bytes", 1) - 1
        # A block of metadata and one of small raw data, or a page of each type of space, may stay half empty.
        blocks: int = 2 * settings.get("meta_block_bytes", 0)
        pages: int = 8 * settings.get("paging", {}).get("page_bytes", 0)
        size += sum(layout.largest_bytes(part) for layout, part in self.coarser(array))
        return size + arrays * OBJECT_BYTES + (3 * pieces + 16) * aligned + blocks + pages + FILE_BYTES

    def refusal(self, shape: Shape, itemsize: int) -> str | None:
        """Return why a dataset of this shape cannot be compact, or its chunks filtered or kept, or None."""
        size = math.prod(shape) * itemsize
        if self.described.get("storage") == "compact" and size > COMPACT_BYTES:
            return f"compact storage holds at most {COMPACT_BYTES:,} bytes, and a dataset would have {size:,}"
        for copy in (self.described, self.described.get("second", {})):
            # Of many arrays in a file each has all axes but the first.
            chunk = (copy.get("chunks") or [])[-len(shape) :]
            if wrong := chunk_refusal(copy.get("filters", []), chunk):
                return wrong
            if chunk == list(shape) and not copy["filters"] and loses_one_chunk(self.described["settings"]):
                return f"fill_time: {LOSS}"
        return None

    def fits(self, shape: Shape) -> bool:
        """Return whether a smaller array than the study's can be stored so, in both copies if it has two."""
        second = self.described.get("second") or {}
        return super().fits(shape) and all(
            c <= s for c, s in zip(second.get("chunks") or shape, shape, strict=True)
        )

    def ranks_mistake(self, making: bool = False) -> str | None:
        """Return which setting would not be in force, as MPI ranks open files in their own way, or None."""
        settings = self.described["settings"]
        if self.described.get("release"):
            return "ranks have the HDF5 of their own environment, not another release"
        if settings.get("driver"):
            return "ranks open the file by the driver of MPI-IO, not by another"
        if settings.get("paging", {}).get("buffer_bytes"):
            return "parallel HDF5 has no page buffer; leave paging.buffer_bytes out"
        # With filters this depends on the release (H5D__create).
        if making and settings.get("alloc_time", "early") != "early" and not self.filters:
            return "ranks make a dataset with all of its space: alloc_time is early"
        return None

    def sub_volumes_mistake(self, way: str, along: Sequence[str]) -> str | None:
        """Return why MPI ranks cannot each write a sub-volume, or None."""
        if way not in SUB_VOLUME_WAYS:
            return f"ranks write HDF5 by calls that are {' or '.join(SUB_VOLUME_WAYS)}, not {way}"
        if self.filters and way == "independent":
            return "ranks write chunks that go through filters by collective calls alone"
        if self.described.get("storage") == "compact":
            return "ranks write contiguous or chunked datasets"
        return self.ranks_mistake(making=True)

    def within(self, shape: Shape) -> Mapping[str, Any]:
        """Return the layout with chunks cut to the array's extents, which HDF5 demands of them."""
        if not self.chunks:
            return self.described
        chunks = [min(chunk, extent) for chunk, extent in zip(self.chunks, shape, strict=True)]
        return {**self.described, "chunks": chunks}

    def lossy(self) -> bool:
        """Return whether a filter may change values, in the second copy too where there is one."""
        return lossy([*self.filters, *self.described.get("second", {}).get("filters", [])])

    def promised_error(self) -> float | None:
        """Return the largest absolute error that lossy filters promise; None without a promise of each."""
        return promised_error(self.filters)

    def words(self, axes: Sequence[str], itemsize: int) -> str:
        """Return what every layout says of itself, dimensions, and the release of HDF5 that it names."""
        said, release = super().words(axes, itemsize), self.described.get("release")
        if second := self.described.get("second"):
            other = Hdf5Layout({**second, "order": self.order, "settings": {}}).words(axes, itemsize)
            said = f"{said}; beside it for {', '.join(second['cases'])} {other}"
        said += ", with dimensions of netCDF-4" if self.described.get("netcdf") else ""
        return f"{said}, HDF5 {release}" if release else said

    def environment(self) -> str | None:
        """Return what says that the environment of the release that the layout names is complete."""
        release = self.described.get("release")
        return made(release) if release else None

    def other_file_systems(self) -> list[str]:
        """Return where the split driver keeps metadata, if the layout has it."""
        place = self._driver().get("metadata_on")
        return [place] if place else []

    def unfit(self, copies: bool = False) -> str | None:
        """Return why a layout of two copies is not recommended, or None."""
        return TWO_COPIES if "second" in self.described and not copies else None

    def _driver(self) -> dict[str, Any]:
        found: dict[str, Any] = self.described["settings"].get("driver", {})
        return found


LAYOUT = Hdf5Layout
