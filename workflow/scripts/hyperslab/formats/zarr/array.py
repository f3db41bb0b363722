"""Zarr version 3 through zarr-python: create with a layout, write, open, read, report what a store says."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.data.levels import NextLevel
from hyperslab.data.selections import Box, Pattern, inverse_of, of_stored_level
from hyperslab.data.tiles import in_array_order, tiles
from hyperslab.data.values import Values
from hyperslab.formats import Format, OpenArray
from hyperslab.formats.pyramid import PyramidArray, Stored
from hyperslab.formats.zarr import inspection, prediction, settings
from hyperslab.formats.zarr.description import OnDisk, create_array, create_group, level_path, open_array
from hyperslab.formats.zarr.generation import fill
from hyperslab.layouts.pyramids import AVERAGING, level_specification, stored_levels
from hyperslab.measuring.artifact import Artifact
from hyperslab.measuring.machine import versions_of
from hyperslab.specifications import DatasetSpecification, LayoutSpecification, Specification

# So many chunks of a small array bring all threads of zarr-python to life.
WARM_UP_CHUNKS = 64


class ZarrArray(OpenArray):
    """The array of one open store; boxes are in array terms."""

    def __init__(self, array: Any, order: tuple[int, ...], strides: bool = True) -> None:
        self._array = array
        self._strides = strides
        self._order = order
        self._inverse = inverse_of(order)
        self._natural = list(order) == sorted(order)

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Return the attributes that a user gave the array."""
        found: Mapping[str, Any] = self._array.attrs
        return found

    def reader(self, box: Box) -> Callable[[], npt.NDArray[Any]]:
        """Return a read of `box` that lacks nothing but the read: `array[index]`, as a user has it.

        zarrs reads no strides: all of the box is read, and what was not asked for is left out.
        """
        array, inverse = self._array, self._inverse
        if isinstance(box, Pattern) and not self._strides:
            whole = self.reader(Box(box.origin, box.extent))
            thin = tuple(slice(None, None, by) for by in box.step)
            return lambda: whole()[thin]
        index = box.permuted(self._order).slices()
        return (lambda: array[index]) if self._natural else lambda: array[index].transpose(inverse)

    def write(self, box: Box, block: npt.NDArray[Any]) -> None:
        """Store `block` at `box`; a file of which it covers a part is read, changed and written whole."""
        if self._natural:
            self._array[box.slices()] = block
        else:
            self._array[box.permuted(self._order).slices()] = block.transpose(self._order)

    def flush(self) -> None:
        """Do nothing: a write has handed everything to the kernel when it returns."""

    def close(self) -> None:
        """Close the store; no file of it is open between calls."""
        self._array.store.close()


def _array(array: Any, spec: Specification) -> ZarrArray:
    """Return a zarr.Array in the terms of a specification."""
    return ZarrArray(array, OnDisk.of(spec).order, spec["layout"]["settings"]["pipeline"] != "zarrs")


def _created(path: str, spec: Specification, level: int) -> ZarrArray:
    """Create the empty array of a level; 0 is the array itself."""
    return _array(create_array(level_path(path, spec, level), level_specification(spec, level)), spec)


def _for_default(spec: Specification) -> Specification:
    """Return the same for zarr-python's own pipeline, whose files are those of all."""
    chosen = {**spec["layout"]["settings"], "pipeline": "default"}
    return {**spec, "layout": {**spec["layout"], "settings": chosen}}


