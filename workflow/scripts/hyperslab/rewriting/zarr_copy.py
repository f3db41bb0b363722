"""A dataset of an HDF5 file, with its attributes, as a Zarr array in a directory; compared bit for bit."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from hyperslab.data.selections import Box
from hyperslab.formats.zarr import settings
from hyperslab.formats.zarr.array import ZarrArray
from hyperslab.formats.zarr.description import create_array, open_array
from hyperslab.layouts.zarr import ZarrLayout
from hyperslab.layouts.zarr_schema import ZarrModel, resolve
from hyperslab.layouts.zarr_store import file_extents
from hyperslab.measuring.syncing import fsync
from hyperslab.rewriting import RewriteError, taking_in
from hyperslab.rewriting.opening import access_for_reading, dataset_at
from hyperslab.rewriting.pieces import Pieces, plan
from hyperslab.rewriting.progress import Progress
from hyperslab.rewriting.storage import chunk_of
from hyperslab.rewriting.survey import attributes_of_scales
from hyperslab.rewriting.target import check_filters, opened
from hyperslab.specifications import Specification
from hyperslab.text import megabytes
from hyperslab.validation.errors import ConfigurationError, Place

# What else says which dimension scales there are; they refer to others, which a Zarr array cannot hold.
OF_DIMENSIONS = frozenset(("DIMENSION_LABELS", "_Netcdf4Coordinates", "_Netcdf4Dimid"))
# Numbers that JSON lacks, as Zarr spells them in a fill value.
NOT_IN_JSON = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
# zarr-python holds a box, its chunks and what its codecs make of them.
COPIES = 4


@dataclass(frozen=True)
class OfDataset:
    """A dataset as a layout needs to know it."""

    axes: list[str]
    shape: list[int]
    dtype: np.dtype[Any]

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return math.prod(self.shape) * self.itemsize


def refused_layouts(file: Path, path: str, layouts: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return by name why a dataset cannot become the Zarr array of a layout; nothing of those that it can.

    Raises RewriteError where there is no such dataset, OSError for another file.
    """
    found = {}
    with _opened(file) as opened_file:
        dataset = _dataset(opened_file, path, 0)
        for layout, asked in layouts.items():
            try:
                _described(dataset, path, asked)
                _attributes(opened_file, path)
            except RewriteError as error:
                found[layout] = str(error)
    return found


def copy(
    original: Path, new: Path, name: str, asked: Mapping[str, Any], budget: int, progress: Progress
) -> None:
    """Write the dataset `name` of the HDF5 file `original` to the directory `new`, and compare the two.

    `asked` is a Zarr layout as a study says it, with the `axes` of the study's dataset. `budget` bounds the
    memory for values, in bytes, unless one file of the array needs more. Raises RewriteError for what
    cannot be kept and for any difference, OSError for what the file system refuses.
    """
    before = os.stat(original)
    with _opened(original) as file:
        dataset = _dataset(file, name, budget)
        spec, fill = _described(dataset, name, asked)
        attributes, left_out = _attributes(file, name)
        if left_out:
            progress.say(f"{name}: a Zarr array has no dimension scales; left out: {', '.join(left_out)}")
        layout = spec["layout"]
        said = ZarrLayout(layout).words(spec["dataset"]["axes"], fill.dtype.itemsize)
        pieces = plan(
            dataset.shape, file_extents(layout), chunk_of(dataset), fill.dtype.itemsize, budget // COPIES
        )
        settings.put(layout["settings"])
        array = create_array(str(new), spec, fill, attributes)
        written = ZarrArray(array, tuple(range(len(dataset.shape))))
        for box, block in _blocks(dataset, pieces, progress, f"writing {name} with {said}"):
            written.write(box, block)
        written.close()
        _synchronise(new)
    found = next(differences(original, new, name, budget, progress), None)
    after = os.stat(original)
    if (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size):
        raise RewriteError("was changed while it was read; run this again when nothing writes it")
    if found:
        raise RewriteError(f"the new array is not the same: {found}")
    size = sum(file.stat().st_size for file in new.rglob("*") if file.is_file())
    progress.say(f"compared and equal; the array takes {megabytes(size)}")


