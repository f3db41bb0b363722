"""A second copy of the array in a test file, stored otherwise, for other cases than the first."""

from __future__ import annotations

import os

import h5py
from h5py import h5d, h5f

from hyperslab.data.selections import disk_order
from hyperslab.data.tiles import read_tile, tiles
from hyperslab.data.values import Values
from hyperslab.formats.hdf5 import filter_setters, parallel_compression
from hyperslab.formats.hdf5.description import describe_dataset
from hyperslab.formats.hdf5.settings import Lists
from hyperslab.specifications import Specification

DATASET = b"second"


def write(path: str, spec: Specification, values: Values, lists: Lists) -> int:
    """Add the copy that the layout of `spec` describes to a file, row-major over its chunks, each once.

    `lists` have no chunk cache, or chunks would overtake each other. Returns the memory of the processes that
    compressed, in bytes.
    """
    order = disk_order(spec)
    filter_setters.prepare(spec["layout"]["filters"])
    datatype, space = describe_dataset(lists.creation, spec)
    file_id = h5f.open(os.fsencode(path), h5f.ACC_RDWR, fapl=lists.file_access)
    dataset = h5d.create(file_id, DATASET, datatype, space, lists.creation)
    try:
        shape = [spec["dataset"]["shape"][axis] for axis in order]
        extents = spec["layout"]["chunks"]
        chunk = [extents[axis] for axis in order] if extents else [1] * len(shape)
        if parallel_compression.suits(spec):
            return parallel_compression.fill(dataset, spec, chunk, values, order)
        opened = h5py.Dataset(dataset)
        for tile in tiles(shape, chunk, values.dtype.itemsize):
            opened[tile.slices()] = read_tile(values, tile, order)
        return 0
    finally:
        dataset.close()
        file_id.close()
