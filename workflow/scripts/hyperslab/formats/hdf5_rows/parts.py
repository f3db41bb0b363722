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
from hyperslab.formats.hdf5 import filter_setters
from hyperslab.formats.hdf5.inspection import visit_chunks
from hyperslab.formats.hdf5.settings import Lists
from hyperslab.formats.row_seam import Numbers
from hyperslab.specifications import LayoutSpecification

Filters = Sequence[dict[str, Any]]
# Start and end of each, in bytes of the file.
Places = npt.NDArray[np.int64]
# Headers of the heap lie between rows, and a page is read as a whole anyway.
NEAR = 4096
# What a length or offset is before it was written, in a file that others read meanwhile.
UNWRITTEN = -1


class Part(ABC):
    """One dataset of ragged rows, however it is kept."""

    @property
    @abstractmethod
    def values(self) -> h5py.Dataset:
        """The dataset that holds the values, or leads to them: the one that a layout's settings are for."""

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

    def shared_sizes(self, parts: Sequence[Any]) -> dict[str, Any]:
        """Return the sizes of what all `parts` of a file share, which count once; most share nothing."""
        return {}

    @abstractmethod
    def places(self) -> Places | None:
        """Return where rows begin and end in the file, in their order; None where that is not known."""

    def replacer(self, number: int, row: npt.NDArray[Any]) -> Callable[[], None]:
        """Return a replacement of one row; asked for only where it can be had."""
        raise NotImplementedError

    def publisher(self, first: int, block: RowBlock) -> Callable[[], None]:
        """Return a write of rows that others find when it returns; asked for only where it can be had."""
        raise NotImplementedError

    def look(self, known: int) -> int:
        """Look at the file anew while another process writes, and return how many rows are whole.

        `known` of them were found before; those that follow can be read then.
        """
        raise NotImplementedError

    def flush(self) -> None:  # noqa: B027
        """Write what is held beside the library; most hold nothing."""

    def close(self) -> None:  # noqa: B027
        """Let go of what is held beside the library; most hold nothing."""


class TwofoldPart(Part):
    """Rows in two datasets: their values, and what beside them tells where each row begins or ends."""

    def __init__(self, values: h5py.Dataset, beside: h5py.Dataset) -> None:
        self._values, self._beside = values, beside
        self._grows = values.maxshape[0] is None
        self._memory = {dtype: h5t.py_create(dtype) for dtype in (values.dtype, beside.dtype)}

    @property
    def values(self) -> h5py.Dataset:
        """The values."""
        return self._values

    @abstractmethod
    def writes(self, first: int, block: RowBlock) -> tuple[Callable[[], None], Callable[[], None]]:
        """Return the writes of both that lack nothing but the call."""

    def _run(self, dataset: h5py.Dataset, first: int, values: npt.NDArray[Any]) -> Callable[[], None]:
        return run_writer(dataset, first, values, self._memory[dataset.dtype], self._grows)

    def places(self) -> Places | None:
        """Return where the values lie."""
        return stored_places(self._values)

    def writer(self, first: int, block: RowBlock) -> Callable[[], None]:
        """Return a write of both, a call each."""
        values, beside = self.writes(first, block)

        def write() -> None:
            values()
            beside()

        return write

    def publisher(self, first: int, block: RowBlock) -> Callable[[], None]:
        """Return a write of values, and then of that by which others find them."""
        return in_order(*zip(self.writes(first, block), (self._values, self._beside), strict=True))


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


def in_order(*writes: tuple[Callable[[], None], h5py.Dataset]) -> Callable[[], None]:
    """Return all writes as one, each flushed before the next begins: others find nothing half written."""

    def write() -> None:
        for one, dataset in writes:
            one()
            dataset.flush()

    return write


def written(counts: npt.NDArray[Any]) -> int:
    """Return how many of these lengths or offsets somebody has written: those before the first UNWRITTEN."""
    missing = counts < 0
    return int(missing.argmax()) if missing.any() else len(counts)


def stored_places(dataset: h5py.Dataset) -> Places | None:
    """Return where a dataset's chunks, in the order of their elements, or all of it, begin and end."""
    if not dataset.chunks:
        start = dataset.id.get_offset()
        return None if start is None else np.array([(start, start + dataset.id.get_storage_size())])
    found: list[tuple[tuple[int, ...], int, int]] = []

    def visit(chunk: Any) -> None:
        found.append((chunk.chunk_offset, chunk.byte_offset, chunk.size))

    visit_chunks(dataset.id, visit)
    return np.array([(start, start + size) for _, start, size in sorted(found)]).reshape(-1, 2)


def pieces(places: Places) -> int:
    """Return in how many pieces of the file these places lie; what is up to NEAR apart is one."""
    if not len(places):
        return 0
    apart = places[1:, 0] - places[:-1, 1]
    return 1 + int(((apart < 0) | (apart > NEAR)).sum())


def stored(dataset: h5py.Dataset) -> tuple[int, int]:
    """Return the bytes stored of a dataset, and those of the index of its chunks."""
    from hyperslab.formats.hdf5 import library

    return dataset.id.get_storage_size(), library.index_bytes(dataset.id)


def chunks_of(dataset: h5py.Dataset) -> int:
    """Return how many chunks of a dataset are stored."""
    return int(dataset.id.get_num_chunks()) if dataset.chunks else 0


def creation_of(dataset: h5py.Dataset) -> h5p.PropDCID:
    """Return the property list with which a dataset was created."""
    return dataset.id.get_create_plist()
