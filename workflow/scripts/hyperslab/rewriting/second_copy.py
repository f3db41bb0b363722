"""A second copy of a rewritten dataset in the same file, stored otherwise, and what each is for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5a, h5d, h5p

from hyperslab.rewriting import RewriteError
from hyperslab.rewriting.elements import copy_attribute
from hyperslab.rewriting.pieces import plan
from hyperslab.rewriting.progress import Progress
from hyperslab.rewriting.survey import attributes_of, attributes_of_scales
from hyperslab.rewriting.target import SUFFIX, put_chunks, resolved_chunks

# The attribute of both that says which reads each is for.
FOR = "for_reads"
# The attribute of the second that names the first.
COPY_OF = "copy_of"


def add(file: Path, dataset: str, second: Mapping[str, Any], budget: int, progress: Progress) -> None:
    """Add a copy of `dataset` to a file as `second` describes it, and compare the two.

    The copy has the attributes and dimension scales of the first: units, what stands for a missing value.
    `second` has `chunks`, `filters`, and the names of the reads that each copy is for: `cases` of this one,
    `others` of the first. That its name is free target.chunks_for has seen. `budget` bounds the memory for
    values, in bytes. Raises RewriteError.
    """
    # The caller holds a lock of its own on the file.
    with h5py.File(file, "r+", locking=False) as opened:
        first = opened[dataset]
        name = first.name + SUFFIX
        chunk = resolved_chunks(second["chunks"], first.shape, first.maxshape, first.dtype.itemsize)
        new = _created(opened, name, first, chunk, second["filters"])
        _describe(first, new)
        for one, reads in ((first, second["others"]), (new, second["cases"])):
            if reads and FOR not in one.attrs:
                one.attrs[FOR] = ", ".join(reads)
        new.attrs[COPY_OF] = first.name
        progress.start(
            f"writing {name} {f'in chunks {list(chunk)}' if chunk else 'without chunks'}", first.nbytes
        )
        # The values, those that are read back, and the bytes of both.
        pieces = plan(first.shape, new.chunks, first.chunks, first.dtype.itemsize, max(1, budget // 4))
        for box in pieces.boxes(first.shape):
            new[box.slices()] = first[box.slices()]
            progress.advance(math.prod(box.extent) * first.dtype.itemsize)
        # What it holds in its chunk cache would be compared before any filter.
        new.id.close()
        new = opened[name]
        for box in pieces.boxes(first.shape):
            if first[box.slices()].tobytes() != new[box.slices()].tobytes():
                raise RewriteError(f"{name} is not the same as {dataset}")
    progress.done()
    progress.say(f"{name} holds the same, for {', '.join(second['cases'])}")


def _describe(first: h5py.Dataset, new: h5py.Dataset) -> None:
    """Give a new dataset the attributes and dimension scales of another of its file."""
    # First: HDF5 attaches none where the attribute CLASS has words of another kind.
    for here, there in zip(first.dims, new.dims, strict=True):
        for scale in here.values():
            there.attach_scale(scale)
    left_out = attributes_of_scales(first) | {FOR, COPY_OF}
    for name, encoding in attributes_of(first.id):
        if name.decode() not in left_out:
            source = h5a.open(first.id, name)
            copy_attribute(source, new.id, name, encoding, source.get_type())


def _created(
    file: h5py.File, name: str, first: h5py.Dataset, chunk: Sequence[int] | None, filters: Sequence[Any]
) -> h5py.Dataset:
    """Return a new dataset of the type and extent of another, empty."""
    creation = h5p.create(h5p.DATASET_CREATE)
    if chunk:
        put_chunks(creation, chunk, filters)
    fill = first.id.get_create_plist()
    if fill.fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED:
        value = np.zeros((), first.dtype)
        fill.get_fill_value(value)
        creation.set_fill_value(value)
    space = first.id.get_space()
    return h5py.Dataset(h5d.create(file.id, name.encode(), first.id.get_type(), space, creation))
