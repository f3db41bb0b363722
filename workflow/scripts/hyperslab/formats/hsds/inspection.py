"""What the objects of HSDS are: files of chunks, each named by its place, and files that describe them."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from hyperslab.data.selections import Box
from hyperslab.layouts import layout_of
from hyperslab.layouts.chunks import chunk_count, touched_per_axis
from hyperslab.specifications import Specification

# The name of the object of a chunk: its place along each axis.
CHUNK = re.compile(r"\d+(_\d+)*")
Place = tuple[int, ...]
# The bytes of every object, by its name.
Objects = Mapping[str, int]


def objects_below(path: str) -> Objects:
    """Return the objects that are files below `path`."""
    found = [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
    return {str(file): file.stat().st_size for file in found}


def chunks_of(objects: Objects) -> dict[Place, int]:
    """Return the bytes of every chunk that is stored, by its place in the array, counted in chunks."""
    named = {name.rpartition("/")[2]: size for name, size in objects.items()}
    return {tuple(map(int, name.split("_"))): size for name, size in named.items() if CHUNK.fullmatch(name)}


def touched(box: Box, chunks: list[int], sizes: dict[Place, int]) -> list[int]:
    """Return the bytes of each chunk that a box touches; of one that is not stored, because it holds nothing
    but the fill value, 0.
    """
    return [sizes.get(place, 0) for place in product(*touched_per_axis(box.origin, box.extent, chunks))]


def _padding(place: Place, chunks: list[int], shape: list[int]) -> int:
    """Return the elements of the chunk at a place that lie beyond the edge of the array."""
    spans = zip(place, chunks, shape, strict=True)
    return math.prod(chunks) - math.prod(min(chunk, size - at * chunk) for at, chunk, size in spans)


def report(objects: Objects, folders: int, spec: Specification, settings: dict[str, Any]) -> dict[str, Any]:
    """Return sizes in bytes, counts of chunks, objects and folders, and the settings in force."""
    dataset, layout = spec["dataset"], layout_of(spec["layout"])
    assert layout.chunks is not None
    sizes = chunks_of(objects)
    itemsize = np.dtype(dataset["dtype"]).itemsize
    plain = not spec["layout"]["filters"]
    total, held = sum(objects.values()), sum(sizes.values())
    # Chunks that are not stored have none: they hold nothing but the fill value.
    padded = sizes if plain else ()
    padding = itemsize * sum(_padding(place, layout.chunks, dataset["shape"]) for place in padded)
    return {
        "file_bytes": total,
        "stored_bytes": held,
        "data_bytes": held - padding,
        "padding_bytes": padding,
        "padding_predicted_bytes": padding,
        "index_bytes": 0,
        "index_predicted_bytes": 0,
        "metadata_bytes": total - held,
        "remainder_bytes": total - held,
        "chunks": len(sizes),
        "chunks_predicted": chunk_count(dataset["shape"], layout.chunks),
        "files": len(objects),
        "folders": folders,
        "adjacent_share": None,
        "chunks_left_alone": None,
        "settings": settings,
    }
