"""Files and datasets of HDF5 as a specification describes them, for every one that writes them."""

from __future__ import annotations

import os

import h5py
from h5py import h5d, h5f, h5g, h5p, h5s, h5t

from hyperslab.data.selections import disk_order
from hyperslab.formats.hdf5 import filter_setters
from hyperslab.formats.hdf5.settings import Lists
from hyperslab.specifications import Specification

# What the library writes; readers look for the beginning.
NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable."


def create_file(path: str, lists: Lists) -> h5f.FileID:
    """Return a new file with an empty group, in which nothing says when it was made: equal requests,
    equal files.
    """
    group = h5p.create(h5p.GROUP_CREATE)
    for created in (lists.file_creation, group):
        created.set_obj_track_times(False)
    file_id = h5f.create(os.fsencode(path), h5f.ACC_TRUNC, fcpl=lists.file_creation, fapl=lists.file_access)
    # The root group's first link allocates space; made here, it lies before the chunks for every writer.
    h5g.create(file_id, b"provenance", gcpl=group).close()
    return file_id


def open_file(path: str, lists: Lists) -> h5py.File:
    """Return a file opened for reading with the settings of `lists`."""
    return h5py.File(h5f.open(os.fsencode(path), h5f.ACC_RDONLY, fapl=lists.file_access))


def describe_dataset(creation: h5p.PropDCID, spec: Specification) -> tuple[h5t.TypeID, h5s.SpaceID]:
    """Put the layout of `spec` on a dataset creation property list; returns the dataset's type and space."""
    layout, dataset = spec["layout"], spec["dataset"]
    creation.set_obj_track_times(False)
    order = disk_order(spec)
    if layout["chunks"]:
        creation.set_chunk(tuple(layout["chunks"][axis] for axis in order))
        filter_setters.apply(creation, layout["filters"])
    else:
        creation.set_layout(h5d.COMPACT if layout.get("storage") == "compact" else h5d.CONTIGUOUS)
    space = h5s.create_simple(tuple(dataset["shape"][axis] for axis in order))
    return filter_setters.datatype(dataset["dtype"], layout["filters"]), space


def add_dimensions(file: h5py.File, dataset: h5py.Dataset, spec: Specification) -> None:
    """Give a dataset its axes as netCDF-4 keeps dimensions that have no variable: scales without values.

    Appendix C of the netCDF User's Guide, "File Format Specifications": a dataset of the dimension's name and
    length, whose NAME says that it is none of a variable.
    """
    for position, (axis, extent) in enumerate(zip(spec["layout"]["order"], dataset.shape, strict=True)):
        scale = file.create_dataset(axis, (extent,), ">f4", track_times=False)
        scale.make_scale(f"{NO_VARIABLE}{extent:10d}")
        dataset.dims[position].attach_scale(scale)
