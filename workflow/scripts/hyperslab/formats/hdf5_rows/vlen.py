"""Rows of HDF5's variable-length type: references in a dataset, values in collections of the global heap."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence
from functools import cached_property
from mmap import ALLOCATIONGRANULARITY, PROT_READ, mmap
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from h5py import h5t

from hyperslab.data.rows import Lengths, RowBlock, joined
from hyperslab.formats.hdf5.inspection import visit_chunks
from hyperslab.formats.hdf5.settings import Lists
from hyperslab.formats.hdf5_rows.parts import (
    Part,
    Places,
    chunks_of,
    creation_of,
    make_dataset,
    run_writer,
    stored,
)
from hyperslab.formats.row_seam import Numbers
from hyperslab.specifications import LayoutSpecification

# A reference in the file: elements, address of a collection, object in it (H5T__vlen_disk_write).
REFERENCE = np.dtype([("length", "<u4"), ("address", "<u8"), ("object", "<u4")])
# A collection: signature, version, three reserved bytes, size with this header (H5HG).
COLLECTION = struct.Struct("<4sB3xQ")
SIGNATURE = b"GCOL"
# Of an object in a collection: index, references, four reserved bytes, size.
OBJECT, HEADER = struct.Struct("<H6xQ"), 16
# Of more rows nobody asks where each lies.
MOST_PLACED = 2**20


class VlenPart(Part):
    """A dataset whose elements are rows."""

    def __init__(self, dataset: h5py.Dataset, dtype: np.dtype[Any]) -> None:
        self._dataset, self._dtype = dataset, dtype
        self._grows = dataset.maxshape[0] is None
        self._memory = h5t.py_create(h5py.vlen_dtype(dtype))

    @property
    def values(self) -> h5py.Dataset:
        """The references."""
        return self._dataset

    @cached_property
    def _found(self) -> npt.NDArray[Any] | None:
        """The references, read once: only a report asks for them, of a file that nobody writes meanwhile."""
        return _references(self._dataset)

    def writer(self, first: int, block: RowBlock) -> Callable[[], None]:
        """Return a write of rows; h5py turns each array into a descriptor of the library's."""
        rows = np.empty(len(block.lengths), h5py.vlen_dtype(self._dtype))
        for number, row in enumerate(block.rows()):
            rows[number] = row
        return run_writer(self._dataset, first, rows, self._memory, self._grows)

    def reader(self, numbers: Numbers) -> Callable[[], Any]:
        """Return a read of rows, as a user of h5py gets them: an array of arrays."""
        dataset = self._dataset
        if isinstance(numbers, range):
            return lambda: dataset[numbers.start : numbers.stop]
        return lambda: dataset[list(numbers)]

    def replacer(self, number: int, row: npt.NDArray[Any]) -> Callable[[], None]:
        """Return a replacement of one row, as a user of h5py makes it."""
        dataset = self._dataset

        def replace() -> None:
            dataset[number] = row

        return replace

    def block(self, found: Any) -> RowBlock:
        """Return what a read gave as a block of rows."""
        return joined(list(found), self._dtype)

    def places(self) -> Places | None:
        """Return where rows lie in the heap, each with its header there; None where a filter hides that."""
        found = self._found
        if found is None or len(found) > MOST_PLACED:
            return None
        found = found[found["length"] > 0]
        places = np.empty((len(found), 2), np.int64)
        order = np.argsort(found["address"], kind="stable")
        addresses, starts = np.unique(found["address"][order], return_index=True)
        with open(self._dataset.file.filename, "rb") as file:
            for address, rows in zip(addresses.tolist(), np.split(order, starts[1:]), strict=False):
                there = _objects(file.fileno(), address)
                places[rows] = [there[number] for number in found["object"][rows].tolist()]
        return places

    def sizes(self) -> dict[str, Any]:
        """Return bytes of references and of values."""
        references, index = stored(self._dataset)
        found = self._found
        values = None if found is None else int(found["length"].sum()) * self._dtype.itemsize
        return {
            "references_bytes": references,
            "chunk_index_bytes": index,
            "values_bytes": values,
            "chunks": chunks_of(self._dataset),
        }

    def shared_sizes(self, parts: Sequence[VlenPart]) -> dict[str, Any]:
        """Return bytes of the heap, how many collections it has, and the bytes of these that nobody uses."""
        collections, used = dict[int, int](), 0
        for part in parts:
            found = part._found
            sizes = None if found is None else _collection_bytes(part._dataset, found)
            if found is None or sizes is None:
                return dict.fromkeys(("heap_bytes", "heap_collections", "lost_bytes"))
            collections |= sizes
            used += _used_bytes(found, part._dtype)
        size, headers = sum(collections.values()), len(collections) * COLLECTION.size
        return {
            "heap_bytes": size,
            "heap_collections": len(collections),
            "lost_bytes": size - used - headers,
        }


