"""Layouts of collections: one array in several files, cut along one axis; any format that keeps an array.

A layout's `files` says how: {axis: position, along: its name, each: indices of a file, "month" or "year"},
and `first`, the date of index 0, where the collection has one. Every file is an array of its own, whose
chunks are no longer than it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Any

from hyperslab.layouts.chunks import Shape
from hyperslab.layouts.layout import Abilities, Array, Layout

FILES = "files"
# Words of a calendar -> how a file's name is made of its first day.
CALENDAR = {"month": "%Y-%m", "year": "%Y"}
# To find, open and close a file, seen on one machine, as an estimate.
OPEN_SECONDS = 1e-3
# Longer than any axis.
BEYOND = 2**62


@dataclass(frozen=True)
class Part:
    """One file: its name without ending, its first index along the axis, and how many it has."""

    name: str
    first: int
    count: int


@dataclass(frozen=True)
class Piece:
    """What one file holds of an array that may be smaller than the study's."""

    axes: list[str]
    shape: list[int]
    dtype: Any
    itemsize: int
    nbytes: int


def parts_of(files: Mapping[str, Any], length: int) -> list[Part]:
    """Return the files of a collection whose axis has `length` indices, in order."""
    return list(_parts(files["each"], files.get("first"), length))


# Asked for again whenever a collection is opened, for which somebody holds a stopwatch.
@lru_cache(64)
def _parts(each: int | str, first: str | None, length: int) -> tuple[Part, ...]:
    start = date.fromisoformat(first) if first else None
    bounds = list(range(0, length, each)) if isinstance(each, int) else _calendar(each, start, length)
    return tuple(
        Part(_name(each, start, begin, length), begin, end - begin)
        for begin, end in pairwise([*bounds, length])
    )


def _calendar(each: str, start: date | None, length: int) -> list[int]:
    """Return the indices of days with which a month or year begins; the first need not begin one."""
    assert start is not None
    names = [(start + timedelta(days=index)).strftime(CALENDAR[each]) for index in range(length)]
    return [index for index, name in enumerate(names) if index == 0 or name != names[index - 1]]


def _name(each: int | str, start: date | None, begin: int, length: int) -> str:
    if start is None:
        return f"{begin:0{len(str(length - 1))}}"
    return (start + timedelta(days=begin)).strftime(CALENDAR.get(str(each), "%Y-%m-%d"))


def touched_parts(parts: Sequence[Part], start: int, width: int) -> Iterator[tuple[int, int, int]]:
    """Yield (number of a file, first index within it, how many) of those that hold these indices."""
    for number, part in enumerate(parts):
        begin, end = max(start, part.first), min(start + width, part.first + part.count)
        if begin < end:
            yield number, begin - part.first, end - begin


