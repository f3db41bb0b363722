"""What h5py does not expose, called in the very HDF5 library that h5py has loaded."""

from __future__ import annotations

import ctypes
from functools import cache

from h5py import h5d, h5p

# hid_t is 64 bits wide since HDF5 1.10.
Identifier = ctypes.c_int64


class _NativeInfo(ctypes.Structure):
    """H5O_native_info_t: the object header, then index and heap bytes of the object and of its attributes."""

    _fields_ = [
        *((name, ctypes.c_uint) for name in ("version", "messages", "chunks", "flags")),
        *((name, ctypes.c_uint64) for name in ("total", "meta", "data", "free", "present", "shared")),
        *((name, ctypes.c_uint64) for name in ("index", "heap", "attribute_index", "attribute_heap")),
    ]


# H5O_NATIVE_INFO_META_SIZE
META_SIZE = 0x10


def opened() -> ctypes.PyDLL:
    """Return the library that h5py is linked to, without signatures: those that the caller sets are its own.

    A search in h5py's module covers what that module needs. PyDLL keeps the interpreter's lock, so that no
    other thread enters the library meanwhile.
    """
    return ctypes.PyDLL(h5p.__file__)


@cache
def _library() -> ctypes.PyDLL:
    found = opened()
    found.H5Pset_buffer.argtypes = [Identifier, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p]
    found.H5Pget_buffer.argtypes = [Identifier, ctypes.c_void_p, ctypes.c_void_p]
    found.H5Pget_buffer.restype = ctypes.c_size_t
    found.H5Oget_native_info.argtypes = [Identifier, ctypes.POINTER(_NativeInfo), ctypes.c_uint]
    return found


def _check(status: int, call: str) -> None:
    if status < 0:
        raise RuntimeError(f"{call} failed")


def set_buffer(transfer: h5p.PropDXID, size: int) -> None:
    """Set the bytes of the buffers in which elements are converted (H5Pset_buffer); raises RuntimeError."""
    _check(_library().H5Pset_buffer(transfer.id, size, None, None), "H5Pset_buffer")


def get_buffer(transfer: h5p.PropDXID) -> int:
    """Return the bytes of the conversion buffers of a transfer property list (H5Pget_buffer)."""
    return int(_library().H5Pget_buffer(transfer.id, None, None))


def index_bytes(dataset: h5d.DatasetID) -> int:
    """Return the bytes of a dataset's chunk index (H5Oget_native_info; older releases of h5py do not have
    it).
    """
    info = _NativeInfo()
    _check(_library().H5Oget_native_info(dataset.id, ctypes.byref(info), META_SIZE), "H5Oget_native_info")
    return int(info.index)


def garbage_collect() -> None:
    """Free what the library's free lists hold (H5garbage_collect)."""
    _check(_library().H5garbage_collect(), "H5garbage_collect")


def free_list_bytes() -> int | None:
    """Return the bytes that the library's free lists hold (H5get_free_list_sizes, HDF5 1.10.7 and later),
    else None.
    """
    if not hasattr(_library(), "H5get_free_list_sizes"):
        return None
    sizes = [ctypes.c_size_t() for _ in range(4)]
    _check(_library().H5get_free_list_sizes(*map(ctypes.byref, sizes)), "H5get_free_list_sizes")
    return sum(size.value for size in sizes)
