"""The same datasets written and read by OpenVisus, which is a package of an environment of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.data.selections import Box, disk_order, inverse_of, steps_of
from hyperslab.formats import OpenArray, Unavailable
from hyperslab.formats.idx.creation import finish
from hyperslab.formats.idx.places import files_of, places_in
from hyperslab.layouts.idx_files import DESCRIPTION, TIME_TEMPLATE, UNFINISHED, IdxFiles, Place
from hyperslab.specifications import Specification

Block = npt.NDArray[Any]


def library() -> Any:
    """Return the package; raises Unavailable where it is not installed."""
    try:
        import OpenVisus
    except ImportError:
        raise Unavailable("the package OpenVisus is not installed here") from None
    return OpenVisus


def told(path: str, call: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Return what a call of OpenVisus returns; raises OSError for its exceptions, which have no type of their
    own.
    """
    try:
        return call(*given, **named)
    except Exception as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise OSError(f"{path}: OpenVisus: {said}") from None


def create(path: str, files: IdxFiles, dtype: str) -> None:
    """Make the directory and a description, as OpenVisus writes it, that is not to be found yet; files appear
    with their blocks.
    """
    visus = library()
    os.makedirs(path)
    layout = "row_major" if files.row_major else "hzorder"
    codec = f"default_compression({files.codec}) " if files.codec != "raw" else ""
    fields = [
        visus.Field.fromString(f"field{number} {dtype} {codec}default_layout({layout})")
        for number in range(files.fields)
    ]
    times = {"time": [0, files.times - 1, TIME_TEMPLATE]} if files.has_times else {}
    told(
        path, visus.CreateIdx, url=os.path.join(path, UNFINISHED), dims=list(reversed(files.shape)),
        fields=fields, bitmask=files.bitmask.text, bitsperblock=files.blocks.bits,
        blocksperfile=files.blocks_per_file, filename_template=files.template, **times,
    )  # fmt: skip


class OpenVisusArray(OpenArray):
    """The array of one open dataset, which is known by `name`; boxes are in array terms."""

    def __init__(self, path: str, spec: Specification, name: str = DESCRIPTION) -> None:
        visus = library()
        self._files, self._order = files_of(spec), disk_order(spec)
        self._inverse = inverse_of(self._order)
        self._where = os.path.join(path, name)
        self._dataset = told(self._where, visus.LoadDataset, self._where)
        self._fields = told(self._where, self._dataset.getFields)
        # What reads has its access as part of opening; what writes makes one of another kind.
        self._access: Any = told(self._where, self._dataset.createAccess) if name == DESCRIPTION else None

    def reader(self, box: Box) -> Callable[[], Block]:
        """Return `read` of `box`, at a coarser level of every so many elements, with all else done."""
        turned, leading = box.permuted(self._order), self._files.leading
        steps = steps_of(turned)
        places = [place for _, place in places_in(turned, self._files)]
        low = turned.origin[leading:]
        high = [start + width for start, width in zip(low, turned.extent[leading:], strict=True)]
        asked = ([*reversed(low)], [*reversed(high)])
        level = self._files.bitmask.level_of_steps(steps[leading:])
        fine = self._files.bitmask.steps(level)
        thin = tuple(slice(None, None, by // one) for by, one in zip(steps[leading:], fine, strict=True))
        shape = [len(range(0, width, by)) for width, by in zip(turned.extent, steps, strict=True)]

        def one(place: Place) -> Block:
            found: Block = told(
                self._where, self._dataset.read, logic_box=asked, time=place.time,
                field=self._fields[place.field], max_resolution=level, access=self._access,
            )  # fmt: skip
            return found.reshape([-(-(h - o) // by) for o, h, by in zip(low, high, fine, strict=True)])[thin]

        def read() -> Block:
            parts = [one(place) for place in places]
            whole = parts[0] if len(parts) == 1 else np.stack(parts)
            return whole.reshape(shape).transpose(self._inverse)

        return read

    def write(self, box: Box, block: Block) -> None:
        """Store `block` at `box`, without locks, which other processes would need."""
        turned, leading = box.permuted(self._order), self._files.leading
        values = block.transpose(self._order)
        if self._access is None:
            self._access = self._dataset.createAccessForBlockQuery()
            self._access.disableWriteLocks()
        low = [*reversed(turned.origin[leading:])]
        for number, place in places_in(turned, self._files):
            part = np.ascontiguousarray(values[number])
            high = [start + width for start, width in zip(low, reversed(part.shape), strict=True)]
            told(
                self._where, self._dataset.write, part, logic_box=(low, high), time=place.time,
                field=self._fields[place.field], access=self._access,
            )  # fmt: skip

    def flush(self) -> None:
        """Do nothing: a write has handed everything to the kernel when it returns."""

    def close(self) -> None:
        """Let the dataset go; no file of it is open between calls."""
        self._access = self._dataset = None


class NewArray(OpenVisusArray):
    """The array of a new dataset; closing it gives the dataset its name."""

    def __init__(self, path: str, spec: Specification) -> None:
        super().__init__(path, spec, UNFINISHED)
        self._path = path

    def close(self) -> None:
        """Let the dataset go, which is finished."""
        super().close()
        finish(self._path)
