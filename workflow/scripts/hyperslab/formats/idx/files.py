"""Binary files of an IDX dataset: headers of blocks, and the blocks' bytes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.layouts.idx_codecs import BY_FLAG, CODEC_MASK, CODECS, ROW_MAJOR
from hyperslab.layouts.idx_files import HEADER_BYTES, HEADER_WORDS, IdxFiles

# Words of a block's header.
LOW, HIGH, SIZE, FLAGS = 2, 3, 4, 5
MODE = 0o666
# One call reads or writes at most so many bytes of neighbouring blocks.
RUN_BYTES = 4 * 2**20
# More files than these are not kept open.
OPEN_FILES = 256
Headers = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Stored:
    """Where a block lies in its file, its bytes there (0: it is not stored), and how they are to be read."""

    offset: int
    size: int
    codec: str
    row_major: bool


def new_headers(slots: int) -> Headers:
    """Return the headers of a file in which no block is stored."""
    return np.zeros((slots, HEADER_WORDS), np.uint32)


def fill_headers(headers: Headers, slots: npt.NDArray[Any], offsets: npt.NDArray[Any], size: int) -> None:
    """Put blocks of `size` bytes at `offsets` into headers, without their flags."""
    headers[slots, LOW] = offsets & 0xFFFFFFFF
    headers[slots, HIGH] = offsets >> 32
    headers[slots, SIZE] = size


def flags(codec: str, row_major: bool) -> int:
    """Return the flags of a block."""
    return CODECS[codec].flag | (ROW_MAJOR if row_major else 0)


def header_content(headers: Headers) -> bytes:
    """Return what a file begins with: a header of its own, of zeros, and that of each block."""
    return bytes(HEADER_BYTES) + headers.astype(">u4").tobytes()


def read_headers(file: str, slots: int) -> Headers | None:
    """Return the headers of a file; None where there is none. Raises OSError where it is cut short."""
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        return _headers_of(descriptor, file, slots)
    finally:
        os.close(descriptor)


def _headers_of(descriptor: int, file: str, slots: int) -> Headers:
    content = _read(descriptor, HEADER_BYTES * (1 + slots), 0, file)
    return np.frombuffer(content, ">u4").reshape(-1, HEADER_WORDS)[1:].astype(np.uint32)


def _read(descriptor: int, size: int, offset: int, file: str, known: int = 0) -> memoryview:
    """Return bytes of a file that has `known` ones at least; raises OSError where it ends before."""
    # A damaged header may ask for more than there is memory.
    if offset + size > known and offset + size > (there := os.fstat(descriptor).st_size):
        raise OSError(f"{file}: ends at {there:,} bytes, and {offset + size:,} are needed")
    found = bytearray(size)
    view, at = memoryview(found), offset
    while view:
        count = os.preadv(descriptor, [view], at)
        if count == 0:
            raise OSError(f"{file}: ends at {at:,} bytes, and {offset + size:,} are needed")
        view, at = view[count:], at + count
    return memoryview(found)


def stored_of(headers: Headers, slot: int, file: str) -> Stored:
    """Return what a header says of a block; raises OSError for a codec that cannot be read."""
    low, high, size, flag = (int(headers[slot, word]) for word in (LOW, HIGH, SIZE, FLAGS))
    offset = high << 32 | low
    if not offset or not size:
        return Stored(0, 0, "raw", False)
    if flag & CODEC_MASK not in BY_FLAG:
        known = ", ".join(f"{number} ({name})" for number, name in BY_FLAG.items())
        raise OSError(f"{file}: block {slot} has codec {flag & CODEC_MASK}; {known} can be read")
    return Stored(offset, size, BY_FLAG[flag & CODEC_MASK], bool(flag & ROW_MAJOR))


def runs(blocks: Sequence[Stored]) -> Iterator[tuple[int, int]]:
    """Yield (first, last) of neighbours in a list of blocks, which one call reads; last is not included.

    Blocks that are not stored belong to no run.
    """
    first = 0
    while first < len(blocks):
        if not blocks[first].size:
            first += 1
            continue
        last, size = first + 1, blocks[first].size
        while (
            last < len(blocks)
            and blocks[last].size
            and blocks[last].offset == blocks[last - 1].offset + blocks[last - 1].size
            and size + blocks[last].size <= RUN_BYTES
        ):
            size += blocks[last].size
            last += 1
        yield first, last
        first = last


@dataclass
class BinaryFile:
    """One binary file: its descriptor, None where there is no such file, and the headers of its blocks."""

    path: str
    descriptor: int | None
    headers: Headers
    # Where the next block that has no place goes, and whether headers are not yet in the file.
    end: int = 0
    changed: bool = field(default=False)

    @property
    def absent(self) -> bool:
        """Whether there is no such file: none of its blocks is stored, and it has no headers."""
        return self.end < 0

    def read(self, offset: int, size: int) -> memoryview:
        """Return bytes; raises OSError where the file is cut short."""
        assert self.descriptor is not None
        return _read(self.descriptor, size, offset, self.path, self.end)

    def write(self, offset: int, content: memoryview) -> None:
        """Write bytes at their place."""
        assert self.descriptor is not None
        while content:
            count = os.pwrite(self.descriptor, content, offset)
            content, offset = content[count:], offset + count

    def store(self, slot: int, content: memoryview, flag: int) -> None:
        """Write a block: where it lay if it fits there, else at the end; its header waits for `flush`."""
        size, old = len(content), stored_of(self.headers, slot, self.path)
        offset = old.offset if 0 < size <= old.size else self.end
        if offset == self.end:
            self.end += size
        self.write(offset, content)
        fill_headers(self.headers, np.asarray([slot]), np.asarray([offset], np.int64), size)
        self.headers[slot, FLAGS] = flag
        self.changed = True

    def flush(self) -> None:
        """Write the headers, if blocks have got other places."""
        if self.changed:
            self.write(0, memoryview(header_content(self.headers)))
            self.changed = False

    def close(self) -> None:
        """Close the file."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