def differences(original: Path, new: Path, name: str, budget: int, progress: Progress) -> Iterator[str]:
    """Yield how a Zarr array in the directory `new` differs from a dataset.

    Compared are type, extents, attributes and values, of which the first box that differs is named; `budget`
    is as for `copy`.
    """
    array = open_array(str(new))
    with _opened(original) as file:
        dataset = _dataset(file, name, budget)
        stored = h5py.Dataset(dataset)
        shape, dtype = array.shape, np.dtype(array.dtype)
        if (shape, dtype) != (stored.shape, stored.dtype.newbyteorder("=")):
            yield f"{dtype} {shape} is not {stored.dtype} {stored.shape}"
            return
        if dict(array.attrs) != _attributes(file, name)[0]:
            yield "the attributes are others"
        held = array.shards or array.chunks
        pieces = plan(shape, held, chunk_of(dataset), dtype.itemsize, budget // COPIES)
        for box, block in _blocks(dataset, pieces, progress, f"comparing {name}"):
            if array[box.slices()].tobytes() != block.tobytes():
                yield f"values differ at {box.origin}, extent {box.extent}"
                return


def _opened(original: Path) -> h5py.File:
    return h5py.File(h5py.h5f.open(os.fsencode(original), h5py.h5f.ACC_RDONLY, fapl=access_for_reading()))


def _dataset(file: h5py.File, name: str, budget: int) -> h5py.h5d.DatasetID:
    # Of files that are not there HDF5 reads fill values.
    taking_in.check_there(dataset_at(file.id, name), os.fsencode(name), Path(file.filename))
    return opened(file.id, name.encode(), budget)


def _described(
    dataset: h5py.h5d.DatasetID, name: str, asked: Mapping[str, Any]
) -> tuple[Specification, np.generic]:
    """Return specification and fill value of the array that a dataset becomes; raises RewriteError."""
    stored = h5py.Dataset(dataset)
    if stored.shape is None or not stored.shape or 0 in stored.shape:
        raise RewriteError(f"{name}: has no axis, or no elements; there is nothing to lay out")
    dtype = stored.dtype.newbyteorder("=")
    if dtype.kind not in "iuf" or dtype.itemsize not in (1, 2, 4, 8) or h5py.check_enum_dtype(stored.dtype):
        raise RewriteError(f"{name}: has elements of type {stored.dtype}; only numbers become a Zarr array")
    try:
        check_filters(dataset)
    except RewriteError as error:
        raise RewriteError(f"{name}: {error}") from None
    shape = list(stored.shape)
    axes = list(asked.get("axes") or [f"axis{number}" for number in range(len(shape))])
    if len(axes) != len(shape):
        raise RewriteError(f"{name}: has {len(shape)} axes {tuple(shape)}, the study's dataset has {axes}")
    given = {key: value for key, value in asked.items() if key in ZarrModel.model_fields}
    layout = ZarrModel.model_validate(given)
    if layout.order and list(layout.order) != axes:
        raise RewriteError(f"{name}: a rewritten dataset keeps its axes in their order, {', '.join(axes)}")
    # Whichever pipeline will read it, the array is written and compared by zarr-python's own.
    layout = layout.model_copy(update={"settings": {**layout.settings, "pipeline": "default"}})
    try:
        resolved = resolve(layout, OfDataset(axes, shape, dtype), {}, Place(Path(name)))
    except ConfigurationError as error:
        raise RewriteError(str(error)) from None
    layout_: Any = resolved
    spec: Specification = {"layout": layout_, "dataset": {"axes": axes, "shape": shape, "dtype": dtype.name}}
    return spec, stored.fillvalue.astype(dtype)


def _blocks(
    dataset: h5py.h5d.DatasetID, pieces: Pieces, progress: Progress, doing: str
) -> Iterator[tuple[Box, npt.NDArray[Any]]]:
    """Yield every box of the dataset with its values in this machine's byte order, the file's bits kept."""
    stored = h5py.Dataset(dataset)
    dtype = stored.dtype.newbyteorder("=")
    progress.start(doing, math.prod(stored.shape) * dtype.itemsize)
    for box in pieces.boxes(stored.shape):
        block = stored[box.slices()].astype(dtype, copy=False)
        yield box, block
        progress.advance(block.nbytes)
    progress.done()


def _attributes(file: h5py.File, name: str) -> tuple[dict[str, Any], list[str]]:
    """Return the attributes as JSON has them, and the names of those of dimension scales,
    which are left out.
    """
    kept, left_out = {}, []
    attributes, of_scales = file[name].attrs, attributes_of_scales(file[name]) | OF_DIMENSIONS
    for key in attributes:
        if key in of_scales:
            left_out.append(key)
            continue
        try:
            kept[key] = _as_json(attributes[key])
        except (TypeError, ValueError, OSError) as error:
            message = f"{name}, attribute {key}: cannot be kept in JSON: {' '.join(str(error).split())}"
            raise RewriteError(message) from None
    return kept, left_out


def _as_json(value: Any) -> Any:
    """Return a value of an attribute as JSON; TypeError or ValueError for what JSON cannot hold."""
    if isinstance(value, h5py.Empty):
        return None
    if isinstance(value, np.ndarray):
        return [_as_json(part) for part in value]
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, np.bool_ | bool):
        return bool(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, np.integer | int):
        return int(value)
    if isinstance(value, np.floating | float):
        number = float(value)
        if not math.isfinite(number):
            return NOT_IN_JSON[str(number)]
        if type(value)(number) != value:
            raise ValueError("a number with more digits than JSON's")
        return number
    raise TypeError(f"a value of type {type(value).__name__}")


def _synchronise(directory: Path) -> None:
    """Make every file and folder of a directory last."""
    for folder, _, files in os.walk(directory):
        for path in (*(os.path.join(folder, file) for file in files), folder):
            fsync(Path(path))
