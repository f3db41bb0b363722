"""What HDF5 says it did in the last call: whether a collective request became a collective operation."""

from __future__ import annotations

import ctypes

from h5py import h5p

# H5D_mpio_actual_io_mode_t
MODES = {
    0: "no collective I/O",
    1: "chunks, independent",
    2: "chunks, collective",
    3: "chunks, mixed",
    4: "contiguous, collective",
}


def of(transfer: h5p.PropDXID) -> str:
    """H5Pget_mpio_actual_io_mode of the last call with this property list, in words."""
    library = ctypes.PyDLL(h5p.__file__)
    found = ctypes.c_int(-1)
    call = library.H5Pget_mpio_actual_io_mode
    call.argtypes = [ctypes.c_int64, ctypes.c_void_p]
    if call(transfer.id, ctypes.byref(found)) < 0:
        return "unknown"
    return MODES.get(found.value, f"number {found.value}")
