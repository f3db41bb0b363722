"""Where an array's elements lie in an IDX dataset: axes in disk order, fields and time steps."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from hyperslab.data.selections import Box, steps_of
from hyperslab.layouts.idx_files import IdxFiles, Place
from hyperslab.specifications import Specification


def files_of(spec: Specification) -> IdxFiles:
    """Return the files of a specification's array."""
    dataset = spec["dataset"]
    itemsize = np.dtype(dataset["dtype"]).itemsize
    return IdxFiles(spec["layout"], dataset["axes"], dataset["shape"], itemsize)


def disk_order(spec: Specification) -> list[int]:
    """Return the array's axes as they lie on disk: time steps, fields, then those of the dataset."""
    return [spec["dataset"]["axes"].index(name) for name in spec["layout"]["order"]]


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