class OpenFiles:
    """The binary files of a dataset that are open, by time step and first block; few of many are kept so."""

    def __init__(self, path_of: Callable[[int, int], str], slots: int, mode: int) -> None:
        self._path_of, self._slots, self._mode = path_of, slots, mode
        self._files: dict[tuple[int, int], BinaryFile] = {}
        self._open: dict[tuple[int, int], None] = {}
        # How often each was opened.
        self.opened: Counter[tuple[int, int]] = Counter()

    def closes_another(self, time: int, first: int) -> bool:
        """Return whether opening a file has the oldest one closed; not where it is open already."""
        return (time, first) not in self._open and len(self._open) >= OPEN_FILES

    def of(self, time: int, first: int) -> BinaryFile:
        """Return an open file with its headers; raises OSError where it is cut short."""
        key = (time, first)
        known = self._files.get(key)
        if known is not None and (key in self._open or known.absent):
            return known
        path = self._path_of(time, first)
        try:
            descriptor = os.open(path, self._mode)
        except FileNotFoundError:
            self._files[key] = BinaryFile(path, None, new_headers(0), -1)
            return self._files[key]
        self.opened[key] += 1
        while len(self._open) >= OPEN_FILES:
            oldest = next(iter(self._open))
            del self._open[oldest]
            self._files[oldest].flush()
            self._files[oldest].close()
        if known is None:
            try:
                headers = _headers_of(descriptor, path, self._slots)
            except BaseException:
                os.close(descriptor)
                raise
            known = BinaryFile(path, descriptor, headers, os.fstat(descriptor).st_size)
            self._files[key] = known
        known.descriptor = descriptor
        self._open[key] = None
        return known

    def flush(self) -> None:
        """Write all headers that have changed."""
        for key in [key for key, file in self._files.items() if file.changed]:
            self.of(*key).flush()

    def close(self) -> None:
        """Close all files."""
        for key in self._open:
            self._files[key].close()
        self._open.clear()


def create(path: str, headers: Headers, size: int) -> None:
    """Make one binary file of `size` bytes with its headers."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, MODE)
    try:
        os.pwrite(descriptor, header_content(headers), 0)
        os.ftruncate(descriptor, size)
    finally:
        os.close(descriptor)


def planned_headers(files: IdxFiles, first: int) -> Headers:
    """Return the headers of a file whose blocks have their places already: those of no codec."""
    headers = new_headers(files.blocks_per_file * files.fields)
    if files.codec == "raw":
        inside = files.in_file(first) % files.blocks_per_file
        for number in range(files.fields):
            slots = number * files.blocks_per_file + inside
            fill_headers(headers, slots, files.offsets(first, number), files.block_bytes)
            headers[slots, FLAGS] = flags(files.codec, files.row_major)
    return headers
