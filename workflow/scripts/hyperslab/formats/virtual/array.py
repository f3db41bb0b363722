"""HDF5 in an object store, its chunks read in place as those of a Zarr array, through a reference.

The file is written by HDF5. VirtualiZarr looks once where its chunks lie, and what it finds is kept beside
the file, as kerchunk keeps it. Who reads gets the reference, and then chunks by their ranges, without HDF5.
"""

from __future__ import annotations

import importlib
import tempfile
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import zarr

from hyperslab.data.selections import Box, disk_order
from hyperslab.data.values import Values
from hyperslab.formats import Format, OpenArray, Unavailable
from hyperslab.formats.collection import Collections
from hyperslab.formats.collection_files import Files
from hyperslab.formats.hdf5 import inspection
from hyperslab.formats.hdf5.array import DATASET, Hdf5
from hyperslab.formats.object_reads import ObjectReads, chunks_alone, said_plainly
from hyperslab.formats.zarr import settings
from hyperslab.formats.zarr.array import Zarr, ZarrArray
from hyperslab.layouts.virtual import CLIENT
from hyperslab.measuring.machine import versions_of
from hyperslab.measuring.object_store.address import address_of
from hyperslab.measuring.object_store.artifact import StoredArtifact
from hyperslab.specifications import Specification

# In the directory of the data: the file, and where its chunks lie.
FILE, REFERENCE = "array.h5", "reference.json"
# What a reference calls that directory; whoever reads says where it is.
HERE = "s3://here"
PIPELINE = {"pipeline": "default"}
# How the small array of Zarr is stored whose reading starts zarr-python.
PLAIN: Any = {"codecs": [], "settings": {**PIPELINE, "write_empty_chunks": False}}
# Elements of the small file that is read by reference before any other: filters make less of so many.
SMALL = 4096
# Chunks of HDF5 have numcodecs' codecs, of which zarr-python says so each time.
warnings.filterwarnings("ignore", "Numcodecs codecs are not in the Zarr")


class WithReference(OpenArray):
    """An open HDF5 file for writing, whose chunks are looked up when it is closed."""

    def __init__(self, opened: OpenArray, refer: Callable[[], None]) -> None:
        self._opened, self._refer = opened, refer

    def reader(self, box: Box) -> Callable[[], npt.NDArray[Any]]:
        """Return `read` of `box` with everything done but the read."""
        return self._opened.reader(box)

    def write(self, box: Box, block: npt.NDArray[Any]) -> None:
        """Store `block` at `box`."""
        self._opened.write(box, block)

    def flush(self) -> None:
        """Hand everything buffered in the library to the kernel."""
        self._opened.flush()

    def close(self) -> None:
        """Close the file, and write where its chunks lie."""
        self._opened.close()
        self._refer()


def refer(path: str, names: Sequence[str] = (FILE,), axis: int = 0) -> None:
    """Write the reference of files that are closed, into the directory in which they lie.

    Several hold one array, one behind the other along an axis as it lies on disk. Raises Unavailable where
    not all of their chunks went through the same filters.
    """
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore
    from virtualizarr.parsers import HDFParser

    _check_filtered([Path(path, name) for name in names])
    registry = ObjectStoreRegistry({HERE: LocalStore(path)})
    found = [HDFParser()(f"{HERE}/{name}", registry).to_virtual_dataset() for name in names]
    together = found[0]
    if len(found) > 1:
        import xarray

        along = together[DATASET.decode()].dims[axis]
        together = xarray.concat(
            found, dim=along, data_vars=[DATASET.decode()], coords="minimal", compat="override",
            join="override", combine_attrs="override",
        )  # fmt: skip
    together.vz.to_kerchunk(Path(path, REFERENCE), format="json")


def _check_filtered(files: Sequence[Path]) -> None:
    """Raise Unavailable where a filter left chunks as they were, as blosc does with what does not shrink."""
    left = 0
    for file in files:
        with h5py.File(file) as opened:
            chunked = (one for one in opened.values() if isinstance(one, h5py.Dataset) and one.chunks)
            left += sum(inspection.left_alone(one.id) for one in chunked)
    if left:
        # VirtualiZarr does not look (2.5.1), and whoever reads would undo what was never done.
        raise Unavailable(
            f"filters: one left {left:,} chunks as they were, since they did not shrink; a reference has the "
            "same filters for all, so take others, such as zstd"
        )


def opened(path: str, order: tuple[int, ...]) -> OpenArray:
    """Return the array of a directory with a reference, through a new client, which gets that first."""
    address = address_of(path)
    return referred(lambda: address.store(f"{address.name_of(path)}/"), order)


def referred(client: Callable[[], Any], order: tuple[int, ...]) -> OpenArray:
    """Return the array to which the reference leads in the directory that a new client is for."""
    settings.put(PIPELINE)

    def reached() -> ZarrArray:
        from obspec_utils.registry import ObjectStoreRegistry
        from virtualizarr.parsers import KerchunkJSONParser

        store = KerchunkJSONParser()(f"{HERE}/{REFERENCE}", ObjectStoreRegistry({HERE: client()}))
        group = zarr.open_group(store, mode="r", zarr_format=3)
        return ZarrArray(group[DATASET.decode()], order)

    return ObjectReads(said_plainly(reached)())


