"""HDF5 through h5py: create with a layout, write, open, read, and report what the file says of itself."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable
from functools import partial
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from h5py import h5d, h5f, h5p

from hyperslab.data.selections import Box, Pattern, disk_order, inverse_of, of_stored_level
from hyperslab.data.tiles import in_array_order, tiles
from hyperslab.data.values import Values
from hyperslab.formats import Format, OpenArray
from hyperslab.formats.hdf5 import (
    filter_setters,
    inspection,
    parallel_compression,
    prediction,
    second_copy,
    settings,
)
from hyperslab.formats.hdf5.ahead import Ahead
from hyperslab.formats.hdf5.description import add_dimensions, create_file, describe_dataset, open_file
from hyperslab.formats.hdf5.direct_write import fill_chunks, fill_contiguous
from hyperslab.formats.hdf5.kept_values import KeptValues
from hyperslab.formats.hdf5.objects import ManyArrays
from hyperslab.formats.hdf5.parallel_files import Parallel
from hyperslab.formats.hdf5.selected import read_selected, write_selected
from hyperslab.formats.hdf5.settings import Lists
from hyperslab.formats.hdf5.sub_volumes import SubVolumes
from hyperslab.formats.pyramid import PyramidArray
from hyperslab.layouts.pyramids import level_specification, stored_levels
from hyperslab.measuring.artifact import Artifact
from hyperslab.measuring.machine import versions_of
from hyperslab.specifications import Specification

DATASET = b"data"


def level_name(level: int) -> bytes:
    """Return the name of the dataset of a level; 0 is the array."""
    return b"level%d" % level if level else DATASET


def _lists(spec: Specification, path: str, chunk_cache_bytes: int | None = None) -> Lists:
    """Return the property lists with the settings of the layout."""
    chosen = spec["layout"]["settings"]
    if chunk_cache_bytes is not None:
        chosen = {**chosen, "chunk_cache_bytes": chunk_cache_bytes}
        # The plain writer's file is the same by any driver that writes one file.
        if chosen.get("driver", {}).get("name") != "split":
            chosen.pop("driver", None)
    return settings.property_lists(chosen, path)


class Hdf5Array(OpenArray):
    """The dataset of one open test file.

    `transfer` is the transfer property list, where the layout sets one; `memory` the type a case asks for.
    """

    def __init__(
        self,
        file: h5py.File,
        order: list[int],
        transfer: h5p.PropDXID | None = None,
        memory: np.dtype[Any] | None = None,
        name: bytes = DATASET,
    ) -> None:
        self._file = file
        self._dataset = file[name]
        self._order = order
        self._inverse = inverse_of(order)
        self._natural = order == sorted(order)
        self._transfer = transfer
        self._memory = memory
        self.ahead = Ahead(file, self._dataset, order)

    def reader(self, box: Box) -> Callable[[], npt.NDArray[Any]]:
        """Return a read of `box` that lacks nothing but the read: `dataset[index]`,
        as a user of h5py has it, wherever h5py offers that.
        """
        if self._transfer is not None or self._memory is not None or isinstance(box, Pattern):
            return lambda: self._read_selected(box)
        dataset, inverse = self._dataset, self._inverse
        index = box.permuted(self._order).slices()
        return (lambda: dataset[index]) if self._natural else lambda: dataset[index].transpose(inverse)

    def _read_selected(self, box: Box) -> npt.NDArray[Any]:
        """Do as `read` does, for what h5py's indexing does not offer."""
        transfer = self._transfer or h5p.create(h5p.DATASET_XFER)
        if self._natural:
            return read_selected(self._dataset, box, self._memory, transfer)
        result = read_selected(self._dataset, box.permuted(self._order), self._memory, transfer)
        return result if result.ndim < len(self._order) else result.transpose(self._inverse)

    def write(self, box: Box, block: npt.NDArray[Any]) -> None:
        """Store `block` at `box`."""
        if self._transfer is not None:
            turned = box.permuted(self._order), block.transpose(self._order)
            write_selected(self._dataset, *turned, self._transfer)
        elif self._natural:
            self._dataset[box.slices()] = block
        else:
            self._dataset[box.permuted(self._order).slices()] = block.transpose(self._order)

    def flush(self) -> None:
        """Hand everything buffered in the library to the kernel."""
        self._file.flush()

    def close(self) -> None:
        """Close dataset and file."""
        self._file.close()


