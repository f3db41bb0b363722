"""IDX through numpy: create with a layout, write, open, read, report what a dataset says of itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.data.selections import Box, disk_order, inverse_of, steps_of
from hyperslab.data.values import Values
from hyperslab.formats import Format, OpenArray
from hyperslab.formats.idx import codecs, inspection, openvisus, prediction
from hyperslab.formats.idx.creation import create_files, describe
from hyperslab.formats.idx.parallel.sub_volumes import SubVolumes
from hyperslab.formats.idx.places import files_of, places_in, tiles_of
from hyperslab.formats.idx.reading import Kept, Reader
from hyperslab.formats.idx.writing import Writer
from hyperslab.layouts.idx_files import Place
from hyperslab.measuring.artifact import Artifact
from hyperslab.measuring.machine import versions_of
from hyperslab.specifications import Specification

Block = npt.NDArray[Any]


class IdxArray(OpenArray):
    """The array of one open dataset, new or read; boxes are in array terms."""

    def __init__(self, path: str, spec: Specification, writing: bool) -> None:
        self._path, self._files, self._order = path, files_of(spec), disk_order(spec)
        self._inverse = inverse_of(self._order)
        self._dtype = np.dtype(spec["dataset"]["dtype"])
        self._stored: Writer | Reader
        self._stored = Writer(path, self._files, self._dtype.newbyteorder("<")) if writing else Reader(path)
        if isinstance(self._stored, Reader):
            self._check(path, self._stored)

    def _check(self, path: str, reader: Reader) -> None:
        """Raise OSError where another array lies there than the specification has."""
        said = reader.described
        found = (said.shape, len(said.fields), len(said.times), said.fields[0].dtype)
        wanted = (self._files.shape, self._files.fields, self._files.times, self._dtype.name)
        if found != wanted:
            raise OSError(f"{path}: holds (shape, fields, time steps, type) {found} instead of {wanted}")

    def reader(self, box: Box, kept: dict[Place, Kept] | None = None) -> Callable[[], Block]:
        """Return `read` of `box`, at a coarser level of every so many elements, with all else done.

        What is `kept` of coarser levels of the box is not read again, and what is read is kept there.
        """
        reader, turned, leading = self._stored, box.permuted(self._order), self._files.leading
        assert isinstance(reader, Reader)
        places, steps = [place for _, place in places_in(turned, self._files)], steps_of(turned)
        origin, extent = turned.origin[leading:], turned.extent[leading:]

        def one(place: Place) -> Block:
            asked = (place.time, place.field, origin, extent, steps[leading:])
            if kept is None:
                return reader.read(*asked)
            kept[place] = reader.refined(kept.get(place), *asked)
            return kept[place].every(steps[leading:])

        def read() -> Block:
            parts = [one(place) for place in places]
            if not leading:
                return parts[0].transpose(self._inverse)
            shape = [len(range(0, width, by)) for width, by in zip(turned.extent, steps, strict=True)]
            return np.stack(parts).reshape(shape).transpose(self._inverse)

        return read

    def write(self, box: Box, block: Block) -> None:
        """Store `block` at `box`; what it has of blocks that are not whole yet waits in memory."""
        writer, turned = self._stored, box.permuted(self._order)
        assert isinstance(writer, Writer)
        values = block.transpose(self._order)
        for number, place in places_in(turned, self._files):
            writer.write(place, turned.origin[self._files.leading :], values[number])

    def flush(self) -> None:
        """Hand all blocks and headers to the kernel."""
        if isinstance(self._stored, Writer):
            self._stored.flush()

    def close(self) -> None:
        """Close all files; a new dataset, which is finished then, gets its description."""
        self._stored.close()
        if isinstance(self._stored, Writer):
            describe(self._path, self._files, self._dtype)


class View:
    """Levels of one box of an open array, each finer than the one before: what was read is kept."""

    def __init__(self, opened: IdxArray) -> None:
        self._opened, self._kept = opened, dict[Place, Kept]()

    def reader(self, box: Box) -> Callable[[], Block]:
        """Return a function that reads a level of the box."""
        return self._opened.reader(box, self._kept)


class Refinement:
    """The IDX side of the seam of refinement."""

    def begin(self, opened: OpenArray) -> View:
        """Return what reads levels of one box."""
        assert isinstance(opened, IdxArray)
        return View(opened)

    def predict(
        self, boxes: Sequence[Box], spec: Specification, stored: dict[str, Any]
    ) -> list[dict[str, float]]:
        """Return the counts of each level on a newly opened dataset."""
        return _predicted(boxes, spec, stored)


def _predicted(boxes: Sequence[Box], spec: Specification, stored: dict[str, Any]) -> list[dict[str, float]]:
    turned = [box.permuted(disk_order(spec)) for box in boxes]
    return prediction.predict(turned, files_of(spec), stored["stored"])


class Idx(Format):
    """The IDX side of the format seam."""

    artifact = Artifact
    sub_volumes = SubVolumes()
    refinement = Refinement()

    def versions(self) -> dict[str, str]:
        """Return the versions of OpenVisus, where it is the one that writes or reads, and of the codecs."""
        return versions_of(("OpenVisusNoGui", "numcodecs"))

    def create(self, path: str, spec: Specification) -> OpenArray:
        """Create the directory and all binary files; OpenVisus makes those later."""
        if (files := files_of(spec)).by_openvisus:
            openvisus.create(path, files, spec["dataset"]["dtype"])
            return openvisus.NewArray(path, spec)
        create_files(path, files)
        return IdxArray(path, spec, writing=True)

    def prepare(self, spec: Specification) -> None:
        """Load OpenVisus, or what the codec needs, and make the tables of HZ order; raises Unavailable."""
        if (files := files_of(spec)).by_openvisus:
            openvisus.library()
            return
        codecs.prepare(spec["layout"]["codec"])
        if not files.row_major:
            # Else whoever reads first in this process would make them within a stopwatch.
            for level in files.levels():
                files.blocks.inverse(level)

    def open(self, path: str, spec: Specification) -> OpenArray:
        """Open for reading; raises OSError for a damaged description."""
        if files_of(spec).by_openvisus:
            return openvisus.OpenVisusArray(path, spec)
        return IdxArray(path, spec, writing=False)

    def generate(self, path: str, spec: Specification, values: Values) -> str:
        """Fill a new dataset by the plain writer, part by part in HZ order; returns how it was done."""
        files, order = files_of(spec), disk_order(spec)
        back = inverse_of(order)
        # One that fails stays unfinished.
        opened = self.create(path, spec)
        for place in files.places():
            leading = ([place.time] if files.has_times else []) + ([place.field] if files.has_fields else [])
            for origin, extent in tiles_of(files):
                part = Box((*leading, *origin), (*(1 for _ in leading), *extent)).permuted(back)
                opened.write(part, values.block(part.origin, part.extent))
        opened.close()
        return "plain"

    def report(self, path: str, spec: Specification) -> dict[str, Any]:
        """Return sizes in bytes, counts of blocks and files, and what the description says."""
        return inspection.report(path, files_of(spec))

    def stored_sizes(self, path: str, spec: Specification) -> dict[str, Any]:
        """Return what `predict` needs from the files: where every block lies."""
        return {"stored": inspection.stored(path, files_of(spec))}

    def predict(self, box: Box, spec: Specification, stored: dict[str, Any]) -> dict[str, float]:
        """Return levels, files and blocks touched, their stored bytes, bytes requested and read calls."""
        return _predicted([box], spec, stored)[0]


FORMAT = Idx()
