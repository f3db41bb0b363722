"""Which sub-volume of an array each rank holds, and who writes which file of it; arithmetic without MPI."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hyperslab.data.selections import Box
from hyperslab.layouts.idx_files import IdxFiles


def sub_volumes(shape: Sequence[int], axis: int, ranks: int) -> list[Box]:
    """Return the box of each rank: the array cut into as many equal parts along an axis."""
    found = []
    for rank in range(ranks):
        first, last = rank * shape[axis] // ranks, (rank + 1) * shape[axis] // ranks
        origin = tuple(first if a == axis else 0 for a in range(len(shape)))
        extent = tuple(last - first if a == axis else size for a, size in enumerate(shape))
        found.append(Box(origin, extent))
    return found


def mistake(boxes: Sequence[Box], shape: Sequence[int]) -> str | None:
    """Return which sub-volumes overlap, are empty or leave holes, or None: then they make up the array."""
    for number, box in enumerate(boxes):
        ends = [start + width for start, width in zip(box.origin, box.extent, strict=True)]
        if min(box.extent) < 1 or min(box.origin) < 0 or any(e > s for e, s in zip(ends, shape, strict=True)):
            return f"rank {number} holds {box.extent} at {box.origin}, outside of the array {tuple(shape)}"
        for other, before in enumerate(boxes[:number]):
            apart = any(
                start >= first + width or first >= end
                for start, end, first, width in zip(
                    box.origin, ends, before.origin, before.extent, strict=True
                )
            )
            if not apart:
                return f"ranks {other} and {number} both hold samples at {box.origin}"
    held = sum(int(np.prod(box.extent)) for box in boxes)
    if held < int(np.prod(shape)):
        return f"the ranks hold {held:,} samples of {int(np.prod(shape)):,}: their sub-volumes leave holes"
    return None


def writers_of_files(
    files: IdxFiles, boxes: Sequence[Box], aggregators: Sequence[int]
) -> list[tuple[int, int]]:
    """Return (first block, rank that writes it) of every binary file of a time step.

    A file of which one aggregator holds everything is that one's, so that nothing has to be sent; the others
    go to whoever has least to write. Boxes are in disk order, without time steps and fields.
    """
    touching = [
        np.unique(files.blocks.touched(box.origin, box.extent) // files.blocks_per_file) for box in boxes
    ]
    load = dict.fromkeys(aggregators, 0)
    found: dict[int, int] = {}
    shared = []
    for first in files.files.tolist():
        number = first // files.blocks_per_file
        holders = [rank for rank, held in enumerate(touching) if number in held]
        if len(holders) == 1 and holders[0] in load:
            found[first] = holders[0]
            load[holders[0]] += len(files.in_file(first))
        else:
            shared.append(first)
    for first in shared:
        found[first] = min(load, key=lambda rank: (load[rank], rank))
        load[found[first]] += len(files.in_file(first))
    return sorted(found.items())