def _create(path: str, spec: Specification, lists: Lists, allocate_early: bool) -> h5py.File:
    """Return a new file whose empty dataset has the layout of `spec`."""
    file_id = create_file(path, lists)
    datatype, space = describe_dataset(lists.creation, spec)
    if allocate_early:
        lists.creation.set_alloc_time(h5d.ALLOC_TIME_EARLY)
        lists.creation.set_fill_time(h5d.FILL_TIME_NEVER)
    h5d.create(file_id, DATASET, datatype, space, lists.creation).close()
    file = h5py.File(file_id)
    if spec["layout"].get("netcdf"):
        add_dimensions(file, file[DATASET], spec)
    return file


def _array(file: h5py.File, spec: Specification, lists: Lists, name: bytes = DATASET) -> Hdf5Array:
    """Return a dataset of an open file, with the layout's transfer settings and the case's memory type."""
    memory = spec.get("case", {}).get("memory_dtype")
    transfer = lists.transfer if "conversion_buffer_bytes" in spec["layout"]["settings"] else None
    return Hdf5Array(file, disk_order(spec), transfer, np.dtype(memory) if memory else None, name)


def _with_levels(file: h5py.File, path: str, spec: Specification, lists: Lists, writing: bool) -> OpenArray:
    """Return the array of an open file; of a pyramid with the levels that are there, or that writing adds."""
    array = _array(file, spec, lists)
    if not (levels := stored_levels(spec["layout"])):
        return array

    def add(level: int) -> OpenArray:
        own = level_specification(spec, level)
        creation = _lists(own, path).creation
        h5d.create(file.id, level_name(level), *describe_dataset(creation, own), creation).close()
        return _array(file, own, lists, level_name(level))

    if writing:
        return PyramidArray([array], spec, add)
    coarser = (_array(file, spec, lists, level_name(level)) for level in range(1, levels + 1))
    return PyramidArray([array, *coarser], spec)


def _open_by(path: str, spec: Specification, put_driver: Callable[[h5p.PropFAID], None]) -> Hdf5Array:
    """Open for reading by a driver that no setting can name: that of MPI-IO, which takes a communicator."""
    lists = _lists(spec, path)
    put_driver(lists.file_access)
    return _array(open_file(path, lists), spec, lists)


def _keep_size(sizes: array[int], chunk: h5d.StoreInfo) -> None:
    sizes.append(chunk.size)


