"""Whether two datasets of equal type and extent hold the same values: bit for bit, piece by piece."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np
import numpy.typing as npt
from h5py import h5d, h5t

from hyperslab.measuring.processors import processors
from hyperslab.rewriting import long_elements
from hyperslab.rewriting.elements import PlainReader, read_elements
from hyperslab.rewriting.filling import Digests, digest
from hyperslab.rewriting.forks import in_order
from hyperslab.rewriting.memory import Plain, References, form_of, same
from hyperslab.rewriting.pieces import Pieces, pays, shared
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
    digests: Digests | None = None,
    heap: int = 0,
) -> bool:
    """Return whether all values are equal; what is stored the same way is compared without decoding it.

    `digests` of ours, where they were read before, stand for its values. `budget` bounds the memory.
    `heap` are the bytes that the file of ours has for elements of variable length at most.
    """
    plain = isinstance(form_of(ours.get_type()), Plain)
    if plain and chunk_of(ours) and storage(ours) == storage(theirs) and _same_chunks(ours, theirs):
        return True
    size = math.prod(ours.shape) * ours.get_type().get_size()
    told = progress if progress and size >= LARGE_BYTES else None
    if told:
        told.start(f"comparing {name}", size)
    advance = told.advance if told else lambda _: None
    if plain:
        equal = _same_bytes(ours, theirs, budget, digests, advance)
    else:
        # Two boxes at once.
        pieces = long_elements.pieces(ours, theirs, heap, budget // 2)
        equal = _same_elements(ours, theirs, references, pieces, advance)
    if told:
        told.done()
    return equal


def _same_bytes(
    ours: h5d.DatasetID,
    theirs: h5d.DatasetID,
    budget: int,
    digests: Digests | None,
    advance: Callable[[int], None],
) -> bool:
    """Return whether values of fixed size are equal; several processes share the boxes where that pays."""
    shape, itemsize = ours.shape, ours.get_type().get_size()
    stored, readers = (StoredChunks(ours), StoredChunks(theirs)), (PlainReader(ours), PlainReader(theirs))
    known = digests.values if digests else {}
    held = max(chunks.count_bytes() for chunks in stored)
    several = processors() if pays(held) else 1
    # Two boxes at once.
    pieces = digests.pieces if digests else shared(
        shape, chunk_of(theirs), chunk_of(ours), itemsize, budget // 2, held, several
    )  # fmt: skip
    boxes = list(pieces.boxes(shape))
    # What is not stored has the fill value, unless it never gets it.
    never = [one.get_create_plist().get_fill_time() == h5d.FILL_TIME_NEVER for one in (ours, theirs)]
    filled = never[0] or not never[1]

    def same_box(number: int) -> bool:
        box = boxes[number]
        if filled and not any(chunks.any(box) for chunks in stored):
            return True
        block = readers[1].read(box)
        if number in known:
            return digest(block) == known[number]
        return np.array_equal(_as_bytes(readers[0].read(box)), _as_bytes(block))

    with closing(in_order(same_box, len(boxes), pieces.processes)) as results:
        for box, equal in zip(boxes, results, strict=True):
            if not equal:
                return False
            advance(math.prod(box.extent) * itemsize)
    return True


def _same_elements(
    ours: h5d.DatasetID,
    theirs: h5d.DatasetID,
    references: References,
    pieces: Pieces,
    advance: Callable[[int], None],
) -> bool:
    """Return whether elements that point elsewhere are equal."""
    datatype, shape = ours.get_type(), ours.shape
    itemsize = datatype.get_size()
    stored = StoredChunks(ours), StoredChunks(theirs)
    for box in pieces.boxes(shape):
        if any(chunks.any(box) for chunks in stored):
            with read_elements(ours, box) as first, read_elements(theirs, box) as second:
                if not same_elements(datatype, first, second, references):
                    return False
        advance(math.prod(box.extent) * itemsize)
    return True


def _as_bytes(block: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    return block.reshape(-1).view(np.uint8)


def _rows(dataset: h5d.DatasetID) -> npt.NDArray[np.int64]:
    """Return the offset, filter mask and size of every stored chunk, one row each, sorted."""
    # A list of tuples would take a few times as much.
    rows = array("q")
    dataset.chunk_iter(lambda chunk: rows.extend((*chunk.chunk_offset, chunk.filter_mask, chunk.size)))
    found = np.asarray(rows, np.int64).reshape(-1, len(dataset.shape) + 2)
    return found[np.lexsort(found.T[::-1])]


def _same_chunks(ours: h5d.DatasetID, theirs: h5d.DatasetID) -> bool:
    """Return whether both store the same chunks with the same bytes; where not, values may still be equal."""
    first, second = _rows(ours), _rows(theirs)
    if not np.array_equal(first, second):
        return False
    offsets = (tuple(map(int, row[:-2])) for row in first)
    return all(ours.read_direct_chunk(at) == theirs.read_direct_chunk(at) for at in offsets)
