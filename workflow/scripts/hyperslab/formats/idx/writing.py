"""Writing boxes into an IDX dataset, in any order, by one process."""

from __future__ import annotations

import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.formats.idx import codecs
from hyperslab.formats.idx import files as binary
from hyperslab.formats.idx.joining import Joining
from hyperslab.formats.idx.ordering import Covered, Ordering
from hyperslab.layouts.idx_files import TIME_TEMPLATE, IdxFiles, Place, name_of

Block = npt.NDArray[Any]
Shape = Sequence[int]
# Blocks of which boxes have covered a part wait in memory for the rest, up to so many bytes.
WAITING_BYTES = 64 * 2**20
# One call writes at most so many bytes of neighbouring blocks, while other threads put further ones in order.
WRITTEN_BYTES = 4 * 2**20
# More threads than these would only wait for each other, in memory and at files.
MOST_THREADS = 4


@dataclass
class Waiting:
    """A block of which samples are missing: its row-major grid, and how many there are still to come."""

    grid: Block
    left: int


def file_of(path: str, files: IdxFiles, time: int, first: int) -> str:
    """Return the path of the binary file whose first block is `first`."""
    template = TIME_TEMPLATE if files.has_times else ""
    return os.path.normpath(os.path.join(path, name_of(files.template, template, time, first)))


