"""Files of ragged rows in HDF5: create, write, open, read, and report what the file says of itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from h5py import h5f

from hyperslab.data.rows import Lengths, RowBlock, Rows
from hyperslab.data.values import Values
from hyperslab.formats import Numbers
from hyperslab.formats.hdf5 import array as arrays
from hyperslab.formats.hdf5 import filter_setters, settings
from hyperslab.formats.hdf5.description import create_file, open_file
from hyperslab.formats.hdf5_rows.flattened import Flattened
from hyperslab.formats.hdf5_rows.offset_vector import OffsetVector
from hyperslab.formats.hdf5_rows.padded import Padded
from hyperslab.formats.hdf5_rows.parts import Part, PartKind
from hyperslab.formats.hdf5_rows.vlen import Vlen
from hyperslab.measuring.artifact import Artifact
from hyperslab.specifications import Specification

# `storage` of a layout -> how its datasets are made
KINDS: dict[str, PartKind] = {
    "vlen": Vlen(),
    "flattened": Flattened(),
    "offset-vector": OffsetVector(),
    "padded": Padded(),
}
SIZES = ("references_bytes", "lengths_bytes", "offsets_bytes")


def _name(part: int) -> str:
    return f"rows{part}"


class Hdf5Rows:
    """The datasets of one open file."""

    def __init__(self, file: h5py.File, parts: Sequence[Part]) -> None:
        self._file, self._parts = file, parts

    def writer(self, part: int, first: int, block: RowBlock) -> Callable[[], None]:
        """Return a write of rows of dataset `part` that lacks nothing but the write."""
        return self._parts[part].writer(first, block)

    def reader(self, part: int, numbers: Numbers) -> Callable[[], Any]:
        """Return a read of rows of dataset `part` that lacks nothing but the read."""
        return self._parts[part].reader(numbers)

    def replacer(self, part: int, number: int, row: npt.NDArray[Any]) -> Callable[[], None]:
        """Return a replacement of one row of dataset `part` that lacks nothing but the call."""
        return self._parts[part].replacer(number, row)

    def block(self, found: Any) -> RowBlock:
        """Return what a read gave as a block of rows."""
        return self._parts[0].block(found)

    def columns(self) -> dict[str, Any]:
        """Return what the caches of the file say: hit rate and bytes of metadata, hits of the page buffer."""
        _, _, size, _ = self._file.id.get_mdc_size()
        found = {"metadata_hit_rate": self._file.id.get_mdc_hit_rate(), "metadata_cache_bytes": size}
        return found | _page_buffer(self._file.id)

    def flush(self) -> None:
        """Hand everything buffered in the library, and beside it, to the kernel."""
        for part in self._parts:
            part.flush()
        self._file.flush()

    def close(self) -> None:
        """Close datasets and file."""
        for part in self._parts:
            part.close()
        self._file.close()

    def sizes(self) -> dict[str, Any]:
        """Return the sums over all datasets of what each says of itself; None where one cannot say."""
        found = [part.sizes() for part in self._parts]
        names = dict.fromkeys(name for one in found for name in one)
        values = {name: [one.get(name) for one in found] for name in names}
        return {name: None if None in some else sum(some) for name, some in values.items()}


def _page_buffer(file: h5f.FileID) -> dict[str, float]:
    """Return the share of accesses that the page buffer served, of both kinds of data; {} without it."""
    if not file.get_access_plist().get_page_buffer_size()[0]:
        return {}
    found = file.get_page_buffering_stats()
    shares = {}
    for kind in ("meta", "raw"):
        there = getattr(found, kind)
        if there.accesses:
            shares[f"page_buffer_{kind}_hit_rate"] = there.hits / there.accesses
    return shares


class Hdf5RowsFormat:
    """The HDF5 side of the seam of formats for ragged rows."""

    artifact = Artifact

    def versions(self) -> dict[str, str]:
        """Return the versions of h5py, of the HDF5 that it brings, and of plugins."""
        return arrays.FORMAT.versions()

    def create(self, path: str, spec: Specification, parts: Sequence[Lengths], growing: bool) -> Hdf5Rows:
        """Create a file with a dataset for each of `parts`, the lengths of its rows; empty where it grows."""
        layout = spec["layout"]
        lists = settings.property_lists(layout["settings"], path)
        file = h5py.File(create_file(path, lists))
        dtype, kind = np.dtype(spec["dataset"]["dtype"]), KINDS[layout["storage"]]
        return Hdf5Rows(
            file,
            [
                kind.create(file, _name(part), dtype, lengths, growing, layout, lists)
                for part, lengths in enumerate(parts)
            ],
        )

    def prepare(self, spec: Specification) -> None:
        """Load what the layout's filters need."""
        filter_setters.prepare(spec["layout"]["filters"])

    def open(self, path: str, spec: Specification) -> Hdf5Rows:
        """Open for reading with the library settings of `spec`."""
        self.prepare(spec)
        file = open_file(path, settings.property_lists(spec["layout"]["settings"], path))
        return self._opened(file, spec)

    def modify(self, path: str, spec: Specification) -> Hdf5Rows:
        """Open a file for reading and for replacing rows."""
        lists = settings.property_lists(spec["layout"]["settings"], path)
        file = h5py.File(h5f.open(os.fsencode(path), h5f.ACC_RDWR, fapl=lists.file_access))
        return self._opened(file, spec)

    def _opened(self, file: h5py.File, spec: Specification) -> Hdf5Rows:
        layout = spec["layout"]
        dtype, kind = np.dtype(spec["dataset"]["dtype"]), KINDS[layout["storage"]]
        names = [name for part in range(len(file)) if (name := _name(part)) in file]
        return Hdf5Rows(file, [kind.open(file, name, dtype, layout) for name in names])

    def generate(self, path: str, spec: Specification, values: Values) -> str:
        """Fill a new file with one dataset, block by block in the order of rows; returns "plain"."""
        assert isinstance(values, Rows)
        opened = self.create(path, spec, [values.lengths], False)
        try:
            for first, stop in values.blocks():
                opened.writer(0, first, values.run(first, stop))()
        finally:
            opened.close()
        return "plain"

    def workers_memory_bytes(self) -> int:
        """Return 0: `generate` starts no processes."""
        return 0

    def report(self, path: str, spec: Specification) -> dict[str, Any]:
        """Return sizes in bytes, counts and the settings in force, from an open that is not timed."""
        opened = self.open(path, spec)
        file = opened._file
        try:
            sizes = opened.sizes()
            lists = settings.property_lists(spec["layout"]["settings"], path)
            dataset = next(item for item in file.values() if isinstance(item, h5py.Dataset))
            in_force = settings.in_file(file, dataset, lists.transfer)
            effective = settings.effective(in_force, path)
        finally:
            opened.close()
        return _report(os.stat(path).st_size, sizes, effective, bool(spec["layout"]["filters"]))


def _report(size: int, sizes: dict[str, Any], effective: dict[str, Any], filtered: bool) -> dict[str, Any]:
    """Return the columns of a file; index is all that leads to rows, padding what holds no value."""
    heap, values = sizes.pop("heap_bytes", None), sizes.pop("values_bytes")
    stored = sizes.pop("stored_bytes", heap)
    index = sizes.pop("chunk_index_bytes") + sum(sizes.get(name) or 0 for name in SIZES)
    data = stored if filtered or values is None or stored is None else min(values, stored)
    padding = None if stored is None else stored - data
    known = 0 if stored is None else stored
    return {
        "file_bytes": size,
        "files": 1,
        "stored_bytes": stored,
        "data_bytes": data,
        "padding_bytes": padding,
        "index_bytes": index,
        "remainder_bytes": size - known - index,
        **({"heap_bytes": heap} if heap is not None else {}),
        **sizes,
        "settings": effective,
    }


FORMAT = Hdf5RowsFormat()
