"""A chunk index that a kill tore: find the blocks whose checksum is wrong, and make them whole again.

The chunks of a dataset that grows along one axis are found through an extensible array (HDF5 File Format
Specification, "The Extensible Array Index"). HDF5 writes each of its blocks at once, and the kernel copies
that page by page, so that a kill may leave the first pages new and the others old. Each element of a block is
then the new one or the old one, and either leads to bytes that are there. Only the checksum is wrong, and
an element that lies across a page's end.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from .checksum import CHECKSUM, lookup3

# Signature, version, client, six properties of the array, six counts and the address of the index block; its
# checksum follows.
HEADER = struct.Struct("<4s8B6QQ")
# Signature, version, client and address of the header; what a data block and a super block have in common.
PREFIX = 4 + 1 + 1 + 8
ADDRESS = struct.Struct("<Q")
NOWHERE = 2**64 - 1
# What the kernel copies at once, at least.
PAGE = 4096
# So much of a file is looked through at once, bytes.
WINDOW = 2**20


class Content:
    """The bytes of a file, at their places.

    They are read and not mapped: where a disk fails, or somebody makes the file shorter, that is an OSError
    or too few bytes, and no signal that ends the process.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._descriptor = file.fileno()
        self.size = os.fstat(self._descriptor).st_size

    def read(self, start: int, end: int) -> bytes:
        """Return what lies there, less where the file ends."""
        return os.pread(self._descriptor, end - start, start) if start < self.size else b""

    def write(self, place: int, content: bytes) -> None:
        """Put bytes at a place within the file."""
        os.pwrite(self._descriptor, content, place)

    def places(self, signature: bytes) -> Iterator[int]:
        """Yield where a signature begins, wherever it lies."""
        for begin in range(0, self.size, WINDOW):
            window = self.read(begin, begin + WINDOW + len(signature) - 1)
            place = window.find(signature)
            while place >= 0:
                yield begin + place
                place = window.find(signature, place + 1)


class Run(NamedTuple):
    """Elements of a block, one behind the other: where the first lies, how many, and how long each is."""

    start: int
    elements: int
    element_bytes: int

    @property
    def end(self) -> int:
        return self.start + self.elements * self.element_bytes


class Block(NamedTuple):
    """A block: where it begins, and the elements in it, behind the last of which its checksum lies."""

    start: int
    runs: tuple[Run, ...]

    @property
    def end(self) -> int:
        return self.runs[-1].end


class Array(NamedTuple):
    """An extensible array, as its header has it, which lies at the place `header`."""

    header: int
    element_bytes: int
    bits: int
    in_index: int
    least: int
    pointers: int
    page_bits: int
    index_block: int


def mended(path: str | Path) -> Iterator[tuple[int, bytes]]:
    """Make the torn blocks of all chunk indexes in a file whole; yields (place, bytes) of each, as it was,
    before it is changed.

    An element across the end of a page that leads beyond the file was half written. It leads nowhere from
    then on: it was new, and nothing that was flushed lay there.
    """
    with Path(path).open("r+b", buffering=0) as file:
        content = Content(file)
        torn = [
            block
            for array in _arrays(content)
            for block in _blocks(content, array)
            if block.end + CHECKSUM.size <= content.size and not _whole(content, block)
        ]
        for block in torn:
            yield block.start, content.read(block.start, block.end + CHECKSUM.size)
            _mend(content, block)


def _arrays(content: Content) -> Iterator[Array]:
    """Find the headers of extensible arrays by their signature and checksum, wherever they lie."""
    for place in content.places(b"EAHD"):
        found = content.read(place, place + HEADER.size + CHECKSUM.size)
        if len(found) < HEADER.size + CHECKSUM.size:
            continue
        (checksum,) = CHECKSUM.unpack_from(found, HEADER.size)
        if checksum == lookup3(found[: HEADER.size]):
            _, _, _, size, bits, in_index, least, pointers, page_bits, *_, block = HEADER.unpack_from(found)
            yield Array(place, size, bits, in_index, least, pointers, page_bits, block)