class Writer:
    """An open dataset into which boxes are written; coordinates are those on disk."""

    def __init__(self, path: str, files: IdxFiles, dtype: np.dtype[Any], alone: bool = True) -> None:
        # Where others have written before, what they have left of a block is read.
        self._alone = alone
        self._files, self._dtype = files, dtype
        self._order = Ordering(files.blocks, files.row_major)
        slots = files.blocks_per_file * files.fields
        self._open = binary.OpenFiles(partial(file_of, path, files), slots, os.O_RDWR)
        self._flags = binary.flags(files.codec, files.row_major)
        self._most = min(max(1, WRITTEN_BYTES // files.block_bytes), files.block_count())
        self._own = threading.local()
        self._joining = Joining(self._write_box, files.shape)
        # A rank has one processor.
        self._count = min(MOST_THREADS, len(os.sched_getaffinity(0))) if alone else 1
        self._threads = ThreadPoolExecutor(self._count)
        self._pending: deque[Future[None]] = deque()
        self._waiting: dict[tuple[Place, int], Waiting] = {}
        # Blocks that have been written: what a further box leaves of them is read again.
        self._written: set[tuple[Place, int]] = set()

    @property
    def opened(self) -> Counter[tuple[int, int]]:
        """How often each file has been opened, by time step and first block."""
        return self._open.opened

    def write(self, place: Place, origin: Shape, values: Block) -> None:
        """Store a box of a field of a time step, or keep it until boxes that continue it have come."""
        if self._joining.add(place, origin, values):
            # From here on its values may change.
            self._settle()

    def _write_box(self, place: Place, origin: Shape, values: Block) -> None:
        if values.strides[-1] != values.itemsize or values.dtype != self._dtype:
            values = np.ascontiguousarray(values, self._dtype)
        for level in self._files.levels():
            found = self._order.covered(level, origin, values.shape)
            self._write_whole(place, found, origin, values)
            for block in found.numbers[~found.whole].tolist():
                self._write_part(place, level, block, origin, values)

    def _write_whole(self, place: Place, found: Covered, origin: Shape, values: Block) -> None:
        """Write the blocks of a level of which the box has all samples, neighbours in one call."""
        for first, chosen in self._neighbours(found):
            file = self._file(place.time, first)
            numbers = found.numbers[chosen].tolist()
            if any((place, number) in self._written for number in numbers):
                # What comes later is what stays.
                self._settle()
            if self._files.codec == "raw":
                slot = self._files.slot(numbers[0], place.field)
                at = binary.stored_of(file.headers, slot, file.path).offset
                self._begin(partial(self._order_and_write, file, at, found, chosen, origin, values))
            else:
                for number, row in zip(numbers, self._cut(found, chosen, origin, values), strict=True):
                    self._encode(file, place, number, row)
            for number in numbers:
                self._waiting.pop((place, number), None)
                self._written.add((place, number))

    def _cut(self, found: Covered, chosen: Sequence[int], origin: Shape, values: Block) -> Block:
        """Return blocks as they are stored, in memory that the next call from the same thread uses again."""
        if not hasattr(self._own, "rows"):
            self._own.rows = np.empty((self._most, self._files.blocks.samples), self._dtype)
        out: Block = self._own.rows[: len(chosen)]
        self._order.cut(found, chosen, origin, values, out)
        return out

    def _order_and_write(
        self,
        file: binary.BinaryFile,
        at: int,
        found: Covered,
        chosen: Sequence[int],
        origin: Shape,
        values: Block,
    ) -> None:
        file.write(at, self._cut(found, chosen, origin, values).data.cast("B"))

    def _file(self, time: int, first: int) -> binary.BinaryFile:
        """Return an open file; for it another may have to be closed, which must not be in use."""
        if self._open.closes_another(time, first):
            self._settle()
        return self._open.of(time, first)

    def _begin(self, write: Callable[[], None]) -> None:
        """Have a thread write what nothing else writes, once no more wait than are of use."""
        if len(self._pending) > self._count:
            self._pending.popleft().result()
        self._pending.append(self._threads.submit(write))

    def _settle(self) -> None:
        """Wait until everything is written that threads were to write."""
        while self._pending:
            self._pending.popleft().result()

    def _neighbours(self, found: Covered) -> Iterator[tuple[int, list[int]]]:
        """Yield the first block of a file, and which whole blocks lie beside each other in it."""
        chosen = np.flatnonzero(found.whole)
        if not len(chosen):
            return
        numbers = found.numbers[chosen]
        positions = np.searchsorted(self._files.present, numbers)
        firsts = numbers - numbers % self._files.blocks_per_file
        cuts = np.flatnonzero((np.diff(positions) != 1) | (np.diff(firsts) != 0)) + 1
        for run in np.split(chosen, cuts):
            first = self._files.first_of_file(int(found.numbers[run[0]]))
            for start in range(0, len(run), self._most):
                yield first, run[start : start + self._most].tolist()

    def _write_part(self, place: Place, level: int, block: int, origin: Shape, values: Block) -> None:
        """Keep what a box has of a block, and write the block where nothing is missing any more."""
        lattice = self._files.blocks.lattice(block)
        inside = lattice.within(origin, values.shape)
        assert inside is not None
        key = (place, block)
        if key not in self._waiting:
            self._waiting[key] = self._begun(key, level)
        waiting = self._waiting[key]
        part = values[lattice.indices(inside, origin, (1,) * len(origin))]
        waiting.grid[inside] = part
        waiting.left -= part.size
        if waiting.left <= 0:
            self._write_waiting(key)
        elif len(self._waiting) * self._files.block_bytes > WAITING_BYTES:
            self._write_all_waiting()

    def _begun(self, key: tuple[Place, int], level: int) -> Waiting:
        """Return a block as it is stored, or of zeros where it was never written."""
        place, block = key
        shape = self._files.shape
        there = self._files.blocks.lattice(block).within((0,) * len(shape), shape)
        assert there is not None
        left = int(np.prod([part.stop - part.start for part in there]))
        if self._alone and key not in self._written:
            return Waiting(np.zeros(self._files.blocks.counts(level), self._dtype), left)
        file = self._file(place.time, self._files.first_of_file(block))
        self._settle()
        stored = binary.stored_of(file.headers, self._files.slot(block, place.field), file.path)
        content = file.read(stored.offset, stored.size)
        content = codecs.decoded(stored.codec, content, self._files.block_bytes, file.path)
        samples: Block = np.frombuffer(content, self._dtype)
        return Waiting(self._order.grid(level, samples, stored.row_major).copy(), left)

    def _write_waiting(self, key: tuple[Place, int]) -> None:
        place, block = key
        grid = self._waiting.pop(key).grid
        file = self._file(place.time, self._files.first_of_file(block))
        self._encode(file, place, block, self._order.stored(self._files.blocks.level_of(block), grid))
        self._written.add(key)

    def _encode(self, file: binary.BinaryFile, place: Place, block: int, samples: Block) -> None:
        content = codecs.encoded(self._files.codec, samples.data.cast("B"))
        slot = self._files.slot(block, place.field)
        if self._files.codec == "raw":
            file.write(binary.stored_of(file.headers, slot, file.path).offset, content)
        else:
            file.store(slot, content, self._flags)

    def _write_all_waiting(self) -> None:
        for key in sorted(self._waiting, key=lambda key: (key[0].time, key[0].field, key[1])):
            self._write_waiting(key)

    def flush(self) -> None:
        """Write all boxes and blocks that wait, and the headers."""
        self._joining.flush()
        self._write_all_waiting()
        self._settle()
        self._open.flush()

    def close(self) -> None:
        """Write what waits, and close all files."""
        try:
            self.flush()
        finally:
            self._threads.shutdown()
            self._open.close()
