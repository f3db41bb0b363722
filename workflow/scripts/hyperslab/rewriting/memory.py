"""How elements of any HDF5 type lie in memory: comparing two of them, and making references lead elsewhere.

Sizes and offsets are those of HDF5's own memory types (H5Tcopy of a type in a file): a variable-length
sequence is a length and a pointer, a variable-length string a pointer, an object reference the address of
the object's header, a region reference 12 bytes that only its file understands.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from h5py import h5t

POINTER_BYTES = ctypes.sizeof(ctypes.c_void_p)
REGION_BYTES = 12


class References(Protocol):
    """What the references of one file mean in another."""

    def object(self, address: int) -> int:
        """Return the address in the other file of the object at `address`; 0 for none."""

    def region(self, place: int) -> None:
        """Make the region reference at `place` in memory one of the other file."""

    def same_object(self, ours: int, theirs: int) -> bool:
        """Return whether the addresses, in one file and in the other, are those of corresponding objects."""

    def same_region(self, ours: int, theirs: int) -> bool:
        """Return whether the region references at two places in memory select the same of corresponding
        datasets.
        """


@dataclass(frozen=True)
class Plain:
    """Bytes that mean the same everywhere."""

    size: int


@dataclass(frozen=True)
class Text:
    """A pointer to a string that ends with a zero."""

    size: int = POINTER_BYTES


@dataclass(frozen=True)
class ObjectReference:
    """The address of an object."""

    size: int = 8


@dataclass(frozen=True)
class RegionReference:
    """A dataset and a selection of it."""

    size: int = REGION_BYTES


@dataclass(frozen=True)
class Sequence:
    """A length and a pointer to as many elements."""

    base: Form
    size: int = 2 * POINTER_BYTES


@dataclass(frozen=True)
class Record:
    """Members at offsets."""

    members: tuple[tuple[int, Form], ...]
    size: int


@dataclass(frozen=True)
class Repeat:
    """A fixed number of elements in a row."""

    base: Form
    count: int
    size: int


Form = Plain | Text | ObjectReference | RegionReference | Sequence | Record | Repeat


class UnknownReference(Exception):
    """A reference of a kind that cannot be followed."""


def form_of(datatype: h5t.TypeID) -> Form:
    """Return the form of a type's elements in memory;
    raises UnknownReference for H5T_STD_REF of HDF5 1.12.
    """
    memory = datatype.copy()
    size, kind = memory.get_size(), memory.get_class()
    if kind == h5t.REFERENCE:
        if memory.equal(h5t.STD_REF_OBJ):
            return ObjectReference(size)
        if memory.equal(h5t.STD_REF_DSETREG):
            return RegionReference(size)
        raise UnknownReference("references of the type H5T_STD_REF")
    if kind == h5t.STRING and memory.is_variable_str():
        return Text(size)
    if kind == h5t.VLEN:
        return Sequence(form_of(memory.get_super()), size)
    if kind == h5t.ARRAY:
        base = form_of(memory.get_super())
        if isinstance(base, Plain):
            return Plain(size)
        return Repeat(base, math.prod(memory.get_array_dims()), size)
    if kind == h5t.COMPOUND:
        count = memory.get_nmembers()
        members = [(memory.get_member_offset(n), form_of(memory.get_member_type(n))) for n in range(count)]
        if all(isinstance(form, Plain) for _, form in members):
            return Plain(size)
        return Record(tuple(members), size)
    return Plain(size)


def contains(form: Form, wanted: tuple[type, ...]) -> bool:
    """Return whether a form is one of the `wanted` kinds, or has one inside."""
    if isinstance(form, wanted):
        return True
    if isinstance(form, Sequence | Repeat):
        return contains(form.base, wanted)
    return isinstance(form, Record) and any(contains(member, wanted) for _, member in form.members)


def has_references(form: Form) -> bool:
    """Return whether elements refer to objects of their file."""
    return contains(form, (ObjectReference, RegionReference))


def owns_memory(form: Form) -> bool:
    """Return whether elements point to memory that must be freed."""
    return contains(form, (Text, Sequence))


def _pointer(place: int) -> int:
    return ctypes.c_void_p.from_address(place).value or 0


def _sequence(place: int) -> tuple[int, int]:
    """Return the length and first address of the sequence at `place`."""
    return ctypes.c_size_t.from_address(place).value, _pointer(place + ctypes.sizeof(ctypes.c_size_t))


def _steps(base: Form, start: int, count: int) -> Iterator[int]:
    return iter(range(start, start + count * base.size, base.size))


def same(form: Form, ours: int, theirs: int, references: References) -> bool:
    """Return whether the elements at two addresses are equal: bytes for bytes,
    references by what they mean.
    """
    return COMPARE[type(form)](form, ours, theirs, references)


def _same_plain(form: Plain, ours: int, theirs: int, _: References) -> bool:
    return ctypes.string_at(ours, form.size) == ctypes.string_at(theirs, form.size)


def _same_text(_: Text, ours: int, theirs: int, __: References) -> bool:
    first, second = _pointer(ours), _pointer(theirs)
    if not (first and second):
        return first == second
    return ctypes.string_at(first) == ctypes.string_at(second)


def _same_object(_: ObjectReference, ours: int, theirs: int, references: References) -> bool:
    first, second = (ctypes.c_uint64.from_address(place).value for place in (ours, theirs))
    return references.same_object(first, second)


def _same_region(_: RegionReference, ours: int, theirs: int, references: References) -> bool:
    return references.same_region(ours, theirs)


def _same_sequence(form: Sequence, ours: int, theirs: int, references: References) -> bool:
    count, first = _sequence(ours)
    other_count, second = _sequence(theirs)
    if count != other_count:
        return False
    if isinstance(form.base, Plain):
        return not count or _same_plain(Plain(count * form.base.size), first, second, references)
    pairs = zip(_steps(form.base, first, count), _steps(form.base, second, count), strict=True)
    return all(same(form.base, one, other, references) for one, other in pairs)


def _same_record(form: Record, ours: int, theirs: int, references: References) -> bool:
    return all(same(member, ours + at, theirs + at, references) for at, member in form.members)


def _same_repeat(form: Repeat, ours: int, theirs: int, references: References) -> bool:
    pairs = zip(_steps(form.base, ours, form.count), _steps(form.base, theirs, form.count), strict=True)
    return all(same(form.base, one, other, references) for one, other in pairs)


COMPARE: dict[type, Callable[..., bool]] = {
    Plain: _same_plain,
    Text: _same_text,
    ObjectReference: _same_object,
    RegionReference: _same_region,
    Sequence: _same_sequence,
    Record: _same_record,
    Repeat: _same_repeat,
}


def translate(form: Form, place: int, references: References) -> None:
    """Make every reference in the element at `place` one of the other file."""
    if isinstance(form, ObjectReference):
        value = ctypes.c_uint64.from_address(place)
        value.value = references.object(value.value)
    elif isinstance(form, RegionReference):
        references.region(place)
    elif isinstance(form, Record):
        for at, member in form.members:
            translate(member, place + at, references)
    elif isinstance(form, Sequence | Repeat) and has_references(form.base):
        count, first = _sequence(place) if isinstance(form, Sequence) else (form.count, place)
        for element in _steps(form.base, first, count):
            translate(form.base, element, references)
