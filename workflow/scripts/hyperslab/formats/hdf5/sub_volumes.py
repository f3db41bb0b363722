"""Sub-volumes of one dataset, each written by an MPI rank through parallel HDF5."""

from __future__ import annotations

import os
from collections.abc import Iterator
from operator import add
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from h5py import h5d, h5fd, h5p

from hyperslab.data.selections import Box, disk_order, inverse_of
from hyperslab.data.sub_volumes import boxes_of
from hyperslab.data.tiles import tiles
from hyperslab.formats.hdf5 import filter_setters, settings
from hyperslab.formats.hdf5.description import create_file, describe_dataset
from hyperslab.formats.hdf5.parallel_files import actual_io_mode, through_mpi_io
from hyperslab.formats.hdf5.selected import write_selected
from hyperslab.specifications import Specification


class Writer:
    """One rank's side: one call of H5Dwrite, independent or collective as the case says."""

    # Other processes than this one do nothing of it.
    processes: tuple[int, ...] = ()

    def __init__(self, path: str, spec: Specification, mpi: Any, values: npt.NDArray[Any]) -> None:
        self._path, self._spec, self._comm, self._hints = path, spec, mpi.COMM_WORLD, mpi.INFO_NULL
        order = disk_order(spec)
        self._inverse = inverse_of(order)
        self._box = boxes_of(spec)[self._comm.Get_rank()].permuted(order)
        self._values = np.ascontiguousarray(values.transpose(order))
        self._transfer = h5p.create(h5p.DATASET_XFER)
        collective = spec["case"]["subvolumes"]["way"] == "collective"
        self._transfer.set_dxpl_mpio(h5fd.MPIO_COLLECTIVE if collective else h5fd.MPIO_INDEPENDENT)
        self.spent: dict[str, int] = {}
        self.levels: dict[int, int] = {}
        # The one file, which stays open from beginning to end.
        self.opens = self.most_opens = 0

    def create(self) -> None:
        """Make the file with its dataset on all ranks."""
        lists = settings.property_lists(self._spec["layout"]["settings"], self._path)
        through_mpi_io(self._comm, self._hints)(lists.file_access)
        file = create_file(self._path, lists)
        self.opens = self.most_opens = 1
        kind, space = describe_dataset(lists.creation, self._spec)
        h5d.create(file, b"data", kind, space, lists.creation).close()
        self._file = h5py.File(file)

    def write(self) -> None:
        """Write this rank's sub-volume."""
        write_selected(self._file["data"], self._box, self._values, self._transfer)

    def close(self) -> None:
        """Close the file."""
        self._last_call = actual_io_mode(self._transfer)
        self._file.close()

    def described(self) -> dict[str, Any]:
        """Return sizes, and settings as they are in force."""
        size = os.stat(self._path).st_size
        with h5py.File(self._path, "r") as file:
            dataset = file["data"]
            stored, chunks = dataset.id.get_storage_size(), dataset.chunks
            filters = filter_setters.describe(dataset.id.get_create_plist())
        return {
            "file_bytes": size,
            "data_bytes": stored,
            # The index of chunks is not told by every release.
            "remainder_bytes": None if chunks else size - stored,
            "settings": {
                "driver": "mpio",
                "dataset_layout": "chunked" if chunks else "contiguous",
                "chunks": list(chunks) if chunks else None,
                "filters": filters,
                "last_call": self._last_call,
            },
        }

    def end(self) -> None:
        """Do nothing: no process works for this one."""

    def stored(self) -> Iterator[tuple[Box, npt.NDArray[Any]]]:
        """Yield parts of this rank's sub-volume, read back by this process alone: where each lies in it, and
        its elements, in array terms.
        """
        extent = self._box.extent
        with h5py.File(self._path, "r") as file:
            dataset = file["data"]
            chunk = dataset.chunks or (1,) * len(extent)
            for part in tiles(extent, chunk, dataset.dtype.itemsize):
                there = Box(tuple(map(add, self._box.origin, part.origin)), part.extent)
                yield part.permuted(self._inverse), dataset[there.slices()].transpose(self._inverse)


class SubVolumes:
    """The HDF5 side of the seam of sub-volumes."""

    def writer(self, path: str, spec: Specification, mpi: Any, values: npt.NDArray[Any]) -> Writer:
        """Return what writes a rank's part in the way that a case names."""
        return Writer(path, spec, mpi, values)
