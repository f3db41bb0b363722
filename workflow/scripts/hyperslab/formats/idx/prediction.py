"""What arithmetic says of a selection on an IDX dataset: levels, files and blocks touched, requests."""

from __future__ import annotations

from collections.abc import Sequence

from hyperslab.data.selections import Box, steps_of
from hyperslab.formats.idx import files as binary
from hyperslab.formats.idx.inspection import Held
from hyperslab.formats.idx.places import places_in
from hyperslab.layouts.idx_files import IdxFiles, Place


def predict(boxes: Sequence[Box], files: IdxFiles, stored: Held) -> list[dict[str, float]]:
    """Return levels, files and blocks touched, their stored bytes, and what the kernel is asked for, bytes
    and calls, for each of several levels of a box that are read one after the other, nothing twice.

    They hold on a newly opened dataset: of each binary file that is touched the headers are read, once, then
    runs of neighbouring blocks. Boxes are in disk order.
    """
    leading, found = files.leading, []
    known, read = set[tuple[int, int]](), dict[Place, set[int]]()
    for box in boxes:
        level = files.bitmask.level_of_steps(steps_of(box)[leading:])
        touched = files.blocks.touched(box.origin[leading:], box.extent[leading:], level).tolist()
        new = {
            place: [number for number in touched if number not in read.setdefault(place, set())]
            for _, place in places_in(box, files)
        }
        found.append({"levels_touched": level + 1, **_counts(new, files, stored, known)})
        for place, numbers in new.items():
            read[place].update(numbers)
    return found


def _counts(
    new: dict[Place, list[int]], files: IdxFiles, stored: Held, known: set[tuple[int, int]]
) -> dict[str, float]:
    """Return the counts of reading these blocks; `known` are the files whose headers were read before."""
    before, there = len(known), set[tuple[int, int]]()
    size = runs = touched = opened = 0
    for place, numbers in new.items():
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
        there |= {(place.time, first) for first in firsts}
    known |= there
    # OpenVisus reads block by block, and the headers again for each field.
    headers, reads = (opened, touched) if files.by_openvisus else (len(known) - before, runs)
    return {
        "files_touched": len(there),
        "chunks_touched": touched,
        "chunk_bytes": size,
        "requested": size + headers * files.header_bytes,
        "requested_reads": reads + headers,
    }
