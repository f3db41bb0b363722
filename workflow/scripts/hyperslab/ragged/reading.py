"""Reading ragged rows: by number, by slice, by many numbers, in blocks; every reference is checked."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, SupportsIndex, cast

import h5py
import numpy as np
import numpy.typing as npt

from .convention import BLOCK_BYTES, REFERENCE, ROW_CHUNK, UNWRITTEN, RaggedError


class RaggedRows:
    """Rows that can be read: `rows[i]`, `rows[i:j]`, `rows[[3, 1, 4]]`, `len(rows)`, `rows.lengths`.

    `primary` and `vector` are their datasets, `dtype` is the type of an element.
    """

    def __init__(self, primary: h5py.Dataset, vector: h5py.Dataset, dtype: np.dtype[Any]) -> None:
        self.primary, self.vector, self.dtype = primary, vector, dtype
        self._file = h5py.h5i.get_file_id(primary.id)
        # Extent of the primary dataset, and how many of its rows were written, when last looked at.
        self._known = (0, 0)

    @property
    def _place(self) -> str:
        return f"{self.primary.file.filename}: {self.primary.name}"

    @property
    def _followed(self) -> bool:
        """Whether the file is in HDF5's mode for a single writer and many readers."""
        return bool(self._file.get_intent() & (h5py.h5f.ACC_SWMR_READ | h5py.h5f.ACC_SWMR_WRITE))

    def refresh(self) -> int:
        """Look at the file anew while another process appends to it, and return the number of rows.

        The file has to be open as that of a single writer and many readers: `h5py.File(path, swmr=True)`.
        """
        # In this order: bytes are written before what leads to them.
        self.primary.refresh()
        self.vector.refresh()
        return len(self)

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._written()

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Elements of each row."""
        return self._elements(self._references(slice(0, len(self))))

    def __getitem__(self, index: SupportsIndex | slice | Sequence[int] | npt.NDArray[Any]) -> Any:
        """Return one row as an array, or those of a slice or of several numbers as a list of arrays.

        Raises IndexError for a row that is not there, RaggedError where the file cannot be what it should.
        """
        if isinstance(index, slice):
            return split(*self.read(index))
        if np.ndim(cast("npt.ArrayLike", index)) == 0:
            self._settled()
            place = self._position(cast("SupportsIndex", index))
            lengths, values = self.read(slice(place, place + 1))
            if not len(lengths):
                raise self._absent(place)
            return values
        return split(*self.read_many(cast("Sequence[int]", index)))

    def read(self, rows: slice) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
        """Return the elements of each row of a slice, and the values of all end to end."""
        self._settled()
        there, stop = len(self.primary), rows.stop
        plain = (rows.start or 0) >= 0 and rows.step in (None, 1)
        if not (plain and stop is not None and 0 <= stop <= there):
            there = len(self)
        first, last, step = rows.indices(there)
        if step != 1:
            return self.read_many(range(first, last, step))
        try:
            found = self._references(slice(first, last))
        except IndexError:
            # Rows at the end that were begun and never written do not count, as in any slice of a list.
            first, last, _ = rows.indices(len(self))
            found = self._references(slice(first, last))
        return self._elements(found), self._values(found)

    def read_many(
        self, numbers: Sequence[int] | npt.NDArray[Any]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
        """Return the elements of rows of any numbers, in this order, and the values of all end to end."""
        lengths, pieces = self.read_pieces(numbers)
        return lengths, self._joined(pieces)

    def read_pieces(
        self, numbers: Sequence[int] | npt.NDArray[Any]
    ) -> tuple[npt.NDArray[np.int64], list[npt.NDArray[Any]]]:
        """Return the same with the values as they were read: one piece of all that lies side by side."""
        wanted = np.asarray(numbers)
        self._settled()
        if wanted.dtype == bool:
            if wanted.shape != (len(self),):
                raise IndexError(
                    f"{self._place}: {wanted.shape} truth values cannot choose of {len(self)} rows"
                )
            wanted = np.flatnonzero(wanted)
        if wanted.size and (wanted.ndim != 1 or wanted.dtype.kind not in "iu"):
            raise IndexError(
                f"{self._place}: rows are chosen by whole numbers or truth values, not {wanted.dtype}"
            )
        places = [self._position(number) for number in wanted.tolist()]
        known = sorted(set(places))
        # A range is read at once where most of it is wanted, else its parts.
        by_place: dict[int, Any] = {}
        if known and (known[-1] - known[0]) <= 64 * len(known):
            all_ = self._references(slice(known[0], known[-1] + 1))
            by_place = {place: all_[place - known[0]] for place in known}
        else:
            for place in known:
                by_place[place] = self._references(slice(place, place + 1))[0]
        found = np.array([by_place[place] for place in places], REFERENCE)
        return self._elements(found), self._pieces(found)

    def blocks(self, size: int = BLOCK_BYTES) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[Any]]]:
        """Yield all rows in blocks of about `size` bytes: elements of each row, and values end to end."""
        self._settled()
        start, count = 0, len(self)
        while start < count:
            found = self._references(slice(start, min(start + ROW_CHUNK, count)))
            ends = np.cumsum(found["length"].astype(np.int64))
            stop = max(1, int(np.searchsorted(ends, size, side="right")))
            yield self._elements(found[:stop]), self._values(found[:stop])
            start += min(stop, len(found))

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        """Yield each row, read in blocks."""
        for lengths, values in self.blocks():
            yield from split(lengths, values)

    def _position(self, number: SupportsIndex) -> int:
        place = operator.index(number)
        if 0 <= place < len(self.primary):
            # Where rows end need not be known, which costs a read of the last one.
            return place
        if not -len(self) <= place < len(self):
            raise self._absent(place)
        return place % len(self)

    def _absent(self, number: int) -> IndexError:
        return IndexError(f"row {number} is not there: {self._place} has {len(self):,} rows")

    def _settled(self) -> None:
        """Make all rows readable; those of a file are."""

    def _written(self) -> int:
        """Return the number of rows before those that a killed process began and never wrote."""
        stop = extent = len(self.primary)
        if self._known[0] == extent and not self._followed:
            return self._known[1]
        self._known = (extent, self._last_written(stop))
        return self._known[1]

    def _last_written(self, stop: int) -> int:
        while stop:
            first = max(0, stop - ROW_CHUNK)
            # The last row is the only one that is looked at in a whole dataset.
            some = self.primary[stop - 1 : stop] if stop == len(self.primary) else self.primary[first:stop]
            there = np.flatnonzero(some["offset"] != UNWRITTEN["offset"])
            if len(there):
                return stop - len(some) + int(there[-1]) + 1
            stop -= len(some)
        return 0

    def _references(self, rows: slice) -> npt.NDArray[Any]:
        """Return offsets and lengths in bytes, checked; raises RaggedError for what cannot be."""
        self._settled()
        found: npt.NDArray[Any] = self.primary[rows]
        found = found.astype(REFERENCE, copy=False)
        if (begun := found["offset"] == UNWRITTEN["offset"]).any():
            number = (rows.start or 0) + int(np.argmax(begun))
            if number < len(self):
                raise RaggedError(f"{self._place}: row {number} was begun and never written")
            raise self._absent(number)
        outside = self._outside(found)
        if outside.any() and self._file.get_intent() & h5py.h5f.ACC_SWMR_READ:
            # A row may have been replaced since somebody looked how long the vector is.
            self.vector.refresh()
            outside = self._outside(found)
        if outside.any():
            self._refuse(rows, outside, f"lies beyond the vector, which has {len(self.vector):,} bytes")
        odd = found["length"] % np.uint64(self.dtype.itemsize) != 0
        if odd.any():
            self._refuse(rows, odd, f"is no whole number of elements of {self.dtype.itemsize} bytes")
        return found

    def _outside(self, found: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Return of each row whether it ends beyond the vector."""
        total, offset, length = np.uint64(len(self.vector)), found["offset"], found["length"]
        # Without a sum, which could overflow.
        outside: npt.NDArray[np.bool_] = (length > total) | (offset > total - np.minimum(length, total))
        return outside

    def _refuse(self, rows: slice, wrong: npt.NDArray[np.bool_], why: str) -> None:
        number = (rows.start or 0) + int(np.argmax(wrong))
        raise RaggedError(f"{self._place}: row {number} {why}; the file is damaged or was cut short")

    def _elements(self, found: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        return (found["length"] // np.uint64(self.dtype.itemsize)).astype(np.int64)

    def _values(self, found: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the values of rows end to end."""
        return self._joined(self._pieces(found))

    def _pieces(self, found: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Return the values of rows; those that lie side by side in the file are one piece, read at once."""
        some = found[found["length"] > 0]
        if not len(some):
            return []
        starts = some["offset"].astype(np.int64)
        ends = starts + some["length"].astype(np.int64)
        breaks = np.flatnonzero(starts[1:] != ends[:-1]) + 1
        firsts, lasts = starts[[0, *breaks]], ends[[*(breaks - 1), -1]]
        places = zip(firsts.tolist(), lasts.tolist(), strict=True)
        return [self.vector[first:last].view(self.dtype) for first, last in places]

    def _joined(self, pieces: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """Return pieces end to end; a single one is not copied."""
        if len(pieces) == 1:
            return pieces[0]
        # As bytes: numpy would turn those of a foreign order around.
        content = [np.empty(0, np.uint8), *(piece.view(np.uint8) for piece in pieces)]
        return np.concatenate(content).view(self.dtype)


def split(lengths: npt.NDArray[np.int64], values: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """Return rows as views of their values, which lie end to end."""
    ends = np.cumsum(lengths).tolist()
    return [values[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)] if ends else []
