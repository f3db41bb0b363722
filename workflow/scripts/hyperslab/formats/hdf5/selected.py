"""Reads and writes that h5py's own indexing does not offer: patterns, memory types and transfer settings."""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from h5py import h5p, h5s, h5t

from hyperslab.data.selections import Box, Pattern


def _select(space: h5s.SpaceID, box: Box) -> None:
    """Select a box or a pattern, in disk order, on a dataset's space."""
    if not isinstance(box, Pattern):
        space.select_hyperslab(box.origin, (1,) * len(box.extent), block=box.extent)
        return
    operation = h5s.SELECT_SET
    for part in box.parts():
        axes = list(zip(part.extent, part.step, part.block, strict=True))
        # An axis that is taken whole is one block, which the library handles faster than many.
        count = tuple(-(-extent // step) if step > 1 else 1 for extent, step, _ in axes)
        block = tuple(size if step > 1 else extent for extent, step, size in axes)
        space.select_hyperslab(part.origin, count, tuple(step for _, step, _ in axes), block, operation)
        operation = h5s.SELECT_OR


def read_selected(
    dataset: h5py.Dataset, box: Box, dtype: np.dtype[Any] | None, transfer: h5p.PropDXID
) -> npt.NDArray[Any]:
    """Return the elements of a box or pattern (in disk order) as `dtype`, or in the dataset's own type."""
    shape = box.shape if isinstance(box, Pattern) else box.extent
    out = np.empty(shape, dtype or dataset.dtype)
    space = dataset.id.get_space()
    _select(space, box)
    dataset.id.read(h5s.create_simple(shape), space, out, h5t.py_create(out.dtype), transfer)
    return out


def write_selected(dataset: h5py.Dataset, box: Box, block: npt.NDArray[Any], transfer: h5p.PropDXID) -> None:
    """Store `block` (in disk order, of whatever numeric type) at `box`."""
    data = np.ascontiguousarray(block)
    space = dataset.id.get_space()
    _select(space, box)
    dataset.id.write(h5s.create_simple(data.shape), space, data, h5t.py_create(data.dtype), transfer)
