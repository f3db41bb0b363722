"""What the ways of keeping rows in HDF5 share: datasets of one axis, made with a layout, written by runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import h5py
import numpy as np
import numpy.typing as npt
from h5py import h5d, h5p, h5s, h5t

from hyperslab.data.rows import Lengths, RowBlock
from hyperslab.formats import Numbers
from hyperslab.formats.hdf5 import filter_setters
from hyperslab.formats.hdf5.settings import Lists
from hyperslab.specifications import LayoutSpecification

Filters = Sequence[dict[str, Any]]


class Part(ABC):
    """One dataset of ragged rows, however it is kept."""

    @abstractmethod
    def writer(self, first: int, block: RowBlock) -> Callable[[], None]:
        """Return a write of rows `first` and following that lacks nothing but the write."""

    @abstractmethod
    def reader(self, numbers: Numbers) -> Callable[[], Any]:
        """Return a read of rows that lacks nothing but the read."""

    @abstractmethod
    def block(self, found: Any) -> RowBlock:
        """Return what a read gave as a block of rows."""

    @abstractmethod
    def sizes(self) -> dict[str, Any]:
        """Return what the datasets say of themselves: bytes and counts."""

    def replacer(self, number: int, row: npt.NDArray[Any]) -> Callable[[], None]:
        """Return a replacement of one row; asked for only where it can be had."""
        raise NotImplementedError

    def flush(self) -> None:  # noqa: B027
        """Write what is held beside the library; most hold nothing."""

    def close(self) -> None:  # noqa: B027
        """Let go of what is held beside the library; most hold nothing."""


class PartKind(Protocol):
    """One way of keeping rows: how a dataset of them is made and opened, by its name."""

    def create(
        self, file: h5py.File, name: str, dtype: np.dtype[Any], lengths: Lengths, growing: bool,
        layout: LayoutSpecification, lists: Lists,
    ) -> Part: ...  # fmt: skip

    def open(self, file: h5py.File, name: str, dtype: np.dtype[Any], layout: LayoutSpecification) -> Part: ...


def make_dataset(
    file: h5py.File,
    name: str,
    datatype: h5t.TypeID,
    shape: Sequence[int],
    chunk: Sequence[int] | None,
    filters: Filters,
    lists: Lists,
    growing: bool,
) -> h5py.Dataset:
    """Return a new dataset; the first axis of one that grows begins at 0 and has no end."""
    creation = lists.creation.copy()
    creation.set_obj_track_times(False)
    if chunk:
        # A dataset that cannot grow has no room for a larger chunk.
        fitting = (min(c, max(1, e)) for c, e in zip(chunk, shape, strict=True))
        creation.set_chunk(tuple(chunk) if growing else tuple(fitting))
        filter_setters.apply(creation, filters)
    else:
        creation.set_layout(h5d.CONTIGUOUS)
    extents = (0, *shape[1:]) if growing else tuple(shape)
    space = h5s.create_simple(extents, (h5s.UNLIMITED, *shape[1:]) if growing else None)
    return h5py.Dataset(h5d.create(file.id, name.encode(), datatype, space, creation))


def run_writer(
    dataset: h5py.Dataset, first: int, values: npt.NDArray[Any], memory: h5t.TypeID, grow: bool
) -> Callable[[], None]:
    """Return a write of `values` from index `first` of the first axis on, in one call of H5Dwrite."""
    if not len(values):
        return lambda: None
    identifier, shape = dataset.id, values.shape
    in_memory = h5s.create_simple(shape)
    start, stop = (first, *(0,) * (len(shape) - 1)), first + len(values)

    def write() -> None:
        if grow:
            identifier.set_extent((stop, *shape[1:]))
        space = identifier.get_space()
        space.select_hyperslab(start, shape)
        identifier.write(in_memory, space, values, memory)

    return write


def stored(dataset: h5py.Dataset) -> tuple[int, int]:
    """Return the bytes stored of a dataset, and those of the index of its chunks."""
    from hyperslab.formats.hdf5 import library

    return dataset.id.get_storage_size(), library.index_bytes(dataset.id)


def chunks_of(dataset: h5py.Dataset) -> int:
    """Return how many chunks of a dataset are stored."""
    return int(dataset.id.get_num_chunks()) if dataset.chunks else 0


def in_memory_type(dtype: np.dtype[Any]) -> h5t.TypeID:
    """Return the type of elements in memory, as h5py sees it."""
    return h5t.py_create(dtype)


def creation_of(dataset: h5py.Dataset) -> h5p.PropDCID:
    """Return the property list with which a dataset was created."""
    return dataset.id.get_create_plist()
