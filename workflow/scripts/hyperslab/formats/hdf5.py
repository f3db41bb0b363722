"""HDF5 through h5py: create with a layout, write, open, read, and report what the file says of itself."""

from __future__ import annotations

import math
import os
from array import array
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from h5py import h5d, h5f, h5g, h5o, h5p, h5s, h5t

from hyperslab import chunks as arithmetic
from hyperslab.formats import filters
from hyperslab.formats.tiles import fill_chunks, fill_contiguous, in_array_order, tiles
from hyperslab.selections import Box
from hyperslab.values import Values

DATASET = b"data"
LIBVER = {
    "earliest": h5f.LIBVER_EARLIEST,
    "v108": h5f.LIBVER_V18,
    "v110": h5f.LIBVER_V110,
    "v112": h5f.LIBVER_V112,
    "v114": h5f.LIBVER_V114,
    "latest": h5f.LIBVER_LATEST,
}
ALLOC_TIMES = {h5d.ALLOC_TIME_EARLY: "early", h5d.ALLOC_TIME_LATE: "late", h5d.ALLOC_TIME_INCR: "incremental"}


def _access(spec: dict[str, Any], chunk_cache_bytes: int | None = None) -> h5p.PropFAID:
    """File access properties with the settings of the layout."""
    settings = spec["layout"]["settings"]
    access = h5p.create(h5p.FILE_ACCESS)
    metadata, _, _, w0 = access.get_cache()
    size = settings["chunk_cache_bytes"] if chunk_cache_bytes is None else chunk_cache_bytes
    access.set_cache(metadata, settings["chunk_cache_slots"], size, settings.get("chunk_cache_w0", w0))
    access.set_libver_bounds(LIBVER[settings["libver"]], h5f.LIBVER_LATEST)
    access.set_sieve_buf_size(settings["sieve_bytes"])
    access.set_fclose_degree(h5f.CLOSE_STRONG)
    return access


def _disk_order(spec: dict[str, Any]) -> list[int]:
    """Array axes in the order in which they lie on disk."""
    names = spec["dataset"]["axes"]
    return [names.index(name) for name in spec["layout"]["order"]]


class Hdf5Array:
    """The dataset of one open test file."""

    def __init__(self, file: h5py.File, order: list[int]) -> None:
        self._file = file
        self._dataset = file[DATASET]
        self._order = order
        self._inverse = [order.index(axis) for axis in range(len(order))]
        self._natural = order == sorted(order)

    def read(self, box: Box) -> npt.NDArray[Any]:
        """The elements of `box`, as a user of h5py gets them."""
        if self._natural:
            result: npt.NDArray[Any] = self._dataset[box.slices()]
            return result
        result = self._dataset[box.permuted(self._order).slices()]
        return result.transpose(self._inverse)

    def write(self, box: Box, block: npt.NDArray[Any]) -> None:
        """Store `block` at `box`."""
        if self._natural:
            self._dataset[box.slices()] = block
        else:
            self._dataset[box.permuted(self._order).slices()] = block.transpose(self._order)

    def flush(self) -> None:
        """Hand everything buffered in the library to the kernel."""
        self._file.flush()

    def close(self) -> None:
        """Close dataset and file."""
        self._file.close()


def _create(path: str, spec: dict[str, Any], access: h5p.PropFAID, allocate_early: bool) -> h5py.File:
    """A new file whose empty dataset has the layout of `spec`."""
    layout, dataset = spec["layout"], spec["dataset"]
    # Neither file, group nor dataset says when it was made: equal specifications give equal files.
    whole, group, creation = (
        h5p.create(kind) for kind in (h5p.FILE_CREATE, h5p.GROUP_CREATE, h5p.DATASET_CREATE)
    )
    for created in (whole, group, creation):
        created.set_obj_track_times(False)
    file_id = h5f.create(os.fsencode(path), h5f.ACC_TRUNC, fcpl=whole, fapl=access)
    # The root group's first link allocates space; made here, it lies before the chunks for every writer.
    h5g.create(file_id, b"provenance", gcpl=group).close()
    order = _disk_order(spec)
    if layout["chunks"]:
        creation.set_chunk(tuple(layout["chunks"][axis] for axis in order))
        filters.apply(creation, layout["filters"])
    else:
        creation.set_layout(h5d.CONTIGUOUS)
    if allocate_early:
        creation.set_alloc_time(h5d.ALLOC_TIME_EARLY)
        creation.set_fill_time(h5d.FILL_TIME_NEVER)
    space = h5s.create_simple(tuple(dataset["shape"][axis] for axis in order))
    h5d.create(file_id, DATASET, h5t.py_create(np.dtype(dataset["dtype"])), space, creation).close()
    return h5py.File(file_id)


