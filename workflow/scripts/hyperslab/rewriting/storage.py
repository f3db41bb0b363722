"""How a dataset is stored, in words; and whether two datasets store equal chunks."""

from __future__ import annotations

import math
import os
from operator import floordiv
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from h5py import h5d, h5s, h5t

from hyperslab.data.selections import Box
from hyperslab.formats.hdf5.other_files import external_files, found, storage_found, virtual_sources
from hyperslab.layouts.chunks import chunks_per_axis
from hyperslab.rewriting import calls
from hyperslab.rewriting.memory import Form, References, form_of, owns_memory, same

# A map of the chunks that exist takes a byte a chunk.
MOST_MAPPED = 2**26
LAYOUTS = {
    h5d.COMPACT: "compact",
    h5d.CONTIGUOUS: "contiguous",
    h5d.CHUNKED: "chunked",
    h5d.VIRTUAL: "virtual",
}


def _filters(creation: Any) -> list[tuple[int, int, tuple[int, ...]]]:
    found = (creation.get_filter(position) for position in range(creation.get_nfilters()))
    return [(code, flags, tuple(parameters)) for code, flags, parameters, _ in found]


def chunk_of(dataset: h5d.DatasetID) -> tuple[int, ...] | None:
    """Return the chunk shape of a dataset, None without chunks."""
    creation = dataset.get_create_plist()
    return tuple(creation.get_chunk()) if creation.get_layout() == h5d.CHUNKED else None


class StoredChunks:
    """Where a dataset has values in the file; elsewhere it has its fill value."""

    def __init__(self, dataset: h5d.DatasetID) -> None:
        self._nothing = dataset.get_space_status() == h5d.SPACE_STATUS_NOT_ALLOCATED
        chunk = chunk_of(dataset)
        self._map: npt.NDArray[np.bool_] | None = None
        self._itemsize, self._chunk = dataset.get_type().get_size(), chunk or dataset.shape
        counts = chunks_per_axis(dataset.shape, chunk) if chunk else (1,)
        self._of_all = math.prod(counts)
        self._count = 0 if self._nothing else self._of_all
        # Without a map every chunk counts as stored.
        if chunk and not self._nothing and self._count <= MOST_MAPPED:
            self._map = np.zeros(counts, bool)
            # Marked at once: a list of them would take a hundred bytes a chunk.
            dataset.chunk_iter(self._mark)
            self._count = int(np.count_nonzero(self._map))

    def _mark(self, stored: h5d.StoreInfo) -> None:
        """Note that a chunk is stored."""
        assert self._map is not None
        self._map[tuple(map(floordiv, stored.chunk_offset, self._chunk))] = True

    def complete(self) -> bool:
        """Return whether all of the dataset is stored."""
        return self._count == self._of_all

    def count_bytes(self) -> int:
        """Return the size of what is stored, as whole chunks, before any filter."""
        return self._count * math.prod(self._chunk) * int(self._itemsize)

    def _within(self, box: Box) -> npt.NDArray[np.bool_]:
        if self._nothing or self._map is None:
            return np.array([not self._nothing])
        axes = zip(box.origin, box.extent, self._chunk, strict=True)
        return self._map[tuple(slice(o // c, -(-(o + e) // c)) for o, e, c in axes)]

    def any(self, box: Box) -> bool:
        """Return whether some chunk that the box touches is stored."""
        return bool(self._within(box).any())

    def all(self, box: Box) -> bool:
        """Return whether every chunk that the box touches is stored."""
        return bool(self._within(box).all())


def storage(dataset: h5d.DatasetID) -> dict[str, Any]:
    """Return what decides where and how values are stored: a layout's part of a dataset."""
    creation = dataset.get_create_plist()
    kind = creation.get_layout()
    return {
        "layout": LAYOUTS[kind],
        "chunks": chunk_of(dataset),
        "filters": _filters(creation),
        "allocation time": creation.get_alloc_time(),
        "fill time": creation.get_fill_time(),
    }


def elsewhere(dataset: h5d.DatasetID, file: Path) -> dict[str, Any]:
    """Return what other files hold of a dataset of `file`, in external storage and as virtual sources.

    A file stands for the names that lead to it, a name that leads nowhere for itself.
    """
    creation = dataset.get_create_plist()
    return {
        "external files": [
            (leads(one.name, storage_found(one.name, file)), one.offset, one.size)
            for one in external_files(creation)
        ],
        "virtual sources": [
            (
                leads(one.file, None if one.file == b"." else found(one.file, file, virtual=True)),
                one.dataset,
                one.there.encode(),
                one.here.encode(),
            )
            for one in virtual_sources(creation)
        ],
    }


def leads(name: bytes, place: Path | None) -> str:
    """Return where a name leads: to the file `place`, or, without one, only itself."""
    return os.fsdecode(name) if place is None else os.path.realpath(place)


def kept_properties(dataset: h5d.DatasetID, file: Path) -> dict[str, Any]:
    """Return what no layout changes, of a dataset of `file`."""
    creation = dataset.get_create_plist()
    return {
        "tracking of times": creation.get_obj_track_times(),
        "order of attributes": creation.get_attr_creation_order(),
        "whether a fill value is defined": creation.fill_value_defined(),
        **elsewhere(dataset, file),
    }


def same_fill_value(ours: h5d.DatasetID, theirs: h5d.DatasetID, references: References) -> bool:
    """Return whether two datasets of equal type have equal fill values."""
    pair = [dataset.get_create_plist() for dataset in (ours, theirs)]
    if any(creation.fill_value_defined() != h5d.FILL_VALUE_USER_DEFINED for creation in pair):
        return True
    memory: h5t.TypeID = ours.get_type().copy()
    form: Form = form_of(memory)
    first, second = (calls.fill_value(creation, memory) for creation in pair)
    equal = same(form, first.ctypes.data, second.ctypes.data, references)
    if owns_memory(form):
        for buffer in (first, second):
            calls.reclaim(memory, h5s.create(h5s.SCALAR), buffer)
    return equal
