"""Reading ahead of a contiguous dataset: the kernel begins to read what will be asked for next."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import h5py
from h5py import h5fd

from hyperslab.data.selections import Box

# A call brings in no more than the device's read-ahead or its largest request, whatever it asks for.
STEP_BYTES = 2**20
# A box in more pieces than these is left to the kernel's own read-ahead.
MOST_RUNS = 64


class Ahead:
    """Has the kernel begin to read boxes of one dataset, where that lies in one piece of one file."""

    def __init__(self, file: h5py.File, dataset: h5py.Dataset, order: Sequence[int]) -> None:
        self._file, self._dataset, self._order = file, dataset, order
        # Looked up when first asked for, so that opening takes no longer.
        self._places: list[Place | None] = []

    def __call__(self, box: Box) -> None:
        """Have it begin to read a box; returns at once."""
        if not self._places:
            self._places = [place_of(self._file, self._dataset)]
        if place := self._places[0]:
            begin(place, box.permuted(self._order))


class Place(NamedTuple):
    """Where a contiguous dataset lies: its file, the offset there, its extents on disk, bytes of one."""

    descriptor: int
    offset: int
    shape: tuple[int, ...]
    itemsize: int


def place_of(file: h5py.File, dataset: h5py.Dataset) -> Place | None:
    """Return where the elements of a dataset lie, None where they do not lie in one piece of one file."""
    access = file.id.get_access_plist()
    offset = dataset.id.get_offset() if access.get_driver() == h5fd.SEC2 else None
    if offset is None:
        return None
    return Place(file.id.get_vfd_handle(), offset, dataset.shape, dataset.dtype.itemsize)


def runs(shape: Sequence[int], box: Box, itemsize: int) -> tuple[int, Iterator[int]]:
    """Return the bytes of each contiguous run of a box (on disk), and an iterator of their offsets."""
    whole = len(shape)
    while whole and box.extent[whole - 1] == shape[whole - 1]:
        whole -= 1
    # The axis before those that are whole belongs to a run, too.
    axis = max(0, whole - 1)
    strides = [math.prod(shape[position + 1 :]) * itemsize for position in range(len(shape))]
    first = sum(start * stride for start, stride in zip(box.origin, strides, strict=True))
    outer = (range(0, box.extent[at] * strides[at], strides[at]) for at in range(axis))
    size = box.extent[axis] * strides[axis] if shape else itemsize
    return size, (first + sum(steps) for steps in itertools.product(*outer))


def begin(place: Place, box: Box) -> None:
    """Have the kernel begin to read a box, given as it lies on disk; nothing where it is in many pieces."""
    size, offsets = runs(place.shape, box, place.itemsize)
    if math.prod(box.extent) * place.itemsize > size * MOST_RUNS:
        return
    for offset in offsets:
        for at in range(0, size, STEP_BYTES):
            os.posix_fadvise(
                place.descriptor,
                place.offset + offset + at,
                min(STEP_BYTES, size - at),
                os.POSIX_FADV_WILLNEED,
            )
