"""Writing ragged rows: appending them at the end, replacing single ones, cutting off.

Bytes are written before what leads to them, so that whoever finds a row finds its bytes.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from types import TracebackType
from typing import Any, SupportsIndex

import h5py
import numpy as np
import numpy.typing as npt

from hyperslab.ragged.convention import REFERENCE, ROW_CHUNK, RaggedError
from hyperslab.ragged.gaps import Gaps
from hyperslab.ragged.reading import RaggedRows

Row = npt.ArrayLike
# Appended rows are held in memory until they are this many bytes, or rows.
BUFFER_BYTES, BUFFER_ROWS = 2**22, ROW_CHUNK
# HDF5 counts extents in 64 bits with a sign.
LARGEST = 2**63 - 1
# Those that append in this process, by file and address of the primary dataset.
_APPENDERS: weakref.WeakValueDictionary[tuple[Any, ...], RaggedDataset] = weakref.WeakValueDictionary()


class RaggedDataset(RaggedRows):
    """Rows that can be read and, in a file that is open for it, written.

    Appended rows are held in memory until there are many of them, or until `flush` or `close`; as a context
    manager rows are closed at the end. One dataset has one appender at a time. `reuse`: space of rows that
    were replaced is given to others.
    """

    def __init__(
        self, primary: h5py.Dataset, vector: h5py.Dataset, dtype: np.dtype[Any], reuse: bool
    ) -> None:
        super().__init__(primary, vector, dtype)
        self.reuse = reuse
        self._appends = False
        self._count = self._end = 0
        # Values of the rows that are held, end to end, in memory that is kept; and the elements of each.
        self._buffer, self._filled = np.empty(0, dtype), 0
        self._held: list[int] = []
        self._gaps: Gaps | None = None

    def __len__(self) -> int:
        """Return the number of rows, those included that are held in memory."""
        return self._count + len(self._held) if self._appends else super().__len__()

    def __enter__(self) -> RaggedDataset:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def append(self, rows: Iterable[Row]) -> None:
        """Add rows at the end; each is a sequence of elements that the rows' type holds exactly.

        Raises RaggedError for a row of another type, before any row of this call is taken, and where somebody
        else appends.
        """
        if not self._appends:
            self._claim()
        count = len(self._held)
        try:
            for row in rows:
                checked = self._checked(row)
                size = len(checked)
                begin, end = self._filled, self._filled + size
                if end > len(self._buffer):
                    self._make_room(end)
                self._buffer[begin:end] = checked
                self._filled = end
                self._held.append(size)
        except BaseException:
            # Of a call all rows are taken, or none.
            self._filled -= sum(self._held[count:])
            del self._held[count:]
            raise
        if self._filled * self.dtype.itemsize >= BUFFER_BYTES or len(self._held) >= BUFFER_ROWS:
            self._settled()

    def append_block(self, lengths: npt.ArrayLike, values: npt.ArrayLike) -> None:
        """Add many rows at once: the elements of each, and the values of all end to end.

        Raises RaggedError where lengths are negative or do not add up to the values.
        """
        self._claim()
        flat, sizes = self.checked_block(lengths, values)
        self._settled()
        self._store(flat, sizes)

    def checked_block(
        self, lengths: npt.ArrayLike, values: npt.ArrayLike
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint64]]:
        """Return values in the rows' type, and the bytes of each row; raises RaggedError as above."""
        flat, sizes = self._checked(values), np.asarray(lengths)
        whole = sizes.ndim == 1 and (not sizes.size or (sizes.dtype.kind in "iu" and int(sizes.min()) >= 0))
        if not whole:
            raise RaggedError(f"{self._place}: lengths should be a sequence of whole numbers from 0 on")
        # One that alone is too long could make a sum of 64 bits overflow.
        total = int(sizes.max(initial=0))
        if total <= len(flat):
            total = int(sizes.sum())
        if total != len(flat):
            said = f"lengths add up to {total:,}, and there are {len(flat):,} values"
            raise RaggedError(f"{self._place}: {said}")
        return flat, sizes.astype(np.uint64) * np.uint64(self.dtype.itemsize)

    def extend(self, count: int, size: int) -> tuple[int, int]:
        """Make room for `count` rows of `size` bytes together, which the caller writes.

        Returns the number of the first of them, and where their bytes begin.
        """
        self._claim()
        self._settled()
        first, begin = self._count, self._end
        self._end = self._extended(size)
        self.primary.resize((first + count,))
        self._count = first + count
        return first, begin

    def flush(self) -> None:
        """Write rows that are held, and hand everything to the kernel: first bytes, then what leads to them.

        Where the file is in HDF5's mode for a single writer and many readers (`file.swmr_mode = True`), rows
        that were flushed are not lost when the process is killed (`recover`).
        """
        self._settled()
        self.vector.flush()
        self.primary.flush()

    def close(self) -> None:
        """Flush, and let others append."""
        if self._appends:
            self.flush()
            _APPENDERS.pop(self._key, None)
            self._appends = False
            self._buffer = np.empty(0, self.dtype)

    def resize(self, count: int) -> None:
        """Cut off rows at the end, or add empty ones, until there are `count`.

        Bytes of rows that are cut off stay in the vector, unless they lie at its end.
        """
        if count < 0:
            raise RaggedError(f"{self._place}: there cannot be {count} rows")
        self._claim()
        self._settled()
        if count >= self._count:
            self._store(np.empty(0, self.dtype), np.zeros(count - self._count, np.uint64))
            return
        self.primary.resize((count,))
        self._count, self._gaps = count, None
        found = self._references(slice(0, len(self)))
        self._end = int((found["offset"] + found["length"]).max(initial=0))
        # Nobody may find a row whose bytes are not there.
        self.primary.flush()
        self.vector.resize((self._end,))

    def __setitem__(self, number: SupportsIndex, row: Row) -> None:
        """Replace one row by one of any length.

        Its bytes go to the end of the vector, and those of the old row are lost. Where space is reused, they
        go to the first gap that is large enough, and the old bytes become a gap; the gaps are found when the
        first row is replaced, by reading and sorting what leads to all rows.
        """
        self._claim()
        self._settled()
        place, new = self._position(number), self._checked(row)
        old = self._references(slice(place, place + 1))[0]
        if self.reuse and self._gaps is None:
            self._gaps = Gaps(self._references(slice(0, len(self))), self._end)
        offset = self._gaps.take(new.nbytes) if self._gaps else None
        if offset is None:
            offset = self._end
            self._end = self._extended(new.nbytes)
        self._write_bytes(offset, new)
        write_run(self.primary, place, np.array([(offset, new.nbytes)], REFERENCE))
        if self._gaps:
            self._gaps.give(int(old["offset"]), int(old["length"]))

    @property
    def lost_bytes(self) -> int:
        """Bytes of the vector to which no row leads; rows are taken not to share any."""
        used = int(self._references(slice(0, len(self)))["length"].sum())
        return len(self.vector) - used

    @property
    def _key(self) -> tuple[Any, ...]:
        info = h5py.h5o.get_info(self.primary.id)
        return (info.fileno, info.addr)

    def _claim(self) -> None:
        """Become the one that appends; raises RaggedError where that is somebody else, or the file is not
        open for writing.
        """
        if self._appends:
            return
        if self.primary.file.mode == "r":
            raise RaggedError(f"{self._place}: the file is open for reading only")
        if _APPENDERS.get(self._key) is not None:
            raise RaggedError(f"{self._place} has another appender; close that first")
        count = super().__len__()
        if count < len(self.primary):
            # Rows that a killed process began are cut off.
            self.primary.resize((count,))
        self._count, self._end = count, len(self.vector)
        _APPENDERS[self._key] = self
        self._appends = True

    def _make_room(self, elements: int) -> None:
        """Have the buffer hold so many elements at least, with those that are in it."""
        larger = np.empty(
            max(elements, 2 * len(self._buffer), BUFFER_BYTES // self.dtype.itemsize), self.dtype
        )
        larger[: self._filled] = self._buffer[: self._filled]
        self._buffer = larger

    def _checked(self, row: Row) -> npt.NDArray[Any]:
        """Return one row in the rows' type; raises RaggedError where that would change it."""
        given = row if isinstance(row, np.ndarray) else np.asarray(row)
        if given.ndim != 1:
            raise RaggedError(f"{self._place}: a row has one axis, not {given.ndim}")
        if given.dtype == self.dtype:
            return given
        if given.size == 0:
            return np.empty(0, self.dtype)
        if self.dtype.names is None and given.dtype.kind in "iufcb":
            if np.can_cast(given.dtype, self.dtype, "safe"):
                return given.astype(self.dtype)
            # Numbers of Python have no type of their own; those that the rows' type holds are taken.
            if not isinstance(row, np.ndarray) and (turned := _exactly(given, self.dtype)) is not None:
                return turned
        raise RaggedError(f"{self._place} holds rows of {self.dtype}, and one of {given.dtype} does not fit")

    def _settled(self) -> None:
        """Write what is held, so that it can be read."""
        if self._held:
            sizes = np.array(self._held, np.uint64) * np.uint64(self.dtype.itemsize)
            values, self._held, self._filled = self._buffer[: self._filled], [], 0
            self._store(values, sizes)
            if self._buffer.nbytes > 2 * BUFFER_BYTES:
                # A call that brought much gives its memory back.
                self._buffer = np.empty(0, self.dtype)

    def _store(self, values: npt.NDArray[Any], sizes: npt.NDArray[np.uint64]) -> None:
        """Write bytes at the end of the vector, then what leads to them at that of the primary dataset."""
        if not len(sizes):
            return
        found = np.empty(len(sizes), REFERENCE)
        found["length"] = sizes
        found["offset"] = np.uint64(self._end) + np.cumsum(sizes, dtype=np.uint64) - sizes
        begin, self._end = self._end, self._extended(values.nbytes)
        self._write_bytes(begin, values)
        self.primary.resize((self._count + len(found),))
        write_run(self.primary, self._count, found)
        self._count += len(found)

    def _extended(self, size: int) -> int:
        """Make the vector longer by so many bytes; returns where it ends. RaggedError where others append."""
        if len(self.primary) != self._count or len(self.vector) != self._end:
            raise RaggedError(f"{self._place} was changed by somebody else while rows were appended")
        if self._end + size > LARGEST:
            raise RaggedError(
                f"{self._place}: a vector of {self._end + size:,} bytes is more than HDF5 can count"
            )
        if size:
            self.vector.resize((self._end + size,))
        return self._end + size

    def _write_bytes(self, offset: int, values: npt.NDArray[Any]) -> None:
        if values.nbytes:
            write_run(self.vector, offset, np.ascontiguousarray(values).view(np.uint8))
        if self.primary.file.swmr_mode:
            # Nobody may find a row whose bytes are not there.
            self.vector.flush()


def _exactly(given: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any] | None:
    """Return values in another type; None where one of them would change."""
    with np.errstate(all="ignore"):
        turned = given.astype(dtype)
    same = np.array_equal(turned, given, equal_nan=given.dtype.kind in "fc")
    return turned if same else None


def write_run(dataset: h5py.Dataset, first: int, values: npt.NDArray[Any]) -> None:
    """Write a run in one call, without what h5py's indexing adds to it."""
    space = dataset.id.get_space()
    space.select_hyperslab((first,), values.shape)
    dataset.id.write(h5py.h5s.create_simple(values.shape), space, values)
