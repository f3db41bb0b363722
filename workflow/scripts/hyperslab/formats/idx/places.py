"""Where an array's elements lie in an IDX dataset: fields, time steps and parts of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from hyperslab.data.selections import Box, steps_of
from hyperslab.data.tiles import TILE_BYTES
from hyperslab.layouts.idx_files import IdxFiles, Place
from hyperslab.specifications import Specification


def files_of(spec: Specification) -> IdxFiles:
    """Return the files of a specification's array."""
    dataset = spec["dataset"]
    itemsize = np.dtype(dataset["dtype"]).itemsize
    return IdxFiles(spec["layout"], dataset["axes"], dataset["shape"], itemsize)


def places_in(box: Box, files: IdxFiles) -> Iterator[tuple[tuple[int, ...], Place]]:
    """Yield every field of every time step that a box in disk order touches, and where it lies in the box."""
    leading = [
        range(start, start + width, step)
        for start, width, step in zip(
            box.origin[: files.leading], box.extent[: files.leading], steps_of(box), strict=False
        )
    ]
    for number, indices in zip(
        itertools.product(*(range(len(part)) for part in leading)), itertools.product(*leading), strict=True
    ):
        time = indices[0] if files.has_times else 0
        yield number, Place(time, indices[-1] if files.has_fields else 0)


def tiles_of(files: IdxFiles, limit: int = TILE_BYTES) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """Yield (origin, extent) of the parts, cut at the edge, that cover one field in HZ order.

    They are those of the first splits, so that each touches as few blocks as can be.
    """
    digits = 0
    while digits < files.bitmask.bits and files.itemsize << files.bitmask.bits - digits > limit:
        digits += 1
    extent = files.bitmask.steps(digits)
    numbers = np.arange(1 << digits, dtype=np.int64)
    for place in zip(*files.bitmask.split_into(0, digits, numbers), strict=True):
        origin = [int(p) * width for p, width in zip(place, extent, strict=True)]
        cut = [
            min(width, size - start) for start, width, size in zip(origin, extent, files.shape, strict=True)
        ]
        if min(cut) > 0:
            yield origin, cut
