"""What a Zarr store says of itself: sizes of its files, chunks and indexes, and the settings in force."""

from __future__ import annotations

import io
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from hyperslab.formats.zarr import settings
from hyperslab.formats.zarr.description import OnDisk, level_path, open_array
from hyperslab.formats.zarr.prediction import Stored
from hyperslab.layouts import layout_of, zarr_store
from hyperslab.layouts.chunks import chunk_count, chunks_per_axis, padding_bytes
from hyperslab.layouts.pyramids import array_of, level_specification, stored_levels
from hyperslab.specifications import Specification

# What is added up over the levels of a pyramid.
ADDED = ("file_bytes", "index_bytes", "index_predicted_bytes", "metadata_bytes", "remainder_bytes", "chunks",
         "chunks_predicted")  # fmt: skip
# What the index of a shard has for a chunk that is not stored.
NOTHING = np.uint64(2**64 - 1)


def file_of(path: str, place: tuple[int, ...]) -> str:
    """Return the file of the chunk or shard at a place of the grid, by the default encoding of keys."""
    return os.path.join(path, "c", *map(str, place))


def stored(path: str, spec: Specification) -> Stored:
    """Return the bytes of every chunk and file, from the files' own sizes and the shards' indexes."""
    disk = OnDisk.of(spec)
    files = np.zeros(disk.units, np.int64)
    for place in np.ndindex(*disk.units):
        try:
            files[place] = os.stat(file_of(path, place)).st_size
        except FileNotFoundError:
            # A chunk that holds nothing but the fill value.
            continue
    counts = chunks_per_axis(disk.shape, disk.chunk)
    if not disk.sharded:
        sizes, starts = files, np.zeros(counts, np.int64)
    else:
        sizes, starts = np.zeros(counts, np.int64), np.zeros(counts, np.int64)
        for place in zip(*np.nonzero(files), strict=True):
            index = _index(file_of(path, place), disk)
            corner = [int(p) * many for p, many in zip(place, disk.per_unit, strict=True)]
            here = tuple(slice(first, first + n) for first, n in zip(corner, disk.per_unit, strict=True))
            kept = tuple(slice(0, extent) for extent in sizes[here].shape)
            there = index[kept][..., 0] != NOTHING
            starts[here] = np.where(there, index[kept][..., 0], 0)
            sizes[here] = np.where(there, index[kept][..., 1], 0)
    return Stored(sizes.reshape(-1), starts.reshape(-1), files.reshape(-1), _buffer_bytes(path))


def _index(file: str, disk: OnDisk) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return the first byte and bytes of every chunk of a shard, by its place in the shard."""
    size = zarr_store.shard_index_bytes(disk.unit, disk.chunk)
    with open(file, "rb", buffering=0) as shard:
        shard.seek(-size, io.SEEK_END)
        content = shard.read(size)
    entries = np.frombuffer(content[: -zarr_store.INDEX_CHECKSUM_BYTES], "<u8")
    return entries.reshape(*disk.per_unit, 2)


def _buffer_bytes(path: str) -> int:
    """Return the size of Python's buffer for a file here; it depends on its release and the file system."""
    with open(os.path.join(path, zarr_store.METADATA), "rb") as file:
        return file.__sizeof__() - type(file).__basicsize__