class Virtual(Format):
    """The side of the format seam for HDF5 files that are read by reference."""

    artifact = StoredArtifact

    def __init__(self) -> None:
        self.hdf5 = Hdf5()

    @staticmethod
    def collections(one: Virtual) -> VirtualCollections:
        """Return the format of several files that one reference makes one array."""
        return VirtualCollections(one)

    def versions(self) -> dict[str, str]:
        """Return the versions of HDF5, which writes, of Zarr, which reads, and of what is between them."""
        return self.hdf5.versions() | versions_of(("zarr", "numcodecs", "virtualizarr", "obstore"))

    def prepare(self, spec: Specification) -> None:
        """Load what filters and the client need, start Zarr, and read a small file by reference here.

        What VirtualiZarr and the codecs load at their first reference is no part of the first opening then.
        """
        self.hdf5.prepare(spec)
        Zarr().prepare({**spec, "layout": PLAIN})
        local = importlib.import_module("obstore.store").LocalStore
        dataset: Any = {"axes": ["a"], "shape": [SMALL], "dtype": spec["dataset"]["dtype"]}
        filters, whole = spec["layout"]["filters"], Box((0,), (SMALL,))
        layout: Any = {"chunks": [SMALL], "order": ["a"], "filters": filters, "settings": {}}
        small: Specification = {**spec, "dataset": dataset, "layout": layout}
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/small"
            created = self.create(path, small)
            created.write(whole, np.ones(SMALL, dataset["dtype"]))
            created.close()
            found = referred(lambda: local(path), (0,))
            found.read(whole)
            found.close()

    def create(self, path: str, spec: Specification) -> OpenArray:
        """Create the file and an empty dataset, in a directory with room for its reference."""
        return WithReference(self.hdf5.create(_made(path), spec), partial(refer, path))

    def generate(self, path: str, spec: Specification, values: Values) -> str:
        """Fill a new file by any way that yields the plain writer's, and write its reference."""
        way = self.hdf5.generate(_made(path), spec, values)
        refer(path)
        return way

    def workers_memory_bytes(self) -> int:
        """Return the largest memory of the processes that `generate` started, summed, in bytes."""
        return self.hdf5.workers_memory_bytes()

    def open(self, path: str, spec: Specification) -> OpenArray:
        """Open for reading through a new client, which has nothing yet: the reference is read first."""
        return opened(path, tuple(disk_order(spec)))

    def report(self, path: str, spec: Specification) -> dict[str, Any]:
        """Return what the file says of itself, with its reference, which counts as what is no data."""
        return with_reference(self.hdf5.report(_file(path), spec), path)

    def stored_sizes(self, path: str, spec: Specification) -> dict[str, Any]:
        """Return what `predict` needs from the file."""
        return self.hdf5.stored_sizes(_file(path), spec)

    def predict(self, box: Box, spec: Specification, stored: dict[str, Any]) -> dict[str, float]:
        """Return the chunks touched and their stored bytes; the kernel has no part in it."""
        return chunks_alone(self.hdf5.predict(box, spec, stored))


class VirtualCollections(Collections):
    """Several HDF5 files that one reference makes one array: a reader of it knows of no files."""

    def __init__(self, one: Virtual) -> None:
        super().__init__(one.hdf5)
        self.artifact = one.artifact
        self._virtual = one

    def versions(self) -> dict[str, str]:
        """Return the versions of what writes, reads and refers."""
        return self._virtual.versions()

    def prepare(self, spec: Specification) -> None:
        """Load what filters and the client need, and start Zarr."""
        super().prepare(spec)
        self._virtual.prepare(Files("", spec).specification(0))

    def create(self, path: str, spec: Specification) -> Any:
        """Create the folder; files are made as they are written, and looked through when they are closed."""
        return WithReference(super().create(path, spec), partial(self._refer, path, spec))

    def generate(self, path: str, spec: Specification, values: Values) -> str:
        """Fill all files, and write the reference that leads into them."""
        way = super().generate(path, spec, values)
        self._refer(path, spec)
        return way

    def _refer(self, path: str, spec: Specification) -> None:
        files = Files(path, spec)
        names = [Path(files.path(number)).name for number in range(len(files.parts))]
        refer(path, names, disk_order(spec).index(files.axis))

    def open(self, path: str, spec: Specification) -> Any:
        """Open for reading through a new client: the reference is read, and no file is."""
        return opened(path, tuple(disk_order(spec)))

    def report(self, path: str, spec: Specification) -> dict[str, Any]:
        """Return what the files say of themselves, with the reference, which counts as what is no data."""
        return with_reference(super().report(path, spec), path)


def with_reference(found: dict[str, Any], path: str) -> dict[str, Any]:
    """Return a report of files with the reference beside them."""
    reference = Path(path, REFERENCE).stat().st_size
    sizes = {name: found[name] + reference for name in ("file_bytes", "remainder_bytes")}
    settings_found = {**found["settings"], "client": CLIENT["through"]}
    return {**found, **sizes, "files": found.get("files", 1) + 1, "settings": settings_found}


def _file(path: str) -> str:
    return str(Path(path, FILE))


def _made(path: str) -> str:
    """Return the path of the file, in a directory that is there."""
    Path(path).mkdir()
    return _file(path)


FORMAT = Virtual()
