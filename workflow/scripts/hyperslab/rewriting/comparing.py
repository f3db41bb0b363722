"""Whether two datasets of equal type and extent hold the same values: bit for bit, piece by piece."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from h5py import h5d, h5t

from hyperslab.rewriting.elements import ELEMENTS_AT_ONCE, read_elements, read_plain
from hyperslab.rewriting.memory import Plain, References, form_of, same
from hyperslab.rewriting.pieces import plan
from hyperslab.rewriting.progress import LARGE_BYTES, Progress
from hyperslab.rewriting.storage import StoredChunks, chunk_of, storage

Words = tuple[str, Progress | None]


def same_elements(datatype: h5t.TypeID, ours: Any, theirs: Any, references: References) -> bool:
    """Return whether two buffers of elements in memory are equal; references by what they lead to."""
    form = form_of(datatype)
    if isinstance(form, Plain):
        return bool(np.array_equal(ours, theirs))
    starts = (range(b.ctypes.data, b.ctypes.data + b.nbytes, form.size) for b in (ours, theirs))
    return all(same(form, one, other, references) for one, other in zip(*starts, strict=True))


def same_values(
    name: str,
    ours: h5d.DatasetID,
    theirs: h5d.DatasetID,
    references: References,
    budget: int,
    progress: Progress | None = None,
) -> bool:
    """Return whether all values are equal; what is stored the same way is compared without decoding it."""
    plain = isinstance(form_of(ours.get_type()), Plain)
    if plain and chunk_of(ours) and storage(ours) == storage(theirs) and _same_chunks(ours, theirs):
        return True
    size = math.prod(ours.shape) * ours.get_type().get_size()
    told = progress if progress and size >= LARGE_BYTES else None
    if told:
        told.start(f"comparing {name}", size)
    equal = _same_boxes(ours, theirs, references, budget, told)
    if told:
        told.done()
    return equal


def _same_boxes(
    ours: h5d.DatasetID,
    theirs: h5d.DatasetID,
    references: References,
    budget: int,
    progress: Progress | None,
) -> bool:
    datatype, shape = ours.get_type(), ours.shape
    form, itemsize = form_of(datatype), datatype.get_size()
    plain = isinstance(form, Plain)
    # Elements of variable length are of unknown size.
    limit = budget // 4 if plain else ELEMENTS_AT_ONCE * itemsize
    stored = StoredChunks(ours), StoredChunks(theirs)
    for box in plan(shape, chunk_of(theirs), chunk_of(ours), itemsize, limit).boxes(shape):
        if not any(chunks.any(box) for chunks in stored):
            equal = True
        elif plain:
            equal = np.array_equal(_as_bytes(read_plain(ours, box)), _as_bytes(read_plain(theirs, box)))
        else:
            with read_elements(ours, box) as first, read_elements(theirs, box) as second:
                equal = same_elements(datatype, first, second, references)
        if not equal:
            return False
        if progress:
            progress.advance(math.prod(box.extent) * itemsize)
    return True


def _as_bytes(block: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    return block.reshape(-1).view(np.uint8)


def _rows(dataset: h5d.DatasetID) -> npt.NDArray[np.int64]:
    """Return the offset, filter mask and size of every stored chunk, one row each, sorted."""
    rows: list[tuple[int, ...]] = []
    dataset.chunk_iter(lambda chunk: rows.append((*chunk.chunk_offset, chunk.filter_mask, chunk.size)))
    found = np.array(rows, np.int64).reshape(len(rows), len(dataset.shape) + 2)
    return found[np.lexsort(found.T[::-1])]


def _same_chunks(ours: h5d.DatasetID, theirs: h5d.DatasetID) -> bool:
    """Return whether both store the same chunks with the same bytes; where not, values may still be equal."""
    first, second = _rows(ours), _rows(theirs)
    if not np.array_equal(first, second):
        return False
    offsets = (tuple(map(int, row[:-2])) for row in first)
    return all(ours.read_direct_chunk(at) == theirs.read_direct_chunk(at) for at in offsets)
