"""What an HDF5 test file says of itself: sizes, chunks, index and the settings in force."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import h5py
import numpy as np
from h5py import h5d

from hyperslab.formats.hdf5 import filter_setters, library, settings
from hyperslab.formats.hdf5.settings import LIBVER, Lists
from hyperslab.layouts import chunks as arithmetic
from hyperslab.layouts import hdf5_index, layout_of
from hyperslab.layouts.pyramids import array_of
from hyperslab.specifications import Specification

LAYOUTS = {h5d.COMPACT: "compact", h5d.CONTIGUOUS: "contiguous", h5d.CHUNKED: "chunked"}
# H5Dchunk_iter came with HDF5 1.12.3 and 1.14.
CHUNK_ITER = hasattr(h5d.DatasetID, "chunk_iter")


def report(dataset: h5py.Dataset, path: str, spec: Specification, lists: Lists) -> dict[str, Any]:
    """Return the sizes in bytes, chunk counts and the settings in force,
    of the dataset of an open test file.
    """
    found = settings.in_file(dataset.file, dataset, lists.transfer)
    creation = found.creation
    itemsize, shape = dataset.dtype.itemsize, dataset.shape
    raw, stored = math.prod(shape) * itemsize, dataset.id.get_storage_size()
    filtered = creation.get_nfilters() > 0
    index = library.index_bytes(dataset.id)
    count = dataset.id.get_num_chunks() if dataset.chunks else 0
    padding = arithmetic.padding_bytes(shape, dataset.chunks, itemsize) if dataset.chunks else 0
    size = settings.whole_size(path, spec["layout"]["settings"])
    return {
        "file_bytes": size,
        "files": 1 + len(layout_of(spec["layout"]).other_file_systems()),
        "stored_bytes": stored,
        "data_bytes": stored if filtered else raw,
        # Padding is compressed along with the data, so that it has no size of its own behind a filter.
        "padding_bytes": 0 if filtered else stored - raw,
        "padding_predicted_bytes": 0 if filtered else padding,
        "index_bytes": index,
        "index_predicted_bytes": _predict_index(spec, len(shape)),
        "remainder_bytes": size - stored - index,
        "chunks": count,
        "chunks_predicted": arithmetic.chunk_count(shape, dataset.chunks) if dataset.chunks else 0,
        "adjacent_share": _adjacent_share(dataset.id, count) if not filtered else None,
        "chunks_left_alone": left_alone(dataset.id) if filtered else None,
        "settings": {
            "dataset_layout": LAYOUTS[creation.get_layout()],
            "chunks": list(dataset.chunks) if dataset.chunks else None,
            "filters": filter_setters.describe(creation),
            **settings.effective(found, path),
            "maximum_shape": list(dataset.maxshape),
            "dtype": str(dataset.dtype),
        },
    }


def with_levels(spec: Specification, found: dict[str, Any], *coarser: Mapping[str, Any]) -> dict[str, Any]:
    """Return the report of an array with those of the coarser levels in the same file, as `spec` has them.

    Chunks and indexes of all of them are added up; the array and its padding stay apart from what the levels
    take, which without filters is their elements and padding.
    """
    if not coarser:
        return found
    for name in ("index_bytes", "index_predicted_bytes", "chunks", "chunks_predicted"):
        parts = [one[name] for one in (found, *coarser)]
        found[name] = None if None in parts else sum(parts)
    levels = sum(one["stored_bytes"] for one in coarser)
    predicted = layout_of(spec["layout"]).coarser_bytes(array_of(spec))
    return {
        **found,
        "pyramid_bytes": levels,
        "pyramid_predicted_bytes": None if spec["layout"]["filters"] else predicted,
        "remainder_bytes": found["file_bytes"] - found["stored_bytes"] - levels - found["index_bytes"],
        "settings": {**found["settings"], "levels": [one["settings"]["chunks"] for one in coarser]},
    }


def _predict_index(spec: Specification, dimensions: int) -> int | None:
    """Return the bytes of the chunk index after row-major insertion;
    None where the format gives no formula here.
    """
    layout, dataset = spec["layout"], spec["dataset"]
    if not layout["chunks"]:
        return 0
    count = arithmetic.chunk_count(dataset["shape"], layout["chunks"])
    libver = settings.resolved(layout["settings"])["libver"]
    if libver in ("earliest", "v108"):
        return hdf5_index.btree_nodes(count) * hdf5_index.btree_node_bytes(dimensions)
    if layout["settings"].get("alloc_time") == "early" and not layout["filters"]:
        # Chunks of one size, one behind the other, need no index (H5D_CHUNK_IDX_NONE).
        return 0
    chunk_bytes = math.prod(layout["chunks"]) * np.dtype(dataset["dtype"]).itemsize
    # HDF5 2.0 introduced data layout message version 5, whose chunk sizes take 8 bytes.
    newest = LIBVER[libver] > LIBVER.get("v114", LIBVER["latest"])
    return hdf5_index.fixed_array_bytes(count, bool(layout["filters"]), chunk_bytes, 8 if newest else None)


def _adjacent_share(dataset: h5d.DatasetID, count: int) -> float | None:
    """Return the share of chunks that lie right behind their row-major predecessor (first 100,000 chunks)."""
    if count < 2:
        return None
    state = {"seen": 0, "adjacent": 0, "end": -1}

    def visit(chunk: Any) -> int | None:
        state["adjacent"] += chunk.byte_offset == state["end"]
        state["end"] = chunk.byte_offset + chunk.size
        state["seen"] += 1
        # Any other value than None ends the iteration: a sample tells enough and costs little.
        return 1 if state["seen"] >= 100_000 else None

    visit_chunks(dataset, visit)
    return state["adjacent"] / (state["seen"] - 1)


def left_alone(dataset: h5d.DatasetID) -> int:
    """Return how many chunks some filter left as they were, because it could not treat or shrink them."""
    masks: list[int] = []
    visit_chunks(dataset, lambda chunk: masks.append(chunk.filter_mask))
    return sum(mask != 0 for mask in masks)


def visit_chunks(dataset: h5d.DatasetID, visit: Callable[[Any], Any]) -> None:
    """Call `visit` with each chunk in the order of the index, until it returns anything but None."""
    if CHUNK_ITER:
        dataset.chunk_iter(visit)
        return
    for number in range(dataset.get_num_chunks()):
        if visit(dataset.get_chunk_info(number)) is not None:
            return
