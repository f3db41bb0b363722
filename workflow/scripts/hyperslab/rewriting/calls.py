"""Calls of HDF5 that h5py does not expose, made in the very library that h5py has loaded.

Elements stay as HDF5 lays them out in memory, so that every type can be read, compared and written, also
those of which h5py or NumPy know nothing.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from h5py import h5a, h5d, h5i, h5p, h5r, h5s, h5t

from hyperslab.formats.hdf5 import library

Buffer = npt.NDArray[np.uint8]

# H5P_DEFAULT, an identifier; h5py's own stands for None.
DEFAULT = 0
# H5O_COPY_MERGE_COMMITTED_DTYPE_FLAG and H5O_MCDT_SEARCH_STOP, which h5py does not name.
MERGE_COMMITTED_TYPES = 0x40
SEARCH_STOP = 1

_Search = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
# Kept for as long as a property list may call it.
_stop_search = _Search(lambda _: SEARCH_STOP)

_hid, _address, _int, _text = library.Identifier, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
# name -> (type of the result, types of the arguments)
SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "H5Aclose": (_int, [_hid]),
    "H5Acreate2": (_hid, [_hid, _text, _hid, _hid, _hid, _hid]),
    "H5Aread": (_int, [_hid, _hid, _address]),
    "H5Awrite": (_int, [_hid, _hid, _address]),
    "H5Dread": (_int, [_hid, _hid, _hid, _hid, _hid, _address]),
    "H5Dwrite": (_int, [_hid, _hid, _hid, _hid, _hid, _address]),
    "H5Dvlen_reclaim": (_int, [_hid, _hid, _hid, _address]),
    "H5Oget_comment": (ctypes.c_ssize_t, [_hid, _address, ctypes.c_size_t]),
    "H5Oset_comment": (_int, [_hid, _text]),
    "H5Padd_merge_committed_dtype_path": (_int, [_hid, _text]),
    "H5Pclose": (_int, [_hid]),
    "H5Pcreate": (_hid, [_hid]),
    "H5Pget_fill_value": (_int, [_hid, _hid, _address]),
    "H5Pset_fill_value": (_int, [_hid, _hid, _address]),
    "H5Pset_char_encoding": (_int, [_hid, _int]),
    "H5Pset_mcdt_search_cb": (_int, [_hid, _Search, _address]),
    "H5Rcreate": (_int, [_address, _hid, _text, _int, _hid]),
    "H5Rdereference2": (_hid, [_hid, _hid, _int, _address]),
    "H5Rget_region": (_hid, [_hid, _int, _address]),
}


@cache
def _library() -> ctypes.PyDLL:
    found = library.opened()
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(found, name)
        function.restype, function.argtypes = result, arguments
    return found


def _call(name: str, *arguments: Any) -> int:
    """Return the result of a call; raises OSError where HDF5 refuses."""
    result = int(getattr(_library(), name)(*arguments))
    if result < 0:
        raise OSError(f"{name} failed")
    return result


def create_attribute(
    owner: Any, name: bytes, encoding: int, datatype: h5t.TypeID, space: h5s.SpaceID
) -> h5a.AttrID:
    """Return a new attribute whose name has the given character set (h5t.CSET_ASCII or h5t.CSET_UTF8)."""
    kind = _hid.in_dll(_library(), "H5P_CLS_ATTRIBUTE_CREATE_ID_g")
    creation = _call("H5Pcreate", kind)
    try:
        _call("H5Pset_char_encoding", creation, encoding)
        made = _call("H5Acreate2", owner.id, name, datatype.id, space.id, creation, DEFAULT)
        _call("H5Aclose", made)
    finally:
        _call("H5Pclose", creation)
    return h5a.open(owner, name)


def comment_of(thing: Any) -> bytes:
    """Return the comment of an object; empty without one (h5py's own call then returns what lay in
    memory).
    """
    size = _call("H5Oget_comment", thing.id, None, 0)
    buffer = ctypes.create_string_buffer(size + 1)
    _call("H5Oget_comment", thing.id, buffer, size + 1)
    return buffer.value


def set_comment(thing: Any, comment: bytes) -> None:
    """Give an object a comment."""
    _call("H5Oset_comment", thing.id, comment)


def buffer_for(datatype: h5t.TypeID, count: int) -> Buffer:
    """Return zeroed room for `count` elements of a type as it is in memory."""
    return np.zeros(max(1, count * datatype.get_size()), np.uint8)


def _points(space: h5s.SpaceID) -> int:
    return int(space.get_select_npoints())


def read_attribute(attribute: h5a.AttrID, memory: h5t.TypeID) -> Buffer:
    """Return all elements of an attribute; what they point to is freed with `reclaim`."""
    buffer = buffer_for(memory, _points(attribute.get_space()))
    _call("H5Aread", attribute.id, memory.id, buffer.ctypes.data)
    return buffer


def write_attribute(attribute: h5a.AttrID, memory: h5t.TypeID, buffer: Buffer) -> None:
    """Set all elements of an attribute."""
    _call("H5Awrite", attribute.id, memory.id, buffer.ctypes.data)


def read_dataset(dataset: h5d.DatasetID, memory: h5t.TypeID, here: h5s.SpaceID, there: h5s.SpaceID) -> Buffer:
    """Return the elements selected by `there`, for a memory of the extent of `here`."""
    buffer = buffer_for(memory, _points(here))
    _call("H5Dread", dataset.id, memory.id, here.id, there.id, DEFAULT, buffer.ctypes.data)
    return buffer


def write_dataset(
    dataset: h5d.DatasetID, memory: h5t.TypeID, here: h5s.SpaceID, there: h5s.SpaceID, buffer: Buffer
) -> None:
    """Set the elements selected by `there`."""
    _call("H5Dwrite", dataset.id, memory.id, here.id, there.id, DEFAULT, buffer.ctypes.data)


def reclaim(memory: h5t.TypeID, space: h5s.SpaceID, buffer: Buffer) -> None:
    """Free what the elements of a buffer point to."""
    _call("H5Dvlen_reclaim", memory.id, space.id, DEFAULT, buffer.ctypes.data)


def fill_value(creation: h5p.PropDCID, memory: h5t.TypeID) -> Buffer:
    """Return the fill value of a dataset, one element."""
    buffer = buffer_for(memory, 1)
    _call("H5Pget_fill_value", creation.id, memory.id, buffer.ctypes.data)
    return buffer


def set_fill_value(creation: h5p.PropDCID, memory: h5t.TypeID, value: Buffer) -> None:
    """Give creation properties a fill value, one element of the type `memory`."""
    _call("H5Pset_fill_value", creation.id, memory.id, value.ctypes.data)


def merging(path: bytes | None, flags: int) -> h5p.PropCopyID:
    """Return the properties of a copy whose committed datatype becomes the one at `path` of the new file,
    if given.
    """
    properties = h5p.create(h5p.OBJECT_COPY)
    properties.set_copy_object(flags | (MERGE_COMMITTED_TYPES if path else 0))
    if path:
        _call("H5Padd_merge_committed_dtype_path", properties.id, path)
        # Without it HDF5 would look through the whole new file for the type.
        _call("H5Pset_mcdt_search_cb", properties.id, _stop_search, None)
    return properties


def make_region(address: int, file: Any, path: bytes, space: h5s.SpaceID) -> None:
    """Put a reference to a region of the dataset at `path` into the 12 bytes at `address`."""
    _call("H5Rcreate", address, file.id, path, h5r.DATASET_REGION, space.id)


def region_of(address: int, owner: Any) -> h5s.SpaceID:
    """Return the selection that the region reference at `address` stands for;
    OSError where it leads nowhere.
    """
    return h5s.SpaceID(_call("H5Rget_region", owner.id, h5r.DATASET_REGION, address))


def referenced(address: int, owner: Any, kind: int) -> Any:
    """Return what the reference at `address` in memory leads to, opened; OSError where it leads nowhere.

    `kind` is h5r.OBJECT or h5r.DATASET_REGION, `owner` anything open in its file.
    """
    return h5i.wrap_identifier(_call("H5Rdereference2", owner.id, DEFAULT, kind, address))
