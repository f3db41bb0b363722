"""Many equal HDF5 datasets in one file, created, written and read one at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from h5py import h5d, h5f, h5s

from hyperslab.data.selections import disk_order, inverse_of
from hyperslab.formats.hdf5 import filter_setters, library, settings
from hyperslab.formats.hdf5.description import create_file, describe_dataset, open_file
from hyperslab.formats.hdf5.inspection import LAYOUTS
from hyperslab.formats.hdf5.settings import Lists, property_lists
from hyperslab.layouts import layout_of
from hyperslab.specifications import Specification


def one_object(spec: Specification) -> Specification:
    """Return the specification of one dataset: that of a cell without its first axis."""
    dataset, layout = spec["dataset"], spec["layout"]
    first = dataset["axes"][0]
    return {
        "dataset": {**dataset, "axes": dataset["axes"][1:], "shape": dataset["shape"][1:]},
        "layout": {
            **layout,
            "order": [axis for axis in layout["order"] if axis != first],
            "chunks": layout["chunks"][1:] if layout["chunks"] else None,
        },
    }


class ManyDatasets:
    """An open file of datasets that are named by their number."""

    def __init__(self, file_id: h5f.FileID, spec: Specification, lists: Lists) -> None:
        self._file = file_id
        self._lists = lists
        one = one_object(spec)
        self._datatype, self._space = describe_dataset(lists.creation, one)
        self._order = disk_order(one)
        self._every = spec["layout"]["settings"].get("garbage_collect_every")
        self._collections = 0

    def add(self, number: int, block: npt.NDArray[Any]) -> None:
        """Create dataset `number` and write all of it; collects garbage as often as the layout asks."""
        made = h5d.create(self._file, b"%06d" % number, self._datatype, self._space, self._lists.creation)
        data = np.ascontiguousarray(block.transpose(self._order))
        made.write(h5s.ALL, h5s.ALL, data, self._datatype, self._lists.transfer)
        made.close()
        if self._every and (number + 1) % self._every == 0:
            library.garbage_collect()
            self._collections += 1

    def read(self, number: int) -> npt.NDArray[Any]:
        """Return all of dataset `number`, opened and closed for it."""
        found = h5d.open(self._file, b"%06d" % number)
        out = np.empty(found.shape, found.dtype)
        found.read(h5s.ALL, h5s.ALL, out, self._datatype, self._lists.transfer)
        found.close()
        return out.transpose(inverse_of(self._order))

    def columns(self) -> dict[str, Any]:
        """Return the bytes that the library's free lists hold, and how often garbage was collected."""
        return {"free_list_bytes": library.free_list_bytes(), "garbage_collections": self._collections}

    def flush(self) -> None:
        """Hand everything buffered in the library to the kernel."""
        h5f.flush(self._file)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class ManyArrays:
    """Files of many datasets, each of all but the first axis of a specification."""

    def create(self, path: str, spec: Specification) -> ManyDatasets:
        """Create a file without datasets; raises Unavailable."""
        lists = property_lists(spec["layout"]["settings"], path)
        return ManyDatasets(create_file(path, lists), spec, lists)

    def open(self, path: str, spec: Specification) -> ManyDatasets:
        """Open for reading with the library settings of `spec`; raises Unavailable."""
        lists = property_lists(spec["layout"]["settings"], path)
        return ManyDatasets(open_file(path, lists).id, spec, lists)

    def report(self, path: str, spec: Specification) -> dict[str, Any]:
        """Return sizes in bytes over all datasets, and settings in force, from an open that is not timed."""
        lists = property_lists(spec["layout"]["settings"], path)
        file = open_file(path, lists)
        try:
            stored = index = chunks = 0
            for number in range(spec["dataset"]["shape"][0]):
                found = h5d.open(file.id, b"%06d" % number)
                stored += found.get_storage_size()
                index += library.index_bytes(found)
                chunked = found.get_create_plist().get_layout() == h5d.CHUNKED
                chunks += found.get_num_chunks() if chunked else 0
                found.close()
            dataset = file[b"000000"]
            in_force = settings.in_file(file, dataset, lists.transfer)
            size = settings.whole_size(path, spec["layout"]["settings"])
            raw = math.prod(spec["dataset"]["shape"]) * dataset.dtype.itemsize
            filtered = bool(spec["layout"]["filters"])
            return {
                "file_bytes": size,
                "files": 1 + len(layout_of(spec["layout"]).other_file_systems()),
                "stored_bytes": stored,
                "data_bytes": stored if filtered else raw,
                "padding_bytes": 0 if filtered else stored - raw,
                "index_bytes": index,
                "remainder_bytes": size - stored - index,
                "chunks": chunks,
                "settings": {
                    "dataset_layout": LAYOUTS[in_force.creation.get_layout()],
                    "chunks": list(dataset.chunks) if dataset.chunks else None,
                    "filters": filter_setters.describe(in_force.creation),
                    **settings.effective(in_force, path),
                    "dtype": str(dataset.dtype),
                },
            }
        finally:
            file.close()
