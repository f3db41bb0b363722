"""The files of a collection: their paths, what each holds, and several processes that write a file each."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab.data.selections import Box
from hyperslab.data.values import Within
from hyperslab.layouts import layout_of
from hyperslab.layouts.collection import CollectionLayout, touched_parts
from hyperslab.measuring.machine import largest_memory_bytes
from hyperslab.measuring.parent import follow_parent
from hyperslab.specifications import LayoutSpecification, Specification

if TYPE_CHECKING:
    import numpy.typing as npt

    from hyperslab.data.values import Values
    from hyperslab.formats import Format


class Files:
    """The files of a collection by number: names, specifications, and which of them hold a box."""

    def __init__(self, path: str, spec: Specification) -> None:
        layout = layout_of(spec["layout"])
        assert isinstance(layout, CollectionLayout)
        self._path, self._spec, self._layout = path, spec, layout
        self.axis = layout.axis
        self.shape = tuple(spec["dataset"]["shape"])
        self.parts = layout.parts(self.shape)

    def path(self, number: int) -> str:
        """Return where a file lies."""
        return os.path.join(self._path, f"{self.parts[number].name}{self._layout.one.suffix}")

    def specification(self, number: int) -> Specification:
        """Return what describes a file by itself: its part of the array, in the layout of one file."""
        shape = self._layout.shape_of(self.parts[number], self._spec["dataset"]["shape"])
        described: Any = dict(self._layout.of_file(shape).described)
        layout: LayoutSpecification = described
        return {**self._spec, "dataset": {**self._spec["dataset"], "shape": shape}, "layout": layout}

    def values(self, number: int, values: Values) -> Values:
        """Return what a file holds."""
        part = self.parts[number]
        origin, extent = [0] * len(values.shape), list(values.shape)
        origin[self.axis], extent[self.axis] = part.first, part.count
        return Within(values, origin, extent)

    def boxes(self) -> list[Box]:
        """Return which part of the array each file holds."""
        shape = self._spec["dataset"]["shape"]
        found = []
        for part in self.parts:
            origin = [0] * len(shape)
            origin[self.axis] = part.first
            found.append(Box(tuple(origin), tuple(self._layout.shape_of(part, shape))))
        return found

    def touched_by(self, box: Box) -> int:
        """Return the number of files that a box touches."""
        return self._layout.files_touched(box.origin, box.extent)

    def touched(self, box: Box) -> Iterator[tuple[int, Box, tuple[slice, ...]]]:
        """Yield (number of a file, box within it, where that lies in the box) of all that a box touches."""
        axis, done = self.axis, 0
        for number, first, count in touched_parts(self.parts, box.origin[axis], box.extent[axis]):
            origin, extent = list(box.origin), list(box.extent)
            origin[axis], extent[axis] = first, count
            where = [slice(None)] * len(extent)
            where[axis] = slice(done, done + count)
            done += count
            yield number, Box(tuple(origin), tuple(extent)), tuple(where)


class ValuesOfFiles:
    """The values of an array of which each file has its part, as that file has it."""

    def __init__(self, files: Files, parts: Sequence[Values]) -> None:
        self.shape, self.dtype = files.shape, parts[0].dtype
        self._files, self._parts = files, parts

    def block(self, origin: Sequence[int], extent: Sequence[int]) -> npt.NDArray[Any]:
        """Return the values of the box; same shape as `extent`."""
        found = np.empty(extent, self.dtype)
        for number, inside, where in self._files.touched(Box(tuple(origin), tuple(extent))):
            found[where] = self._parts[number].block(inside.origin, inside.extent)
        return found


def written(files: Files, one: Format, values: Values, writers: int) -> tuple[Counter[str], int]:
    """Write all files, so many at once; returns how each was written, and the writers' summed memory, bytes.

    Raises ChildProcessError where a writer ended before its work was done.
    """
    given = (os.getpid(), files, one, values)
    pool = ProcessPoolExecutor(writers, get_context("spawn"), _begin, given)
    ways: Counter[str] = Counter()
    memory: dict[int, int] = {}
    try:
        for way, worker, most in pool.map(_generated, range(len(files.parts))):
            ways[way] += 1
            memory[worker] = most
    except BrokenProcessPool:
        raise ChildProcessError("a process that wrote files ended before its work was done") from None
    finally:
        pool.shutdown(cancel_futures=True)
    return ways, sum(memory.values())


# What a writing process was given when it began: the files, the format of one, and the values.
_given: tuple[Files, Format, Values]


def _begin(parent: int, files: Files, one: Format, values: Values) -> None:
    global _given
    follow_parent(parent)
    _given = (files, one, values)


def _generated(number: int) -> tuple[str, int, int]:
    """Write one file; returns the way in which it was written, this process, and its largest memory."""
    files, one, values = _given
    spec = files.specification(number)
    one.prepare(spec)
    way = one.generate(files.path(number), spec, files.values(number, values))
    return way, os.getpid(), largest_memory_bytes()
