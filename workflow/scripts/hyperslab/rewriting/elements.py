"""Elements of attributes and datasets on their way from one file to another, whatever their type."""

from __future__ import annotations

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
    form_of,
    has_references,
    owns_memory,
    translate,
)

Bytes = npt.NDArray[Any]
# Elements of variable length are of unknown size: so many are in memory at once.
ELEMENTS_AT_ONCE = 4096


def selected(space: h5s.SpaceID, box: Box) -> tuple[h5s.SpaceID, h5s.SpaceID]:
    """Return the dataspaces of a box: in memory, and within `space`; a scalar is its own box."""
    there = space.copy()
    if not box.extent:
        return space.copy(), there
    there.select_hyperslab(box.origin, box.extent)
    return h5s.create_simple(box.extent), there


def read_plain(dataset: h5d.DatasetID, box: Box) -> Bytes:
    """Return the elements of a box as they are stored; for types of fixed size without references."""
    datatype = dataset.get_type()
    block = np.zeros(box.extent, f"V{datatype.get_size()}")
    here, there = selected(dataset.get_space(), box)
    dataset.read(here, there, block, datatype)
    return block


def write_plain(dataset: h5d.DatasetID, box: Box, block: Bytes) -> None:
    """Store elements as `read_plain` gives them."""
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


def translated(form: Form, buffer: calls.Buffer, references: References) -> calls.Buffer:
    """Return the buffer itself, its references made those of the other file."""
    if has_references(form):
        start: int = buffer.ctypes.data
        for place in range(start, start + buffer.nbytes // form.size * form.size, form.size):
            translate(form, place, references)
    return buffer


def is_plain(datatype: h5t.TypeID) -> bool:
    """Return whether a type's elements are bytes that mean the same everywhere."""
    return isinstance(form_of(datatype), Plain)


def count(space: h5s.SpaceID) -> int:
    """Return the number of elements: 0 for a null dataspace, 1 for a scalar."""
    return int(space.get_select_npoints())
