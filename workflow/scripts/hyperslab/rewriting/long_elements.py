"""How many elements of variable length are in memory at once: how long one is, only reading it tells."""

from __future__ import annotations

import math
from collections.abc import Iterable

from h5py import h5d, h5f, h5o

from hyperslab.rewriting.elements import count, filled_from_heap
from hyperslab.rewriting.memory import form_of, owns_memory
from hyperslab.rewriting.pieces import Pieces, plan
from hyperslab.rewriting.storage import chunk_of
from hyperslab.rewriting.survey import Node

# However short they are.
ELEMENTS_AT_ONCE = 4096
# Of a dataset without chunks H5Ocopy reads as many as have references of 1 MiB (H5D_TEMP_BUF_SIZE).
COPIED_AT_ONCE = 2**16


def heap_bytes(file: h5f.FileID, nodes: Iterable[Node], enough: int) -> int:
    """Return how many bytes a file has for elements of variable length at most: those that no dataset has.

    A file of no more than `enough` bytes is not looked into: it may be all of it.
    """
    found = int(file.get_filesize())
    if found <= enough:
        return found
    for node in nodes:
        if node.kind == h5o.TYPE_DATASET:
            dataset = h5d.open(file, node.path)
            creation = dataset.get_create_plist()
            if creation.get_layout() != h5d.VIRTUAL and not creation.get_external_count():
                found -= int(dataset.get_storage_size())
    return max(0, found)


def _fitting(dataset: h5d.DatasetID, heap: int, budget: int) -> int:
    """Return how many elements `budget` bytes hold where `heap` bytes are all, about equally long."""
    return max(1, budget * count(dataset.get_space()) // max(1, heap))


def too_long(dataset: h5d.DatasetID, heap: int, budget: int) -> bool:
    """Return whether elements that H5Ocopy holds at once, of a chunk or without chunks, may exceed a budget.

    `heap` is what `heap_bytes` returns of the file.
    """
    if not owns_memory(form_of(dataset.get_type())):
        return False
    chunk, all_ = chunk_of(dataset), count(dataset.get_space())
    at_once = math.prod(chunk) if chunk else COPIED_AT_ONCE
    return min(at_once, all_) > _fitting(dataset, heap, budget)


def pieces(dataset: h5d.DatasetID, new: h5d.DatasetID, heap: int, budget: int) -> Pieces:
    """Return the boxes in which elements of any type are read that go to another dataset, or are compared."""
    form, chunk, unit = form_of(dataset.get_type()), chunk_of(dataset), chunk_of(new)
    most = ELEMENTS_AT_ONCE
    if chunk and filled_from_heap(dataset):
        # HDF5 reads a fill value of variable length only where it may write, for it allocates one: of one
        # chunk, where others may be absent.
        most = min(most, math.prod(chunk))
    elif owns_memory(form):
        most = min(most, _fitting(dataset, heap, budget))
        if too_long(dataset, heap, budget):
            # A chunk is read and written in parts.
            unit = None
    return plan(dataset.shape, unit, chunk, form.size, most * form.size)