class Hdf5:
    """The HDF5 side of the format seam."""

    def create(self, path: str, spec: dict[str, Any]) -> Hdf5Array:
        """Create the file and an empty dataset; chunks are allocated as they are written (HDF5's default)."""
        return Hdf5Array(_create(path, spec, _access(spec), False), _disk_order(spec))

    def open(self, path: str, spec: dict[str, Any]) -> Hdf5Array:
        """Open for reading with the library settings of `spec`."""
        file_id = h5f.open(os.fsencode(path), h5f.ACC_RDONLY, fapl=_access(spec))
        return Hdf5Array(h5py.File(file_id), _disk_order(spec))

    def create_plain(self, path: str, spec: dict[str, Any]) -> Hdf5Array:
        """As `create`, without a chunk cache: chunks reach the file in the order in which they are written.

        A chunk cache evicts by slot, so some chunks overtake others (their order is part of a layout).
        """
        return Hdf5Array(_create(path, spec, _access(spec, chunk_cache_bytes=0), False), _disk_order(spec))

    def generate(self, path: str, spec: dict[str, Any], values: Values) -> str:
        """Fill a new file; returns "allocated" for the shortcut, else "plain".

        The shortcut: HDF5 allocates all chunks in row-major order while it creates the dataset, the values
        go into the allocated places through the kernel. Offsets, index and values equal those of the plain
        writer for unfiltered data with version-1 B-trees and for contiguous data (tested per family of
        layouts).
        """
        layout = spec["layout"]
        order = _disk_order(spec)
        shortcut = not layout["filters"] and layout["settings"]["libver"] in ("earliest", "v108")
        if not shortcut:
            self.write_plain(path, spec, values)
            return "plain"
        file = _create(path, spec, _access(spec), True)
        dataset = file[DATASET].id
        shape = [spec["dataset"]["shape"][axis] for axis in order]
        if layout["chunks"]:
            offsets = array("q")
            dataset.chunk_iter(lambda chunk: offsets.append(chunk.byte_offset))
            file.close()
            chunk = [layout["chunks"][axis] for axis in order]
            fill_chunks(path, np.frombuffer(offsets, np.int64), shape, chunk, values, order)
        else:
            offset = dataset.get_offset()
            file.close()
            fill_contiguous(path, offset, shape, values, order)
        return "allocated"

    def write_plain(self, path: str, spec: dict[str, Any], values: Values) -> None:
        """Row-major over the chunks on disk, each written once."""
        order = _disk_order(spec)
        shape = [spec["dataset"]["shape"][axis] for axis in order]
        chunk = spec["layout"]["chunks"]
        step = [chunk[axis] for axis in order] if chunk else [1] * len(shape)
        opened = self.create_plain(path, spec)
        try:
            for tile in tiles(shape, step, values.dtype.itemsize):
                box = in_array_order(tile, order)
                opened.write(box, values.block(box.origin, box.extent))
        finally:
            opened.close()

    def report(self, path: str, spec: dict[str, Any]) -> dict[str, Any]:
        """Sizes in bytes, chunk counts and the settings in force, from another open than any timed one."""
        file = h5py.File(h5f.open(os.fsencode(path), h5f.ACC_RDONLY, fapl=_access(spec)))
        try:
            return self._report(file, path, spec)
        finally:
            file.close()

    def _report(self, file: h5py.File, path: str, spec: dict[str, Any]) -> dict[str, Any]:
        dataset = file[DATASET]
        creation, access = dataset.id.get_create_plist(), file.id.get_access_plist()
        itemsize, shape = dataset.dtype.itemsize, dataset.shape
        raw, stored = math.prod(shape) * itemsize, dataset.id.get_storage_size()
        filtered = creation.get_nfilters() > 0
        index = int(h5o.get_info(dataset.id).meta_size.obj.index_size)
        count = dataset.id.get_num_chunks() if dataset.chunks else 0
        padding = arithmetic.padding_bytes(shape, dataset.chunks, itemsize) if dataset.chunks else 0
        size = os.stat(path).st_size
        dataset_access = dataset.id.get_access_plist()
        slots, cache_bytes, w0 = dataset_access.get_chunk_cache()
        low, high = access.get_libver_bounds()
        names = {value: name for name, value in LIBVER.items()}
        return {
            "file_bytes": size,
            "stored_bytes": stored,
            "data_bytes": stored if filtered else raw,
            # Padding is compressed along with the data, so that it has no size of its own behind a filter.
            "padding_bytes": 0 if filtered else stored - raw,
            "padding_predicted_bytes": 0 if filtered else padding,
            "index_bytes": index,
            "index_predicted_bytes": self._predict_index(spec, len(shape)),
            "remainder_bytes": size - stored - index,
            "chunks": count,
            "chunks_predicted": arithmetic.chunk_count(shape, dataset.chunks) if dataset.chunks else 0,
            "adjacent_share": _adjacent_share(dataset.id, count) if not filtered else None,
            "settings": {
                "dataset_layout": "chunked" if dataset.chunks else "contiguous",
                "chunks": list(dataset.chunks) if dataset.chunks else None,
                "filters": filters.describe(creation),
                "alloc_time": ALLOC_TIMES.get(creation.get_alloc_time(), "default"),
                "chunk_cache_bytes": cache_bytes,
                "chunk_cache_slots": slots,
                "chunk_cache_w0": w0,
                "sieve_bytes": access.get_sieve_buf_size(),
                "meta_block_bytes": access.get_meta_block_size(),
                "libver": [names.get(low, str(low)), names.get(high, str(high))],
                "maximum_shape": list(dataset.maxshape),
                "dtype": str(dataset.dtype),
            },
        }

    def _predict_index(self, spec: dict[str, Any], dimensions: int) -> int | None:
        """Bytes of the chunk index after row-major insertion; None where the format gives no formula here."""
        layout, dataset = spec["layout"], spec["dataset"]
        if not layout["chunks"]:
            return 0
        count = arithmetic.chunk_count(dataset["shape"], layout["chunks"])
        if layout["settings"]["libver"] in ("earliest", "v108"):
            return arithmetic.btree_nodes(count) * arithmetic.btree_node_bytes(dimensions)
        chunk_bytes = math.prod(layout["chunks"]) * np.dtype(dataset["dtype"]).itemsize
        # HDF5 2.0 introduced data layout message version 5, whose chunk sizes take 8 bytes.
        newest = LIBVER[layout["settings"]["libver"]] > h5f.LIBVER_V114
        return arithmetic.fixed_array_bytes(
            count, bool(layout["filters"]), chunk_bytes, 8 if newest else None
        )

    def stored_sizes(self, path: str, spec: dict[str, Any]) -> dict[str, Any]:
        """What `predict` needs from the file: where filtered, stored bytes of each chunk, row-major."""
        if not spec["layout"]["filters"]:
            return {}
        sizes = array("q")
        file = h5py.File(h5f.open(os.fsencode(path), h5f.ACC_RDONLY, fapl=_access(spec)))
        try:
            file[DATASET].id.chunk_iter(lambda chunk: sizes.append(chunk.size))
        finally:
            file.close()
        return {"chunk_sizes": sizes}

    def predict(self, box: Box, spec: dict[str, Any], stored: dict[str, Any]) -> dict[str, float]:
        """Chunks touched, their stored bytes, and the bytes that HDF5 will ask for, NaN if unknown.

        `requested` holds for one selection on a freshly opened file: chunks that fit the chunk cache (and all
        filtered ones) are read whole, and so is every index node on the way to them.
        """
        order = _disk_order(spec)
        disk = box.permuted(order)
        shape = [spec["dataset"]["shape"][axis] for axis in order]
        itemsize = np.dtype(spec["dataset"]["dtype"]).itemsize
        settings = spec["layout"]["settings"]
        if not spec["layout"]["chunks"]:
            runs = arithmetic.contiguous_runs(disk.origin, disk.extent, shape)
            total = math.prod(shape) * itemsize
            asked = arithmetic.sieve_requested_bytes(runs, itemsize, total, settings["sieve_bytes"])
            return {"chunks_touched": 0, "chunk_bytes": math.prod(box.extent) * itemsize, "requested": asked}
        chunk = [spec["layout"]["chunks"][axis] for axis in order]
        touched = arithmetic.chunks_touched(disk.origin, disk.extent, chunk)
        one = math.prod(chunk) * itemsize
        if sizes := stored.get("chunk_sizes"):
            linear = arithmetic.linear_chunk_indices(disk.origin, disk.extent, shape, chunk)
            volume = sum(sizes[position] for position in linear)
        else:
            volume = touched * one
        requested = math.nan
        bypassed = one > settings["chunk_cache_bytes"] and not spec["layout"]["filters"]
        if not bypassed and settings["libver"] in ("earliest", "v108"):
            linear = arithmetic.linear_chunk_indices(disk.origin, disk.extent, shape, chunk)
            nodes = arithmetic.btree_nodes_visited(linear, arithmetic.chunk_count(shape, chunk))
            requested = volume + nodes * arithmetic.btree_node_bytes(len(shape))
        return {"chunks_touched": touched, "chunk_bytes": volume, "requested": requested}


def _adjacent_share(dataset: h5d.DatasetID, count: int) -> float | None:
    """Share of chunks that lie right behind their row-major predecessor (first 100,000 chunks)."""
    if count < 2:
        return None
    state = {"seen": 0, "adjacent": 0, "end": -1}

    def visit(chunk: Any) -> int | None:
        state["adjacent"] += chunk.byte_offset == state["end"]
        state["end"] = chunk.byte_offset + chunk.size
        state["seen"] += 1
        # Any other value than None ends the iteration: a sample tells enough and costs little.
        return 1 if state["seen"] >= 100_000 else None

    dataset.chunk_iter(visit)
    return state["adjacent"] / (state["seen"] - 1)


FORMAT = Hdf5()