class Hdf5(Format):
    """The HDF5 side of the format seam."""

    artifact = Artifact
    many_arrays: ManyArrays | None = ManyArrays()
    parallel: Parallel | None = Parallel(_open_by)
    sub_volumes = SubVolumes()
    _workers_memory_bytes = 0

    def versions(self) -> dict[str, str]:
        """Return the versions of h5py, of the HDF5 that it brings, which is measured, and of plugins."""
        library = ".".join(map(str, h5py.h5.get_libversion()))
        return {**versions_of(("h5py", "hdf5plugin")), "hdf5": library}

    def create(self, path: str, spec: Specification) -> OpenArray:
        """Create the file and an empty dataset; chunks are allocated as they are written (HDF5's default)."""
        lists = _lists(spec, path)
        return _with_levels(_create(path, spec, lists, False), path, spec, lists, writing=True)

    def prepare(self, spec: Specification) -> None:
        """Load what the layout's filters need."""
        filter_setters.prepare(spec["layout"]["filters"])

    def open(self, path: str, spec: Specification) -> OpenArray:
        """Open for reading with the library settings of `spec`."""
        self.prepare(spec)
        lists = _lists(spec, path)
        return _with_levels(self.opened(path, spec, lists), path, spec, lists, writing=False)

    def opened(self, path: str, spec: Specification, lists: Lists) -> h5py.File:
        """Return the file, opened where it is read with the settings of `lists`."""
        return open_file(path, lists)

    def create_plain(self, path: str, spec: Specification) -> Hdf5Array:
        """Do as `create` does, without a chunk cache:
        chunks reach the file in the order in which they are written.

        A chunk cache evicts by slot, so some chunks overtake others (their order is part of a layout).
        """
        lists = _lists(spec, path, chunk_cache_bytes=0)
        return _array(_create(path, spec, lists, False), spec, lists)

    def generate(self, path: str, spec: Specification, values: Values) -> str:
        """Fill a new file; returns "allocated" or "compressed" for the shortcuts, else "plain".

        Allocated: HDF5 allocates all chunks in row-major order while it creates the dataset, the values go
        into the allocated places through the kernel. Offsets, index and values equal those of the plain
        writer for unfiltered data with version-1 B-trees and for contiguous data (tested per family of
        layouts). Compressed: see `formats.hdf5.parallel_compression`. Levels of a pyramid are made
        afterwards, each of the one before it.
        """
        filter_setters.prepare(spec["layout"]["filters"])
        way = self._generate(path, level_specification(spec, 0), values)
        if stored_levels(spec["layout"]):
            self.add_levels(path, spec)
        if beside := spec["layout"].get("beside"):
            other: Any = {**spec, "layout": {**spec["layout"], **beside}}
            memory = second_copy.write(path, other, values, _lists(spec, path, chunk_cache_bytes=0))
            self._workers_memory_bytes = max(memory, self._workers_memory_bytes)
        return way

    def add_levels(self, path: str, spec: Specification) -> None:
        """Make the levels of a pyramid in a file that holds the array, chunk by chunk in row-major order."""
        lists = _lists(spec, path, chunk_cache_bytes=0)
        file = h5py.File(h5f.open(os.fsencode(path), h5f.ACC_RDWR, fapl=lists.file_access))
        try:
            _with_levels(file, path, spec, lists, writing=True).flush()
        finally:
            file.close()

    def _generate(self, path: str, spec: Specification, values: Values) -> str:
        """Fill a new file with the copy of the array that is read; see `generate`."""
        layout = spec["layout"]
        order = disk_order(spec)
        chosen = settings.resolved(layout["settings"])
        plain = layout.get("storage") or not inspection.CHUNK_ITER or chosen.keys() - settings.BASIC
        if not plain and parallel_compression.suits(spec):
            self._write_compressed(path, spec, values)
            return "compressed"
        # Dimensions would lie behind chunks that are allocated with the dataset.
        if plain or layout.get("netcdf") or layout["filters"] or chosen["libver"] not in ("earliest", "v108"):
            self.write_plain(path, spec, values)
            return "plain"
        file = _create(path, spec, _lists(spec, path), True)
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

    def kept_values(self, values: Values, spec: Specification) -> Values | None:
        """Return what lossy filters leave of values, of which a file has every chunk from one write."""
        # Of two copies one may have no filters.
        return KeptValues(values, spec) if spec["layout"]["chunks"] else values

    def workers_memory_bytes(self) -> int:
        """Return the largest memory of the processes that `generate` started, summed, in bytes."""
        return self._workers_memory_bytes

    def _write_compressed(self, path: str, spec: Specification, values: Values) -> None:
        """Write filtered chunks as `write_plain` does, compressed by several processes."""
        order = disk_order(spec)
        file = _create(path, spec, _lists(spec, path, chunk_cache_bytes=0), False)
        try:
            extents = spec["layout"]["chunks"] or spec["dataset"]["shape"]
            chunk = [extents[axis] for axis in order]
            self._workers_memory_bytes = parallel_compression.fill(
                file[DATASET].id, spec, chunk, values, order
            )
        finally:
            file.close()

    def write_plain(self, path: str, spec: Specification, values: Values) -> None:
        """Write row-major over the chunks on disk, each once."""
        order = disk_order(spec)
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

    def report(self, path: str, spec: Specification) -> dict[str, Any]:
        """Return the sizes in bytes, chunk counts and the settings in force,
        from another open than any timed one.
        """
        lists = _lists(spec, path)
        file = open_file(path, lists)
        try:
            reports = [
                inspection.report(file[level_name(level)], path, level_specification(spec, level), lists)
                for level in range(stored_levels(spec["layout"]) + 1)
            ]
            return inspection.with_levels(spec, *reports)
        finally:
            file.close()

    def stored_sizes(self, path: str, spec: Specification) -> dict[str, Any]:
        """Return what `predict` needs from the file: where filtered, for each level the stored bytes of its
        chunks, row-major.
        """
        if not spec["layout"]["filters"]:
            return {}
        found = [array("q") for _ in range(stored_levels(spec["layout"]) + 1)]
        file = open_file(path, _lists(spec, path))
        try:
            for level, sizes in enumerate(found):
                dataset = file[level_name(level)].id
                inspection.visit_chunks(dataset, partial(_keep_size, sizes))
        finally:
            file.close()
        return {"chunk_sizes": found}

    def predict(self, box: Box, spec: Specification, stored: dict[str, Any]) -> dict[str, float]:
        """Return the chunks touched, their stored bytes, and the bytes that HDF5 will ask for,
        NaN if unknown.
        """
        level, own = of_stored_level(box, stored_levels(spec["layout"]))
        sizes = stored["chunk_sizes"][level] if "chunk_sizes" in stored else None
        return prediction.predict(own, disk_order(spec), level_specification(spec, level), sizes)


FORMAT = Hdf5()