class CollectionLayout(Layout):
    """A resolved layout with `files`; `one` is that of a single file, whatever its format."""

    # The name of the folder in which the files lie.
    suffix = ".collection"
    abilities = Abilities()

    def __init__(self, described: Mapping[str, Any], one: Layout) -> None:
        super().__init__(described)
        self.one = one
        own = one.abilities
        self.abilities = Abilities(forgets=own.forgets, pages=own.pages, opened_as_one=own.opened_as_one)
        self.files = described[FILES]
        self.title = f"{one.title} in several files"
        self.settings, self.libraries, self.released = one.settings, one.libraries, one.released

    def parts(self, shape: Shape) -> list[Part]:
        """Return the files that hold an array of this shape."""
        return parts_of(self.files, shape[self.axis])

    def borders(self, shape: Shape) -> tuple[int, list[int]]:
        """Return the axis that is cut, and the first index of each file but the first."""
        return self.axis, [part.first for part in self.parts(shape)[1:]]

    def shape_of(self, part: Part, shape: Shape) -> list[int]:
        """Return the extents of the array in one file."""
        return [part.count if axis == self.axis else extent for axis, extent in enumerate(shape)]

    @property
    def axis(self) -> int:
        """The position of the axis along which the array is cut."""
        return int(self.files["axis"])

    def _sizes(self, shape: Shape) -> list[tuple[Layout, list[int], int]]:
        """Return (layout, shape, how many) of the files, those of one length together."""
        lengths = Counter(part.count for part in self.parts(shape))
        found = []
        for count, number in lengths.items():
            inside = [count if axis == self.axis else extent for axis, extent in enumerate(shape)]
            found.append((self.of_file(inside), inside, number))
        return found

    def of_file(self, shape: Shape) -> Layout:
        """Return the layout of one file, whose array has this shape."""
        # Only along the axis that is cut; what does not fit along another is a mistake of whoever asks.
        bounds = [extent if axis == self.axis else max(extent, BEYOND) for axis, extent in enumerate(shape)]
        return type(self.one)(self.one.within(bounds))

    def largest_bytes(self, array: Array, arrays: int = 0) -> int:
        """Return the sum of the files' upper bounds."""
        return sum(
            number * layout.largest_bytes(_piece(array, inside), arrays)
            for layout, inside, number in self._sizes(array.shape)
        )

    def largest_files(self, array: Array) -> int:
        """Return the number of all files and folders, the collection's own among them."""
        return 1 + sum(
            number * layout.largest_files(_piece(array, inside))
            for layout, inside, number in self._sizes(array.shape)
        )

    def refusal(self, shape: Shape, itemsize: int) -> str | None:
        """Return why one of the files cannot hold its part, or None."""
        reasons = [layout.refusal(inside, itemsize) for layout, inside, _ in self._sizes(shape)]
        counts = [part.count for part in self.parts(shape)]
        reasons.append(self.one.parts_refusal(counts, self.axis, shape))
        return next(filter(None, reasons), None)

    def fits(self, shape: Shape) -> bool:
        """Return whether a smaller array than the study's can be stored so.

        Along the axis that is cut a file may be shorter than its chunks, as a February of monthly ones is.
        """
        return self.one.fits([BEYOND if axis == self.axis else extent for axis, extent in enumerate(shape)])

    def touched(self, origin: Shape, extent: Shape) -> int:
        """Return the number of chunks that a box touches in all files."""
        whole = [start + width for start, width in zip(origin, extent, strict=True)]
        parts, found = self.parts(whole), 0
        for number, first, count in touched_parts(parts, origin[self.axis], extent[self.axis]):
            inside = self.shape_of(parts[number], whole)
            begin, width = list(origin), list(extent)
            begin[self.axis], width[self.axis] = first, count
            found += self.of_file(inside).touched(begin, width)
        return found

    def files_touched(self, origin: Shape, extent: Shape) -> int:
        """Return the number of files that a box touches."""
        parts = self.parts([start + width for start, width in zip(origin, extent, strict=True)])
        return sum(1 for _ in touched_parts(parts, origin[self.axis], extent[self.axis]))

    def stored_bytes(self, shape: Shape, itemsize: int) -> int:
        """Return the bytes of all files' arrays without filters, padding included."""
        return sum(n * layout.stored_bytes(inside, itemsize) for layout, inside, n in self._sizes(shape))

    def estimated_reading(
        self, extent: Shape, shape: Shape, itemsize: int, level: int = 0
    ) -> tuple[int, int]:
        """Return about how many pieces a selection of `extent` reads, opening included, and their bytes."""
        layout, inside, _ = max(self._sizes(shape), key=lambda one: one[1][self.axis])
        longest = inside[self.axis]
        width = list(extent)
        width[self.axis] = min(longest, extent[self.axis])
        number = -(-extent[self.axis] // longest)
        pieces, size = layout.estimated_reading(width, inside, itemsize, level)
        opening = round(OPEN_SECONDS / self.piece_seconds())
        return number * (pieces + opening), min(self.stored_bytes(shape, itemsize), number * size)

    def piece_seconds(self) -> float:
        """Return about how long the library takes for one piece, as in one file."""
        return self.one.piece_seconds()

    def encoding_seconds(self, size: int) -> float:
        """Return about how long filters take to encode so many bytes, as in one file."""
        return self.one.encoding_seconds(size)

    def rewritten_bytes(self, shape: Shape, extent: Shape, itemsize: int, origin: Shape | None = None) -> int:
        """Return the bytes that are moved once more in all files: a box that crosses files is cut there."""
        found, begin = 0, list(origin or [0] * len(shape))
        # How far into a box a file begins, and how long it is, is all that tells files apart.
        width, first = extent[self.axis], begin[self.axis]
        kinds = Counter(((first + part.first) % width, part.count) for part in self.parts(shape))
        for (into, count), number in kinds.items():
            inside, begin[self.axis] = list(shape), into
            inside[self.axis] = count
            found += number * self.of_file(inside).rewritten_bytes(inside, extent, itemsize, begin)
        return found

    def lossy(self) -> bool:
        """Return whether values may differ from those that were written."""
        return self.one.lossy()

    def promised_error(self) -> float | None:
        """Return the largest absolute error that a lossy layout promises; None without a promise."""
        return self.one.promised_error()

    def filters_text(self) -> str:
        """Return the filters as one short text."""
        return self.one.filters_text()

    def words(self, axes: Sequence[str], itemsize: int) -> str:
        """Return what one file says of itself, and what lies in each."""
        return f"{self.one.words(axes, itemsize)}, a file for {self._each()}"

    def _each(self) -> str:
        """Return what lies in one file, in words: each month, each day, every 10 of day."""
        each, along = self.files["each"], self.files["along"]
        if isinstance(each, int) and each > 1:
            return f"every {each} of {along}"
        return f"each {along if each == 1 else each}"

    def copied(self) -> Mapping[str, Any] | None:
        """Return the layout by which a copy of all files is read; None where that of one is not it."""
        copied = self.one.copied()
        return None if copied is None else {**copied, FILES: self.files}

    def environment(self) -> str | None:
        """Return what says that the environment of one file's library is complete."""
        return self.one.environment()

    def unfit(self, copies: bool = False) -> str | None:
        """Return why this layout is not recommended, or None."""
        return self.one.unfit(copies)


def _piece(array: Array, shape: list[int]) -> Piece:
    whole, part = 1, 1
    for extent, inside in zip(array.shape, shape, strict=True):
        whole, part = whole * extent, part * inside
    return Piece(array.axes, shape, array.dtype, array.itemsize, array.nbytes // whole * part)
