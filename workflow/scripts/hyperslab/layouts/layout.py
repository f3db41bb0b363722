"""What every layout answers for its format, without the format's library."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from hyperslab import text
from hyperslab.layouts import chunks as arithmetic
from hyperslab.layouts import pyramids

Shape = Sequence[int]
# Beside what is read, a request of a contiguous array may bring in this much (the sieve buffer, a page).
BESIDE_BYTES = 2**16
# Before one was measured: these decide no result, only how jobs are cut.
PIECE_SECONDS = 50e-6


class Array(Protocol):
    """The array that is stored: names of its axes, extents, type, bytes of an element and of all."""

    @property
    def axes(self) -> list[str]: ...
    @property
    def shape(self) -> list[int]: ...
    @property
    def dtype(self) -> Any: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def nbytes(self) -> int: ...


@dataclass(frozen=True)
class Abilities:
    """What files of a format can do; a case that needs more is refused before anything runs."""

    # The array can be written through it, so that its writes can be timed.
    writes: bool = True
    # Boxes that are smaller than what is stored as one piece can be written.
    partial_writes: bool = True
    # Elements can be read into another type than that of the file.
    memory_types: bool = False
    # Every so many elements along an axis can be asked for in one selection.
    strides: bool = False
    # Many arrays can lie in one file.
    many_arrays: bool = False
    # MPI ranks can open one file together.
    ranks: bool = False
    # A coarser level of the array can be read by itself.
    coarse_levels: bool = False
    # Of a box that is read level by level on an open file nothing is read twice.
    refines: bool = False
    # Nothing that was read of chunks and indexes is kept for the next selection on an open file.
    forgets: bool = False
    # Its data lie in files of the site, whose pages are evicted and filled; else they are objects in a store.
    pages: bool = True
    # A user's own file can be rewritten to a layout of this format.
    rewriting: bool = False
    # An array can lie in several files, cut along one axis.
    collections: bool = False
    # All files of a collection are opened as one, at once.
    opened_as_one: bool = False


@dataclass(frozen=True)
class Setting:
    """A setting that files are read back to have, as reports name it; `size`: it counts bytes."""

    label: str
    size: bool = False


class Layout(ABC):
    """A resolved layout: a plain dictionary, part of specifications, and what follows from it.

    Shapes and boxes are in array terms, in elements.
    """

    # Words for the format in reports and errors, and how the name of its data ends.
    title: str
    suffix: ClassVar[str]
    # What it stores (data.models).
    data_model: ClassVar[str] = "array"
    abilities: Abilities
    # What the file reports of itself of which the tables keep a note, by name, and what reports call
    # the libraries whose versions a record has; those without a label stand under their own names.
    settings: Mapping[str, Setting] = {}
    libraries: Mapping[str, str] = {}
    # The library of which a layout may name another release.
    released: str | None = None

    def __init__(self, described: Mapping[str, Any]) -> None:
        self.described = described
        if self.coarser_levels:
            # Whoever writes a file of many arrays, or a user's own, writes no levels.
            self.abilities = replace(self.abilities, coarse_levels=True, many_arrays=False, rewriting=False)

    @property
    def chunks(self) -> list[int] | None:
        """Extents of what is stored and read as one piece, in array terms; None for a contiguous array."""
        return self.described.get("chunks")

    @property
    def order(self) -> list[str]:
        """Names of the axes as they lie on disk, slowest first."""
        found: list[str] = self.described["order"]
        return found

    @property
    def coarser_levels(self) -> int:
        """How many coarser levels are stored beside the array, as a pyramid."""
        return pyramids.stored_levels(self.described)

    @property
    def averaged_levels(self) -> int:
        """How many of the coarser levels hold means; at others a level is every so many elements."""
        averaged = self.coarser_levels and self.described["pyramid"]["by"] == pyramids.AVERAGING
        return self.coarser_levels if averaged else 0

    def coarser(self, array: Array) -> Iterator[tuple[Layout, Array]]:
        """Yield the layout and the array of each coarser level that is stored beside an array."""
        for level in range(1, self.coarser_levels + 1):
            shape = pyramids.level_shape(array.shape, level)
            part = pyramids.Part(array.axes, shape, array.dtype, array.itemsize)
            yield type(self)(pyramids.level_layout(self.described, array.shape, level)), part

    def coarser_bytes(self, array: Array) -> int:
        """Return the bytes of all coarser levels without filters, edge chunks as they are stored."""
        return sum(layout.stored_bytes(part.shape, part.itemsize) for layout, part in self.coarser(array))

    @abstractmethod
    def largest_bytes(self, array: Array, arrays: int = 0) -> int:
        """Return an upper bound of the bytes of all files; `arrays` counts those that a case makes of it."""

    def for_case(self, case: str) -> Mapping[str, Any]:
        """Return the layout as a case of this name finds it: of two copies the one that it reads."""
        return self.described

    def named_cases(self) -> list[str]:
        """Return the cases that the layout names, which have to be read cases of the study."""
        return []

    def largest_files(self, array: Array) -> int:
        """Return an upper bound of the number of files and directories."""
        return 1

    def refusal(self, shape: Shape, itemsize: int) -> str | None:
        """Return why an array of this shape cannot be stored so, or None."""
        return None

    def fits(self, shape: Shape) -> bool:
        """Return whether a smaller array than the study's can be stored so: no chunk is larger than it."""
        return not self.chunks or all(c <= s for c, s in zip(self.chunks, shape, strict=True))

    def within(self, shape: Shape) -> Mapping[str, Any]:
        """Return the layout for an array of this shape that is a part of another: no chunk is longer."""
        return self.described

    def parts_refusal(self, counts: Sequence[int], axis: int, shape: Shape) -> str | None:
        """Return why files of this layout cannot hold so many indices each along an axis of an array of this
        shape, or None.
        """
        return None

    def borders(self, shape: Shape) -> tuple[int, list[int]]:
        """Return an axis, and the indices along it with which files begin but the first: none of one file."""
        return 0, []

    def touched(self, origin: Shape, extent: Shape) -> int:
        """Return the number of chunks that a box touches; zero for a contiguous array."""
        return arithmetic.chunks_touched(origin, extent, self.chunks) if self.chunks else 0

    def stored_bytes(self, shape: Shape, itemsize: int) -> int:
        """Return the bytes of the array without filters, padded where edge chunks are stored whole."""
        padding = arithmetic.padding_bytes(shape, self.chunks, itemsize) if self.chunks else 0
        return math.prod(shape) * itemsize + padding

    def estimated_reading(
        self, extent: Shape, shape: Shape, itemsize: int, level: int = 0
    ) -> tuple[int, int]:
        """Return about how many pieces a selection of `extent` reads at a level, and their bytes."""
        size = self.stored_bytes(shape, itemsize)
        # Each level beside the array is half as long; of a level of the array itself whole chunks are read.
        step = 2 ** min(level, self.coarser_levels)
        extent, shape = ([-(-length // step) for length in lengths] for lengths in (extent, shape))
        if self.chunks:
            corners = zip(extent, self.chunks, strict=True)
            pieces = math.prod(math.ceil(length / chunk) + 1 for length, chunk in corners)
            return pieces, min(size, pieces * math.prod(self.chunks) * itemsize)
        pieces = math.prod(extent[: arithmetic.run_axis(extent, shape)])
        return pieces, min(size, math.prod(extent) * itemsize + pieces * BESIDE_BYTES)

    def chunk_words(self) -> str:
        """Return the chunk shape as a table has it, such as 4x4x2048, or contiguous."""
        return text.shape(self.chunks)

    def piece_seconds(self) -> float:
        """Return about how long the library takes for one piece of a selection, beside reading its bytes."""
        return PIECE_SECONDS

    def clients(self) -> tuple[str, ...]:
        """Return the modules of the clients through which its data are read; none of plain files."""
        return ()

    def files_touched(self, origin: Shape, extent: Shape) -> int:
        """Return the number of files, or of what is opened like one, that a box touches."""
        return 1

    def encoding_seconds(self, size: int) -> float:
        """Return about how long filters take to encode so many bytes; 0 where writing takes longer."""
        return 0.0

    def restart_seconds(self) -> float:
        """Return about how long it takes until what serves the data is there anew; 0 for files."""
        return 0.0

    def ranks_mistake(self, making: bool = False) -> str | None:
        """Return why MPI ranks cannot open files of this layout, or with `making` make them, as it says, or
        None.
        """
        return None

    def sub_volumes_mistake(self, way: str, along: Sequence[str]) -> str | None:
        """Return why MPI ranks cannot each write a sub-volume in a way, cut along these axes, or None."""
        return f"MPI ranks write no sub-volumes of {self.title}"

    def rewritten_bytes(self, shape: Shape, extent: Shape, itemsize: int, origin: Shape | None = None) -> int:
        """Return the bytes that are moved once more because boxes of `extent` cover parts of what is written
        as one: each is read, changed and written again.

        `origin` is where the array begins in the one that is covered from its first element on.
        """
        return 0

    def lossy(self) -> bool:
        """Return whether values may differ from those that were written."""
        return False

    def promised_error(self) -> float | None:
        """Return the largest absolute error that a lossy layout promises; None without a promise."""
        return None

    def filters_text(self) -> str:
        """Return the filters as one short text, such as "shuffle, gzip 4"; "" without any."""
        return ""

    def words(self, axes: Sequence[str], itemsize: int) -> str:
        """Return chunk shape by axis, bytes of a chunk, axis order if not the array's, and filters."""
        parts = [self._chunks_text(axes, itemsize)]
        if self.order != list(axes):
            parts.append(f"stored in the order {', '.join(self.order)}")
        filters = self.filters_text()
        parts.append(f"filters {filters}" if filters else "no filters")
        if self.coarser_levels:
            parts.append(
                f"{text.count(self.coarser_levels, 'coarser level')} by {self.described['pyramid']['by']}"
            )
        return ", ".join(parts)

    def _chunks_text(self, axes: Sequence[str], itemsize: int) -> str:
        if not self.chunks:
            return "no chunks"
        size = itemsize * math.prod(self.chunks)
        extents = "x".join(map(str, self.chunks))
        return f"chunks of {extents} ({', '.join(axes)}; {size / 1024:,.4g} KiB)"

    def files_of(self, axes: Sequence[str], origin: Shape, extent: Shape) -> list[str] | None:
        """Return the names, below that of the data, of the files that hold a box; None where none is a part.

        Files that have nothing to store may not be there.
        """
        return None

    def copied(self) -> Mapping[str, Any] | None:
        """Return the layout by which a copy of all files of the data is read; None where that is not it."""
        return self.described

    def environment(self) -> str | None:
        """Return the file that says that the layout's own environment is complete; None: the workflow's."""
        return None

    def other_file_systems(self) -> list[str]:
        """Return names of the file systems on which parts of the test file lie beside its own."""
        return []

    def unfit(self, copies: bool = False) -> str | None:
        """Return why this layout is not recommended although its times may be the shortest, or None.

        `copies`: one that holds the array twice may be.
        """
        return None
