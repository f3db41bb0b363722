"""Files of ragged rows in HDF5: create, write, open, read, and report what the file says of itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import h5py
import numpy as np
from h5py import h5f

from hyperslab.data.rows import Lengths
from hyperslab.formats.hdf5 import array as arrays
from hyperslab.formats.hdf5 import filter_setters, settings
from hyperslab.formats.hdf5.description import create_file, open_file
from hyperslab.formats.hdf5_rows.following import FOLLOWING
from hyperslab.formats.hdf5_rows.opened import KINDS, Hdf5Rows, name_of
from hyperslab.formats.row_seam import RowsFormat
from hyperslab.measuring.artifact import Artifact
from hyperslab.measuring.extents import extents_of
from hyperslab.specifications import Specification

SIZES = ("references_bytes", "lengths_bytes", "offsets_bytes")


class Hdf5RowsFormat(RowsFormat):
    """The HDF5 side of the seam of formats for ragged rows."""

    artifact = Artifact
    following = FOLLOWING

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
                kind.create(file, name_of(part), dtype, lengths, growing, layout, lists)
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
        names = [name for part in range(len(file)) if (name := name_of(part)) in file]
        return Hdf5Rows(file, [kind.open(file, name, dtype, layout) for name in names])

    def report(self, path: str, spec: Specification) -> dict[str, Any]:
        """Return sizes in bytes, counts and the settings in force, from an open that is not timed."""
        opened = self.open(path, spec)
        file = opened._file
        try:
            sizes = {**opened.sizes(), "row_pieces": opened.row_pieces(), "extents": extents_of(path)}
            lists = settings.property_lists(spec["layout"]["settings"], path)
            in_force = settings.in_file(file, opened.values, lists.transfer)
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
    return {
        "file_bytes": size,
        "files": 1,
        "stored_bytes": stored,
        "data_bytes": data,
        "padding_bytes": padding,
        "index_bytes": index,
        "remainder_bytes": None if stored is None else size - stored - index,
        **({"heap_bytes": heap} if heap is not None else {}),
        **sizes,
        "settings": effective,
    }


FORMAT = Hdf5RowsFormat()
