"""Writing ragged rows: appending them at the end, replacing single ones, cutting off.

Bytes are written before what leads to them, so that whoever finds a row finds its bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any, SupportsIndex

import h5py
import numpy as np
import numpy.typing as npt

from . import appenders
from .checking import CheckedRows, Row
from .convention import MARK, REFERENCE, VECTOR, RaggedError
from .gaps import Gaps
from .held import Held

# HDF5 counts extents in 64 bits with a sign.
LARGEST = 2**63 - 1
BYTES = np.dtype(np.uint8)
# What lies in memory, in HDF5's words.
BYTES_TYPE, REFERENCE_TYPE = h5py.h5t.NATIVE_UINT8, h5py.h5t.py_create(REFERENCE)


class RaggedDataset(CheckedRows):
    """Rows that can be read and, in a file that is open for it, written.

    Appended rows are held in memory until they fill a chunk of the vector, or until `flush` or `close`; as a
    context manager rows are closed at the end. One dataset has one appender at a time. `reuse`: space of rows
    that were replaced is given to others.
    Where a write fails rows that were held are lost, and whoever appends goes on with what the file has.
    """

    def __init__(
        self, primary: h5py.Dataset, vector: h5py.Dataset, dtype: np.dtype[Any], reuse: bool
    ) -> None:
        super().__init__(primary, vector, dtype)
        self.reuse = reuse
        # Whether several ranks have the file open.
        self._shared = primary.file.driver == "mpio"
        # What tells these rows from others of this process; None where they are not appended to.
        self._key: tuple[int, Any] | None = None
        # Rows and bytes that were written.
        self._count = self._end = 0
        self._held = Held(dtype, vector.chunks[0] if vector.chunks else 1)
        self._gaps: Gaps | None = None
        # The group of these rows, and how many links it had when the gaps were found.
        self._beside: tuple[Any, int] = (None, 0)
        # Whether something was written since the last flush, and whether bytes were.
        self._unflushed = self._bytes_unflushed = False

    def __len__(self) -> int:
        """Return the number of rows, those included that are held in memory."""
        return self._count + len(self._held.counts) if self._key else super().__len__()

    def __enter__(self) -> RaggedDataset:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def append(self, rows: Iterable[Row]) -> None:
        """Add rows at the end; each is a sequence of elements that the rows' type holds exactly.

        All rows of one call are in memory until the last of them was taken.
        Raises RaggedError for a row of another type, before any row of this call is taken, and where somebody
        else appends.
        """
        if self._key is None or self._shared:
            self._claim()
        # Whoever makes rows one by one may use an array of his again.
        lasting = isinstance(rows, (list, tuple, np.ndarray))
        # None is held before all are there: what yields them may read here, and has what is held written.
        taken = [self._checked(row) if lasting else self._checked(row).copy() for row in rows]
        if self._key is None:
            # It may close rows, too.
            self._claim()
        held = self._held
        count, filled = len(held.counts), held.filled
        try:
            held.expect(sum(map(len, taken)))
            for row in taken:
                held.add(row)
                held.counts.append(len(row))
        except BaseException:
            # Of a call all rows are taken, or none.
            held.cut_back(count, filled)
            raise
        if held.full:
            self._write_held()

    def append_block(self, lengths: npt.ArrayLike, values: npt.ArrayLike) -> None:
        """Add many rows at once: the elements of each, and the values of all end to end.

        Raises RaggedError where lengths are negative or do not add up to the values.
        """
        if self._key is None or self._shared:
            self._claim()
        flat, counts = self.checked_block(lengths, values)
        held = self._held
        if len(flat) >= held.room:
            self._write_through(flat, counts)
            return
        count, filled = len(held.counts), held.filled
        try:
            held.add(flat)
            held.counts.frombytes(counts.tobytes())
        except BaseException:
            # Also where somebody stops the process in between: values without lengths would shift all rows.
            held.cut_back(count, filled)
            raise
        if held.full:
            self._write_held()

    def claim(self) -> None:
        """Be the one that appends, before there is a row; raises RaggedError as `append` does."""
        self._claim()

    def extend(self, count: int, size: int) -> tuple[int, int]:
        """Make room for `count` rows of `size` bytes together, which the caller writes.

        Returns the number of the first of them, and where their bytes begin. Of a file that several ranks
        opened all of them call it.
        """
        self._claim(together=True)
        self._settled()
        first, begin = self._count, self._end
        self._end = self._extended(size)
        self.primary.id.set_extent((first + count,))
        self._count = first + count
        self._unflushed = self._bytes_unflushed = True
        return first, begin

    def flush(self) -> None:
        """Write rows that are held, and hand everything to the kernel: first bytes, then what leads to them.

        Where the file is in HDF5's mode for a single writer and many readers (`file.swmr_mode = True`), rows
        that were flushed are not lost when the process is killed (`recover`).
        """
        self._settled()
        if not self._unflushed:
            return
        if self._followed:
            self._flush_bytes()
            self.primary.id.flush()
        else:
            # Nobody reads meanwhile, and all at once is fewer writes.
            h5py.h5f.flush(self._file)
        self._unflushed = self._bytes_unflushed = False

    def close(self) -> None:
        """Flush, and let others append."""
        if self._key:
            self.flush()
            self._leave()

    def resize(self, count: int) -> None:
        """Cut off rows at the end, or add empty ones, until there are `count`.

        Bytes of rows that are cut off stay in the vector, unless they lie at its end, nobody may read the
        file meanwhile, and no other rows lead to the vector. Of a file that several ranks opened all of them
        call it.
        """
        if count < 0:
            raise RaggedError(f"{self._place}: there cannot be {count} rows")
        self._claim(together=True)
        self._settled()
        if count >= self._count:
            empty = np.zeros(count - self._count, REFERENCE)
            empty["offset"] = self._end
            self._write_references(empty)
            return
        self.primary.id.set_extent((count,))
        self._count, self._gaps, self._unflushed = count, None, True
        if self._followed or self._vector_is_shared():
            # What a reader has in memory, or other rows, may lead to the bytes of rows that were cut off.
            return
        found = self._references(slice(0, len(self)))
        self._end = int((found["offset"] + found["length"]).max(initial=0))
        # Nobody may find a row whose bytes are not there.
        self.primary.id.flush()
        self.vector.id.set_extent((self._end,))

    def __setitem__(self, number: SupportsIndex, row: Row) -> None:
        """Replace one row by one of any length.

        Its bytes go to the end of the vector, and those of the old row are lost. Where space is reused, and
        nobody may read the file meanwhile, they go to the first gap that is large enough, and the old bytes
        become a gap. The gaps are found when the first row is replaced, by reading and sorting what leads to
        all rows.
        """
        self._claim()
        self._settled()
        place, new = self._position(number), self._checked(row)
        old = self._references(slice(place, place + 1))[0]
        gaps = self._usable_gaps()
        offset = None if gaps is None else gaps.take(new.nbytes)
        if offset is None:
            offset = self._end
            self._end = self._extended(new.nbytes)
        self._write_bytes(offset, new)
        self._write_reference_run(place, np.array([(offset, new.nbytes)], REFERENCE))
        if gaps is not None:
            gaps.give((int(old["offset"]), int(old["length"])))

    @property
    def lost_bytes(self) -> int:
        """Bytes of the vector to which no row leads; rows are taken not to share any."""
        used = int(self._references(slice(0, len(self)))["length"].sum())
        return len(self.vector) - used

    def _claim(self, together: bool = False) -> None:
        """Become the one that appends; raises RaggedError where that is somebody else, or the file is not
        open for writing, or for several ranks and not all of them do this `together`.
        """
        if self._shared and not together:
            raise RaggedError(
                f"{self._place}: the file is open for several ranks; append_collectively adds their rows"
            )
        if self._key is not None:
            return
        if self.primary.file.mode == "r":
            raise RaggedError(f"{self._place}: the file is open for reading only")
        # Looked at anew: what is cut off below has to be what nobody finished.
        self._known = (0, 0)
        count = super().__len__()
        self._key = appenders.enter(self, self._place)
        if count < len(self.primary):
            # Rows that a killed process began are cut off.
            self.primary.resize((count,))
            self._unflushed = True
        self._count, self._end = count, len(self.vector)

    def _leave(self) -> None:
        """Be no longer the one that appends."""
        if self._key:
            appenders.leave(self, self._key)
            self._key = None
        # What was known of the rows is older than those that were written.
        self._known = (0, 0)
        self._held.clear()
        # Whoever appends next may use the gaps.
        self._gaps = None

    def _usable_gaps(self) -> Gaps | None:
        """Return the gaps that rows may be put into; None where space is not reused."""
        # A reader beside, and the file once its writer is killed, may still lead to what was replaced.
        if not self.reuse or self._followed:
            return None
        # Rows that were copied since then lead to the vector, too, under a link of their own.
        group, links = self._beside
        if self._gaps is None or len(group) != links:
            group = self.primary.parent
            self._beside = group, len(group)
            found = self._references(slice(0, len(self)))
            self._gaps = Gaps(found, self._end, shared=self._vector_is_shared())
        return self._gaps

    def _vector_is_shared(self) -> bool:
        """Return whether other rows of the group lead to the same vector, as those of `Group.copy` do."""
        group, own = self.primary.parent, self.primary.attrs[VECTOR]
        for name in group:
            # Other links lead to what has a hard one, or to another file.
            if isinstance(group.get(name, getlink=True), h5py.HardLink):
                other = group[name]
                rows = isinstance(other, h5py.Dataset) and MARK in other.attrs and other != self.primary
                if rows and np.array_equal(other.attrs.get(VECTOR), own):
                    return True
        return False

    def _settled(self) -> None:
        """Write what is held, so that it can be read."""
        if self._held.counts:
            self._write_held(everything=True)

    def _write_held(self, everything: bool = False) -> None:
        """Write what is held, `everything` or whole chunks, and what leads to the rows that end there."""
        held = self._held
        elements = held.whole(self._end, held.filled)
        if everything or not elements:
            elements = held.filled
        try:
            self._write_end(held.values(elements))
            held.drop(elements)
            self._write_ended()
        except BaseException:
            self._leave()
            raise

    def _write_through(self, flat: npt.NDArray[Any], counts: npt.NDArray[np.int64]) -> None:
        """Write rows that fill chunks, after what is held; whole chunks are written from where they lie."""
        held = self._held
        try:
            held.counts.frombytes(counts.tobytes())
            if held.filled:
                missing = held.missing(self._end)
                held.add(flat[:missing])
                flat = flat[missing:]
                self._write_end(held.values(held.filled))
                held.drop(held.filled)
            whole = held.whole(self._end, len(flat))
            self._write_end(flat[:whole])
            held.add(flat[whole:])
            self._write_ended()
        except BaseException:
            self._leave()
            raise

    def _write_end(self, values: npt.NDArray[Any]) -> None:
        """Write values at the end of the vector."""
        begin, end = self._end, self._extended(values.nbytes)
        self._write_bytes(begin, values)
        self._end = end

    def _write_ended(self) -> None:
        """Write what leads to those of the rows that are held whose last byte is written."""
        counts, size = np.array(self._held.counts, np.int64), self.dtype.itemsize
        ends = np.cumsum(counts) * size
        ends += self._end + self._held.filled * size - (ends[-1] if len(ends) else 0)
        done = int(np.searchsorted(ends, self._end, side="right"))
        found = np.empty(done, REFERENCE)
        found["length"] = counts[:done] * size
        found["offset"] = ends[:done] - counts[:done] * size
        self._write_references(found)
        del self._held.counts[:done]

    def _write_references(self, found: npt.NDArray[Any]) -> None:
        """Write what leads to rows at the end of the primary dataset."""
        if not len(found):
            return
        self.primary.id.set_extent((self._count + len(found),))
        self._write_reference_run(self._count, found)
        self._count += len(found)

    def _write_reference_run(self, first: int, found: npt.NDArray[Any]) -> None:
        if self._followed:
            # Nobody may find a row whose bytes are not there.
            self._flush_bytes()
        write_run(self.primary, first, found, REFERENCE_TYPE)
        self._unflushed = True

    def _extended(self, size: int) -> int:
        """Make the vector longer by so many bytes; returns where it ends. RaggedError where others append."""
        if self.primary.id.shape != (self._count,) or self.vector.id.shape != (self._end,):
            raise RaggedError(f"{self._place} was changed by somebody else while rows were appended")
        if self._end + size > LARGEST:
            raise RaggedError(
                f"{self._place}: a vector of {self._end + size:,} bytes is more than HDF5 can count"
            )
        if size:
            self.vector.id.set_extent((self._end + size,))
        return self._end + size

    def _write_bytes(self, offset: int, values: npt.NDArray[Any]) -> None:
        if values.nbytes:
            write_run(self.vector, offset, np.ascontiguousarray(values).view(BYTES), BYTES_TYPE)
            self._unflushed = self._bytes_unflushed = True

    def _flush_bytes(self) -> None:
        if self._bytes_unflushed:
            self.vector.id.flush()
            self._bytes_unflushed = False


def write_run(
    dataset: h5py.Dataset, first: int, values: npt.NDArray[Any], memory: h5py.h5t.TypeID | None = None
) -> None:
    """Write a run in one call, without what h5py's indexing adds to it; `memory` is HDF5's type of values."""
    identifier = dataset.id
    space = identifier.get_space()
    space.select_hyperslab((first,), values.shape)
    identifier.write(h5py.h5s.create_simple(values.shape), space, values, memory)
