"""Files of ragged rows that others read while rows are added: HDF5's mode for one writer and many readers."""

from __future__ import annotations

import os
from collections.abc import Callable

import h5py
import numpy as np
from h5py import h5f

from hyperslab.data.rows import Lengths, RowBlock
from hyperslab.formats.hdf5 import filter_setters, settings
from hyperslab.formats.hdf5.description import create_file
from hyperslab.formats.hdf5_rows.opened import KINDS, Hdf5Rows, name_of
from hyperslab.formats.hdf5_rows.parts import UNWRITTEN, Part
from hyperslab.specifications import Specification


class Appended(Hdf5Rows):
    """A file that its writer makes longer."""

    def appender(self, first: int, block: RowBlock) -> Callable[[], None]:
        """Return an append that lacks nothing but the call, after which others find the rows."""
        return self._parts[0].publisher(first, block)


class Followed(Hdf5Rows):
    """The same file in another process."""

    def __init__(self, file: h5py.File, parts: list[Part]) -> None:
        super().__init__(file, parts)
        self._found = 0

    def look(self) -> range:
        """Look at the file anew; return the numbers of the rows that came since the last look."""
        known, self._found = self._found, self._parts[0].look(self._found)
        return range(known, self._found)

    def read(self, numbers: range) -> RowBlock:
        """Return the rows that the last look found."""
        return self.block(self.reader(0, numbers)())


class Hdf5Following:
    """How such files are made and opened."""

    def create(self, path: str, spec: Specification, lengths: Lengths) -> Appended:
        """Create a file with an empty dataset, and let others read it."""
        layout = spec["layout"]
        lists = settings.property_lists(layout["settings"], path)
        # Space that nobody has written yet is no row of length 0.
        lists.creation.set_fill_value(np.array(UNWRITTEN, "<i8"))
        file = h5py.File(create_file(path, lists))
        dtype = np.dtype(spec["dataset"]["dtype"])
        part = KINDS[layout["storage"]].create(file, name_of(0), dtype, lengths, True, layout, lists)
        file.swmr_mode = True
        return Appended(file, [part])

    def open(self, path: str, spec: Specification) -> Followed:
        """Open that file beside its writer."""
        filter_setters.prepare(spec["layout"]["filters"])
        lists = settings.property_lists(spec["layout"]["settings"], path)
        flags = h5f.ACC_RDONLY | h5f.ACC_SWMR_READ
        file = h5py.File(h5f.open(os.fsencode(path), flags, fapl=lists.file_access))
        dtype, layout = np.dtype(spec["dataset"]["dtype"]), spec["layout"]
        return Followed(file, [KINDS[layout["storage"]].open(file, name_of(0), dtype, layout)])


FOLLOWING = Hdf5Following()