class Zarr(Format):
    """The Zarr side of the format seam."""

    artifact = Artifact
    stays_open = False

    def versions(self) -> dict[str, str]:
        """Return the versions of zarr-python, of zarrs and of the codecs."""
        return versions_of(("zarr", "zarrs", "numcodecs"))

    def create(self, path: str, spec: Specification) -> OpenArray:
        """Create the directory and an empty array; files appear as chunks are written."""
        settings.put(spec["layout"]["settings"])
        if stored_levels(spec["layout"]):
            create_group(path, spec)
            return PyramidArray([_created(path, spec, 0)], spec, lambda level: _created(path, spec, level))
        return _created(path, spec, 0)

    def prepare(self, spec: Specification) -> None:
        """Write and read a small array with the layout's codecs and pipeline.

        This imports the codecs and starts zarr-python's event loop and threads, or those of zarrs.
        """
        layout, dtype = level_specification(spec, 0)["layout"], spec["dataset"]["dtype"]
        small: LayoutSpecification = {**layout, "chunks": [1], "order": ["a"]}
        if "shards" in layout:
            small["shards"] = [2]
        dataset: DatasetSpecification = {"axes": ["a"], "shape": [WARM_UP_CHUNKS], "dtype": dtype}
        content = np.arange(1, WARM_UP_CHUNKS + 1).astype(dtype)
        box = Box((0,), (WARM_UP_CHUNKS,))
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/array.zarr"
            described: Specification = {**spec, "layout": small, "dataset": dataset}
            created = self.create(path, described)
            created.write(box, content)
            created.close()
            opened = self.open(path, described)
            opened.read(box)
            opened.close()

    def open(self, path: str, spec: Specification) -> OpenArray:
        """Open for reading with the library settings of `spec`."""
        settings.put(spec["layout"]["settings"])
        levels = [
            _array(open_array(level_path(path, spec, level)), spec)
            for level in range(stored_levels(spec["layout"]) + 1)
        ]
        return PyramidArray(levels, spec) if len(levels) > 1 else levels[0]

    def generate(self, path: str, spec: Specification, values: Values) -> str:
        """Fill a new store; returns "chunk by chunk", the way it was done.

        Chunks are encoded and files written here, by the codecs' own library, without zarr-python's pipeline.
        Names, bytes and order of chunks within shards are those of `write_plain` (tested for every codec),
        but for the time of writing that gzip keeps in a chunk. Files do not depend on the layout's pipeline:
        zarrs and zarr-python read the same ones. Levels of a pyramid are made in the same way, each of the
        one before it.
        """
        self._create_for_default(path, spec).close()
        fill(level_path(path, spec), level_specification(spec, 0), values)
        for level in range(1, stored_levels(spec["layout"]) + 1):
            self._generate_level(path, spec, level)
        return "chunk by chunk"

    def _generate_level(self, path: str, spec: Specification, level: int) -> None:
        finer, own = level_specification(spec, level - 1), level_specification(spec, level)
        _created(path, _for_default(spec), level).close()
        opened = _array(open_array(level_path(path, spec, level - 1)), _for_default(finer))
        try:
            averaging = spec["layout"]["pyramid"]["by"] == AVERAGING
            fill(level_path(path, spec, level), own, NextLevel(Stored(opened, finer), averaging))
        finally:
            opened.close()

    def write_plain(self, path: str, spec: Specification, values: Values) -> None:
        """Write row-major over chunks, or shards, each once, with zarr-python's own pipeline."""
        disk = OnDisk.of(spec)
        opened = self._create_for_default(path, spec)
        try:
            for tile in tiles(disk.shape, disk.unit, disk.dtype.itemsize):
                box = in_array_order(tile, disk.order)
                opened.write(box, values.block(box.origin, box.extent))
            opened.flush()
        finally:
            opened.close()

    def _create_for_default(self, path: str, spec: Specification) -> OpenArray:
        return self.create(path, _for_default(spec))

    def report(self, path: str, spec: Specification) -> dict[str, Any]:
        """Return sizes in bytes, counts of chunks and files, and the settings in force."""
        return inspection.report(path, spec)

    def stored_sizes(self, path: str, spec: Specification) -> dict[str, Any]:
        """Return what `predict` needs from the store."""
        levels = range(stored_levels(spec["layout"]) + 1)
        found = (
            inspection.stored(level_path(path, spec, level), level_specification(spec, level))
            for level in levels
        )
        return {"stored": list(found)}

    def predict(self, box: Box, spec: Specification, stored: dict[str, Any]) -> dict[str, float]:
        """Return chunks touched, their stored bytes, bytes requested and the number of reads."""
        level, own = of_stored_level(box, stored_levels(spec["layout"]))
        return prediction.predict(own, level_specification(spec, level), stored["stored"][level])


FORMAT = Zarr()