def _blocks(content: Content, array: Array) -> Iterator[Block]:
    """Yield the blocks of an array that are there: index block, super blocks, data blocks, pages."""
    if not _begins(content, array, array.index_block, b"EAIB"):
        return
    # The index block leads to the data blocks of the first super blocks itself.
    first = 2 * (array.pointers.bit_length() - 1)
    direct = 2 * (array.pointers - 1)
    supers = 1 + array.bits - (array.least.bit_length() - 1) - first
    first_chunks = Run(array.index_block + PREFIX, array.in_index, array.element_bytes)
    places = Run(first_chunks.end, direct + supers, ADDRESS.size)
    if places.end > content.size:
        return
    yield Block(array.index_block, (first_chunks, places))
    sizes = [_elements(array, number) for number in range(first) for _ in range(_data_blocks(number))]
    addresses = _addresses(content, places)
    for address, elements in zip(addresses[:direct], sizes, strict=True):
        yield from _data_block(content, array, address, elements, "")
    for number, address in enumerate(addresses[direct:], first):
        yield from _super_block(content, array, address, number)


def _super_block(content: Content, array: Array, address: int, number: int) -> Iterator[Block]:
    """Yield a super block and its data blocks."""
    if not _begins(content, array, address, b"EASB"):
        return
    blocks, elements = _data_blocks(number), _elements(array, number)
    pages = elements >> array.page_bits
    start = address + PREFIX + _offset_bytes(array)
    # A bit for each page that was ever written, where blocks have pages; those of all blocks in a row.
    bitmap = blocks * -(-pages // 8) if pages > 1 else 0
    places = Run(start + bitmap, blocks, ADDRESS.size)
    if places.end > content.size:
        return
    yield Block(address, (places,))
    bits = "".join(f"{byte:08b}" for byte in content.read(start, start + bitmap))
    for block, place in enumerate(_addresses(content, places)):
        yield from _data_block(content, array, place, elements, bits[block * pages : (block + 1) * pages])


def _data_block(content: Content, array: Array, address: int, elements: int, written: str) -> Iterator[Block]:
    """Yield a data block: itself, or what comes before its pages and those that were written."""
    if not _begins(content, array, address, b"EADB"):
        return
    start = address + PREFIX + _offset_bytes(array)
    size = array.element_bytes
    if not written:
        yield Block(address, (Run(start, elements, size),))
        return
    yield Block(address, (Run(start, 0, size),))
    each = 1 << array.page_bits
    for bit in written:
        start += CHECKSUM.size
        if bit == "1":
            yield Block(start, (Run(start, each, size),))
        start += each * size


def _data_blocks(number: int) -> int:
    """Return how many data blocks super block `number` has."""
    return 1 << number // 2


def _elements(array: Array, number: int) -> int:
    """Return how many elements each data block of super block `number` has."""
    return array.least << (number + 1) // 2


def _offset_bytes(array: Array) -> int:
    return -(-array.bits // 8)


def _begins(content: Content, array: Array, address: int, signature: bytes) -> bool:
    """Return whether a block of an array is there: an address that was half written leads beyond the file."""
    found = content.read(address, address + PREFIX)
    # A header that nobody uses any more may lead to what is a block of another array now.
    return found.startswith(signature) and found[-ADDRESS.size :] == ADDRESS.pack(array.header)


def _addresses(content: Content, places: Run) -> list[int]:
    return [address for (address,) in ADDRESS.iter_unpack(content.read(places.start, places.end))]


def _whole(content: Content, block: Block) -> bool:
    found = content.read(block.start, block.end + CHECKSUM.size)
    return CHECKSUM.pack(lookup3(found[: -CHECKSUM.size])) == found[-CHECKSUM.size :]


def _mend(content: Content, block: Block) -> None:
    """Give a torn block its checksum, without elements that were half written."""
    for run in block.runs:
        for edge in range(-(-run.start // PAGE) * PAGE, run.end, PAGE):
            size = run.element_bytes
            place = edge - (edge - run.start) % size
            (address,) = ADDRESS.unpack(content.read(place, place + ADDRESS.size))
            if content.size <= address < NOWHERE:
                content.write(place, ADDRESS.pack(NOWHERE) + bytes(size - ADDRESS.size))
    content.write(block.end, CHECKSUM.pack(lookup3(content.read(block.start, block.end))))
