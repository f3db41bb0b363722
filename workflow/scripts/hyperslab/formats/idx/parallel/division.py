"""Which rank writes which file of a dataset; arithmetic without MPI."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hyperslab.data.selections import Box
from hyperslab.layouts.idx_files import IdxFiles


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
