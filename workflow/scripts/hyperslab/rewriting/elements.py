"""Elements of attributes and datasets on their way from one file to another, whatever their type."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from h5py import h5a, h5d, h5s, h5t

from hyperslab.data.selections import Box
from hyperslab.rewriting import calls
from hyperslab.rewriting.memory import (
    Form,
    Plain,
    References,
    UnknownReference,
    form_of,
    has_references,
    owns_memory,
    translate,
)

Bytes = npt.NDArray[Any]


def filled_from_heap(dataset: h5d.DatasetID) -> bool:
    """Return whether a dataset has a fill value of variable length, such as netCDF gives to text.

    H5Ocopy copies the place that it has in the heap of the old file.
    """
    given = dataset.get_create_plist().fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED
    return bool(given) and owns_memory(form_of(dataset.get_type()))


def selected(space: h5s.SpaceID, box: Box) -> tuple[h5s.SpaceID, h5s.SpaceID]:
    """Return the dataspaces of a box: in memory, and within `space`; a scalar is its own box."""
    there = space.copy()
    if not box.extent:
        return space.copy(), there
    there.select_hyperslab(box.origin, box.extent)
    return h5s.create_simple(box.extent), there


class PlainReader:
    """Reads boxes of a dataset into one piece of memory; for types of fixed size without references."""

    def __init__(self, dataset: h5d.DatasetID) -> None:
        """Take the dataset, which stays open."""
        self._dataset, self._datatype, self._space = dataset, dataset.get_type(), dataset.get_space()
        self._dtype = np.dtype(f"V{self._datatype.get_size()}")
        self._memory = np.empty(0, np.uint8)

    def read(self, box: Box) -> Bytes:
        """Return the elements of a box as they are stored; the next call takes their place."""
        size = math.prod(box.extent) * self._dtype.itemsize
        if self._memory.nbytes < size:
            # First without the old one.
            self._memory = np.empty(0, np.uint8)
            self._memory = np.empty(size, np.uint8)
        used = self._memory[:size]
        # Where nothing is stored and no fill value defined HDF5 leaves the memory alone.
        used.fill(0)
        block = used.view(self._dtype).reshape(box.extent)
        here, there = selected(self._space, box)
        self._dataset.read(here, there, block, self._datatype)
        return block


def write_plain(dataset: h5d.DatasetID, box: Box, block: Bytes) -> None:
    """Store elements as `PlainReader` gives them."""
    here, there = selected(dataset.get_space(), box)
    dataset.write(here, there, np.ascontiguousarray(block), dataset.get_type())


@contextmanager
def read_elements(dataset: h5d.DatasetID, box: Box) -> Iterator[calls.Buffer]:
    """Yield the elements of a box in memory, freed at the end; for types of any kind."""
    memory = dataset.get_type().copy()
    here, there = selected(dataset.get_space(), box)
    buffer = calls.read_dataset(dataset, memory, here, there)
    try:
        yield buffer
    finally:
        if owns_memory(form_of(memory)):
            calls.reclaim(memory, here, buffer)


def write_elements(dataset: h5d.DatasetID, box: Box, buffer: calls.Buffer) -> None:
    """Store elements as `read_elements` gives them."""
    here, there = selected(dataset.get_space(), box)
    calls.write_dataset(dataset, dataset.get_type().copy(), here, there, buffer)


@contextmanager
def attribute_elements(attribute: h5a.AttrID) -> Iterator[calls.Buffer]:
    """Yield the elements of an attribute in memory, freed at the end."""
    memory, space = attribute.get_type().copy(), attribute.get_space()
    buffer = calls.read_attribute(attribute, memory)
    try:
        yield buffer
    finally:
        if owns_memory(form_of(memory)):
            calls.reclaim(memory, space, buffer)


def copy_attribute(
    source: h5a.AttrID, owner: Any, name: bytes, encoding: int, datatype: h5t.TypeID,
    references: References | None = None,
) -> None:  # fmt: skip
    """Give `owner` an attribute of this type with the elements of another.

    Without `references` both are in one file, where those of the elements lead to where they led. Raises
    UnknownReference.
    """
    space = source.get_space()
    made = calls.create_attribute(owner, name, encoding, datatype, space)
    if not count(space):
        return
    memory = source.get_type()
    with attribute_elements(source) as buffer:
        if references is not None:
            buffer = translated(form_of(memory), buffer, references)
        calls.write_attribute(made, memory.copy(), buffer)


def translated(form: Form, buffer: calls.Buffer, references: References) -> calls.Buffer:
    """Return the buffer itself, its references made those of the other file."""
    if has_references(form):
        start: int = buffer.ctypes.data
        for place in range(start, start + buffer.nbytes // form.size * form.size, form.size):
            translate(form, place, references)
    return buffer


def is_plain(datatype: h5t.TypeID) -> bool:
    """Return whether a type's elements are bytes that mean the same everywhere."""
    try:
        return isinstance(form_of(datatype), Plain)
    except UnknownReference:
        return False


def count(space: h5s.SpaceID) -> int:
    """Return the number of elements: 0 for a null dataspace, 1 for a scalar."""
    return int(space.get_select_npoints())