def _references(dataset: h5py.Dataset) -> npt.NDArray[Any] | None:
    """Return the references as they lie in the file; None where a filter hides them."""
    if creation_of(dataset).get_nfilters():
        return None
    places: list[tuple[int, int]] = []
    if dataset.chunks:
        visit_chunks(dataset.id, lambda chunk: places.append((chunk.byte_offset, chunk.size)))
    elif (offset := dataset.id.get_offset()) is not None:
        places.append((offset, len(dataset) * REFERENCE.itemsize))
    with open(dataset.file.filename, "rb") as file:
        parts = [os.pread(file.fileno(), size, offset) for offset, size in places]
    return np.frombuffer(b"".join(parts), REFERENCE)


def _collection_bytes(dataset: h5py.Dataset, references: npt.NDArray[Any]) -> dict[int, int] | None:
    """Return address -> bytes of each collection of the heap that a reference names."""
    sizes: dict[int, int] = {}
    with open(dataset.file.filename, "rb") as file:
        for address in np.unique(references["address"][references["length"] > 0]).tolist():
            signature, size = _header(file.fileno(), address)
            if signature != SIGNATURE:
                return None
            sizes[address] = size
    return sizes


def _header(descriptor: int, address: int) -> tuple[bytes, int]:
    """Return the signature and the bytes of the collection at an address."""
    signature, _, size = COLLECTION.unpack(os.pread(descriptor, COLLECTION.size, address))
    return signature, size


def _objects(descriptor: int, address: int) -> dict[int, tuple[int, int]]:
    """Return object -> where it begins and ends, its header included, in the collection at an address."""
    found: dict[int, tuple[int, int]] = {}
    _, size = _header(descriptor, address)
    # Pages of a file that are looked at count as memory of the process until they are let go of.
    begin = address - address % ALLOCATIONGRANULARITY
    with mmap(descriptor, address + size - begin, prot=PROT_READ, offset=begin) as content:
        place, end = address - begin + COLLECTION.size, address + size - begin
        while place + HEADER <= end:
            number, length = OBJECT.unpack_from(content, place)
            # Object 0 is the free space at the end.
            if number == 0:
                break
            stop = place + HEADER + -(-length // 8) * 8
            found[number] = (begin + place, begin + stop)
            place = stop
    return found


def _used_bytes(references: npt.NDArray[Any], dtype: np.dtype[Any]) -> int:
    """Return the bytes that rows take in the heap: each a header, and values filled up to a multiple of 8."""
    sizes = references["length"][references["length"] > 0].astype(np.int64) * dtype.itemsize
    return int((HEADER + -(-sizes // 8) * 8).sum())


class Vlen:
    """Rows of the variable-length type."""

    def create(
        self, file: h5py.File, name: str, dtype: np.dtype[Any], lengths: Lengths, growing: bool,
        layout: LayoutSpecification, lists: Lists,
    ) -> VlenPart:  # fmt: skip
        """Return a new dataset of references."""
        chunk = [layout["row_chunk"]] if layout["row_chunk"] else None
        datatype = h5t.py_create(h5py.vlen_dtype(dtype), logical=True)
        made = make_dataset(file, name, datatype, [len(lengths)], chunk, layout["filters"], lists, growing)
        return VlenPart(made, dtype)

    def open(self, file: h5py.File, name: str, dtype: np.dtype[Any], layout: LayoutSpecification) -> VlenPart:
        """Return a dataset that is there."""
        return VlenPart(file[name], dtype)
