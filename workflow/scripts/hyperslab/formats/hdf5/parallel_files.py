"""HDF5 files that MPI ranks open together, by the driver mpio, which parallel builds of the library have."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import numpy.typing as npt
from h5py import h5d, h5f, h5fd, h5p, h5s, h5t

from hyperslab.formats.hdf5 import filter_setters, library, settings

if TYPE_CHECKING:
    from hyperslab.formats import OpenArray, Share
    from hyperslab.specifications import Specification

Buffers = Sequence[npt.NDArray[Any]]
# What puts a driver on a file access property list.
Put = Callable[[h5p.PropFAID], None]

# H5D_mpio_actual_io_mode_t
IO_MODES = {
    0: "no collective I/O",
    1: "chunks, independent",
    2: "chunks, collective",
    3: "chunks, mixed",
    4: "contiguous, collective",
}


def actual_io_mode(transfer: h5p.PropDXID) -> str:
    """Return what HDF5 says of the last call with this property list (H5Pget_mpio_actual_io_mode), in words.

    So a collective request that did not become a collective operation is known.
    """
    found = ctypes.c_int(-1)
    call = library.opened().H5Pget_mpio_actual_io_mode
    call.argtypes = [library.Identifier, ctypes.c_void_p]
    if call(transfer.id, ctypes.byref(found)) < 0:
        return "unknown"
    return IO_MODES.get(found.value, f"number {found.value}")


def through_mpi_io(comm: Any, hints: Any) -> Put:
    """Return what makes a file access property list one of the driver mpio, with hints to MPI-IO."""

    def put(access: h5p.PropFAID) -> None:
        access.set_fapl_mpio(comm, hints)

    return put


class SharedFile:
    """One dataset of one axis for each array, moved by H5Dwrite and H5Dread of hyperslabs."""

    def __init__(self, path: str, spec: Specification, put: Put, share: Share) -> None:
        self._path, self._spec, self._put, self._share = path, spec, put, share
        self._collective: bool = spec["case"]["parallel"]["collective"]
        self._dtype = np.dtype(spec["dataset"]["dtype"])
        # Known before any stopwatch, as they are to those who write without a library.
        self._select()

    def create(self) -> None:
        """Make the file with room for all datasets, and open it for writing."""
        layout, elements = self._spec["layout"], self._share.dataset_bytes // self._dtype.itemsize
        lists = self._lists()
        self._file = h5f.create(
            os.fsencode(self._path), h5f.ACC_TRUNC, fcpl=lists.file_creation, fapl=lists.file_access
        )
        if layout["chunks"]:
            lists.creation.set_chunk((layout["chunks"][1],))
            filter_setters.apply(lists.creation, layout["filters"])
        space = h5s.create_simple((elements,))
        kind = h5t.py_create(self._dtype)
        self._datasets = [
            h5d.create(self._file, f"data{number}".encode(), kind, space, lists.creation)
            for number in range(self._share.datasets)
        ]

    def open(self) -> None:
        """Open it for reading."""
        lists = self._lists()
        self._file = h5f.open(os.fsencode(self._path), h5f.ACC_RDONLY, fapl=lists.file_access)
        self._datasets = [
            h5d.open(self._file, f"data{number}".encode()) for number in range(self._share.datasets)
        ]

    def _lists(self) -> settings.Lists:
        lists = settings.property_lists(self._spec["layout"]["settings"], self._path)
        self._put(lists.file_access)
        return lists

    def _select(self) -> None:
        """Make the selections of every call and the transfer properties, once."""
        itemsize = self._dtype.itemsize
        self._memory = h5s.create_simple((self._share.transfer // itemsize,))
        self._selections = []
        for call in range(self._share.calls):
            start, stride, count, block = self._share.hyperslab(call)
            space = h5s.create_simple((self._share.dataset_bytes // itemsize,))
            space.select_hyperslab(
                (start // itemsize,), (count,), (stride // itemsize,), (block // itemsize,)
            )
            self._selections.append(space)
        self._transfer = h5p.create(h5p.DATASET_XFER)
        self._transfer.set_dxpl_mpio(h5fd.MPIO_COLLECTIVE if self._collective else h5fd.MPIO_INDEPENDENT)

    def write(self, buffers: Buffers) -> None:
        """Write this rank's share: one buffer a dataset."""
        for dataset, buffer in zip(self._datasets, buffers, strict=True):
            for space, piece in self._pieces(buffer):
                dataset.write(self._memory, space, piece, dxpl=self._transfer)

    def read(self, buffers: Buffers) -> None:
        """Read it."""
        for dataset, buffer in zip(self._datasets, buffers, strict=True):
            for space, piece in self._pieces(buffer):
                dataset.read(self._memory, space, piece, dxpl=self._transfer)

    def _pieces(self, buffer: npt.NDArray[Any]) -> Iterator[tuple[h5s.SpaceID, npt.NDArray[Any]]]:
        size = self._share.transfer // self._dtype.itemsize
        for call, space in enumerate(self._selections):
            yield space, buffer[call * size : (call + 1) * size]

    def flush(self) -> None:
        """Hand everything buffered in the library to the kernel."""
        h5f.flush(self._file)

    def close(self) -> None:
        """Close datasets and file."""
        self._mode = actual_io_mode(self._transfer)
        for dataset in self._datasets:
            dataset.close()
        self._datasets = []
        self._file.close()

    def stored(self, number: int, place: slice) -> npt.NDArray[Any]:
        """Return some elements of a dataset, read back by this process alone."""
        with h5py.File(self._path, "r") as file:
            found: npt.NDArray[Any] = file[f"data{number}"][place]
            return found

    def in_force(self) -> dict[str, Any]:
        """Return settings as they are in force, and what the last call was; collective."""
        last_call = self._mode
        self.open()
        file, transfer = h5py.File(self._file), self._transfer
        found = settings.effective(settings.in_file(file, file["data0"], transfer), self._path)
        chunks = file["data0"].chunks
        filters_there = filter_setters.describe(file["data0"].id.get_create_plist())
        self.close()
        return {
            # What a release older than the workflow's does not tell is left out.
            **{name: value for name, value in found.items() if not str(value).startswith("cannot be read")},
            "driver": "mpio",
            "dataset_layout": "chunked" if chunks else "contiguous",
            "chunks": list(chunks) if chunks else None,
            "filters": filters_there,
            "last_call": last_call,
        }


class Parallel:
    """The seam of formats for ranks; `open_by` opens a test file by a driver that no setting can name."""

    def __init__(self, open_by: Callable[[str, Specification, Put], OpenArray]) -> None:
        self._open_by = open_by

    def open(self, path: str, spec: Specification, comm: Any, hints: Any) -> OpenArray:
        """Open the dataset of a test file on all ranks, for reading; collective."""
        return self._open_by(path, spec, through_mpi_io(comm, hints))

    def shared(self, path: str, spec: Specification, comm: Any, hints: Any, share: Share) -> SharedFile:
        """Return a file for `share` and its equals on the other ranks, which is not opened yet."""
        return SharedFile(path, spec, through_mpi_io(comm, hints), share)
