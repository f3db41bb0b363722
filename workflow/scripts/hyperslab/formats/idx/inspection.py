"""What an IDX dataset says of itself: where every block lies, sizes of its files, and its description."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from hyperslab.formats.idx import description
from hyperslab.formats.idx import files as binary
from hyperslab.formats.idx.reading import path_of
from hyperslab.layouts.idx_files import DESCRIPTION, IdxFiles, Place

# Of each field of each time step: block -> where it lies.
Held = dict[Place, dict[int, binary.Stored]]


def stored(path: str, files: IdxFiles) -> Held:
    """Return where every block lies, as the headers of all binary files have it."""
    described = description.read(path)
    found: Held = {place: {} for place in files.places()}
    for time in range(files.times):
        for first in range(0, files.blocks.count, described.blocks_per_file):
            file = path_of(path, described, time, first)
            headers = binary.read_headers(file, described.blocks_per_file * files.fields)
            if headers is None:
                continue
            for field in range(files.fields):
                for slot in range(min(described.blocks_per_file, files.blocks.count - first)):
                    number = field * described.blocks_per_file + slot
                    if headers[number, binary.SIZE]:
                        held = binary.stored_of(headers, number, file)
                        found[Place(time, field)][first + slot] = held
    return found


def report(path: str, files: IdxFiles) -> dict[str, Any]:
    """Return sizes in bytes, counts of blocks and files, and what the description says."""
    held = stored(path, files)
    sizes = [block.size for place in held.values() for block in place.values()]
    names = [os.path.join(folder, name) for folder, _, found in os.walk(path) for name in found]
    size = sum(os.stat(name).st_size for name in names)
    text = os.stat(os.path.join(path, DESCRIPTION)).st_size
    described = description.read(path)
    # Headers of blocks are to an IDX dataset what an index is to others.
    headers = sum(name.endswith(".bin") for name in names) * files.data_start
    plain = files.codec == "raw"
    raw = files.block_bytes * len(sizes) - files.padding_bytes()
    folders = len([folder for folder, _, _ in os.walk(path)])
    return {
        "file_bytes": size,
        "stored_bytes": sum(sizes),
        "data_bytes": raw if plain else sum(sizes),
        "padding_bytes": sum(sizes) - raw if plain else 0,
        "padding_predicted_bytes": files.padding_bytes() if plain else 0,
        "index_bytes": headers,
        "index_predicted_bytes": files.times * len(files.files) * files.data_start,
        "metadata_bytes": text,
        # With a codec, also where blocks lay before they grew.
        "remainder_bytes": size - headers - sum(sizes),
        "chunks": len(sizes),
        "chunks_predicted": files.times * files.fields * files.block_count(),
        "files": len(names),
        "folders": folders,
        "files_predicted": 1 + files.times * len(files.files) + folders,
        "adjacent_share": None,
        "chunks_left_alone": None,
        "settings": {
            "dataset_layout": "IDX",
            "bitmask": described.bitmask,
            "bits_per_block": described.bits_per_block,
            "blocks_per_file": described.blocks_per_file,
            "within_block": "row-major" if files.row_major else "hz",
            "codec": files.codec,
            "filename_template": described.template,
            "fields": [asdict(field) for field in described.fields],
            "time_steps": len(described.times),
        },
    }
