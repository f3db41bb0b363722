"""What arithmetic says of a selection on an IDX dataset: blocks touched, their bytes, what is requested."""

from __future__ import annotations

from collections.abc import Sequence

from hyperslab.data.selections import Box, steps_of
from hyperslab.formats.idx import files as binary
from hyperslab.formats.idx.inspection import Held
from hyperslab.layouts.idx_files import IdxFiles, Place


def predict(box: Box, places: Sequence[Place], files: IdxFiles, stored: Held) -> dict[str, float]:
    """Return blocks touched, their stored bytes, and what the kernel is asked for: bytes and read calls.

    They hold for one selection on a newly opened dataset: of each binary file that it touches the headers are
    read, once, then runs of neighbouring blocks. `box` is in disk order.
    """
    leading = files.leading
    level = files.bitmask.level_of_steps(steps_of(box)[leading:])
    numbers = files.blocks.touched(box.origin[leading:], box.extent[leading:], level).tolist()
    size = runs = touched = opened = 0
    known: set[tuple[int, int]] = set()
    for place in places:
        held = [(number, stored[place][number]) for number in numbers if number in stored[place]]
        # Levels are read one after the other.
        pieces: dict[tuple[int, int], list[binary.Stored]] = {}
        for number, block in held:
            key = (files.blocks.level_of(number), files.first_of_file(number))
            pieces.setdefault(key, []).append(block)
        firsts = {first for _, first in pieces}
        size += sum(block.size for _, block in held)
        touched += len(held)
        runs += sum(len(list(binary.runs(blocks))) for blocks in pieces.values())
        opened += len(firsts)
        known |= {(place.time, first) for first in firsts}
    # OpenVisus reads block by block, and the headers again for each field.
    headers, reads = (opened, touched) if files.by_openvisus else (len(known), runs)
    return {
        "chunks_touched": touched,
        "chunk_bytes": size,
        "requested": size + headers * files.header_bytes,
        "requested_reads": reads + headers,
    }