def report(path: str, spec: Specification) -> dict[str, Any]:
    """Return sizes in bytes, counts of chunks and files, and the settings in force, from another opening.

    Of a pyramid chunks, indexes and files of all levels are added up; the array and its padding stay apart
    from what the coarser levels take.
    """
    if not (levels := stored_levels(spec["layout"])):
        return _report(path, spec)
    found, *coarser = (
        _report(level_path(path, spec, level), level_specification(spec, level))
        for level in range(levels + 1)
    )
    for name in ADDED:
        parts = [one[name] for one in (found, *coarser)]
        found[name] = None if None in parts else sum(parts)
    group = os.stat(os.path.join(path, zarr_store.METADATA)).st_size
    held = sum(one["stored_bytes"] for one in coarser)
    array, layout = array_of(spec), layout_of(spec["layout"])
    files, folders = _counted(path)
    # What codecs leave is not known, and chunks that hold nothing are not stored.
    known = not spec["layout"]["codecs"] and found["chunks"] == found["chunks_predicted"]
    return {
        **found,
        "file_bytes": found["file_bytes"] + group,
        "metadata_bytes": found["metadata_bytes"] + group,
        "remainder_bytes": found["remainder_bytes"] + group,
        "pyramid_bytes": held,
        "pyramid_predicted_bytes": layout.coarser_bytes(array) if known else None,
        "files": files,
        "folders": folders,
        "files_predicted": layout.largest_files(array),
        "settings": {**found["settings"], "levels": [one["settings"]["chunks"] for one in coarser]},
    }


def _report(path: str, spec: Specification) -> dict[str, Any]:
    """Return the report of one array."""
    disk, layout = OnDisk.of(spec), spec["layout"]
    held = stored(path, spec)
    shape, itemsize = spec["dataset"]["shape"], disk.dtype.itemsize
    raw = math.prod(shape) * itemsize
    chunks, files, folders = int(held.sizes.sum()), *_counted(path)
    index = int(np.count_nonzero(held.files)) * zarr_store.shard_index_bytes(disk.unit, disk.chunk)
    index = index if disk.sharded else 0
    metadata = os.stat(os.path.join(path, zarr_store.METADATA)).st_size
    size = metadata + int(held.files.sum())
    # Padding is compressed along with the data, so that it has no size of its own behind a codec; and chunks
    # that are not stored leave no sum to take it from.
    every = bool(held.sizes.all())
    plain = not layout["codecs"] and every
    # How many of them, and of files, there are follows from what the array holds, and from no arithmetic.
    keeps = layout["settings"]["write_empty_chunks"]
    indexes = zarr_store.index_bytes(layout, shape)
    known = not indexes or keeps or bool(held.files.all())
    padding = padding_bytes(shape, zarr_store.chunk_extents(layout), itemsize)
    return {
        "file_bytes": size,
        "stored_bytes": chunks,
        "data_bytes": raw if plain else chunks,
        "padding_bytes": chunks - raw if plain else 0,
        "padding_predicted_bytes": padding if plain else 0,
        "index_bytes": index,
        "index_predicted_bytes": indexes if known else None,
        "metadata_bytes": metadata,
        "remainder_bytes": size - chunks - index,
        "chunks": int(np.count_nonzero(held.sizes)),
        "chunks_predicted": chunk_count(shape, zarr_store.chunk_extents(layout)) if keeps or every else None,
        "files": files,
        "folders": folders,
        "files_predicted": zarr_store.file_count(layout, spec["dataset"]["axes"], shape),
        "adjacent_share": None,
        "chunks_left_alone": None,
        "settings": _settings(path, spec),
    }


def _counted(path: str) -> tuple[int, int]:
    """Return the files and folders of a store, the store's own folder among them."""
    files = folders = 0
    for _, _, names in os.walk(path):
        files, folders = files + len(names), folders + 1
    return files, folders


def _settings(path: str, spec: Specification) -> dict[str, Any]:
    """Return what zarr.json says, and what zarr.config says."""
    written = json.loads(Path(path, zarr_store.METADATA).read_text(encoding="utf-8"))
    settings.put(spec["layout"]["settings"])
    opened = open_array(path)
    return {
        "dataset_layout": "sharded" if opened.shards else "chunked",
        "chunks": list(opened.chunks),
        "shards": list(opened.shards) if opened.shards else None,
        "codecs": written["codecs"],
        "fill_value": written["fill_value"],
        "chunk_key_encoding": written["chunk_key_encoding"],
        "dimension_names": written["dimension_names"],
        "zarr_format": written["zarr_format"],
        "dtype": written["data_type"],
        # zarr.json does not hold it; a store that was made without it may lack some chunks.
        "write_empty_chunks": spec["layout"]["settings"]["write_empty_chunks"],
        **settings.effective(),
    }
