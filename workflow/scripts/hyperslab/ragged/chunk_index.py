"""A chunk index that a kill tore: find the blocks whose checksum is wrong, and make them whole again.

The chunks of a dataset that grows along one axis are found through an extensible array (HDF5 File Format
Specification, "The Extensible Array Index"). HDF5 writes each of its blocks at once, and the kernel copies
that page by page, so that a kill may leave the first pages new and the others old. Each element of a block is
then the new one or the old one, and either leads to bytes that are there. Only the checksum is wrong, and
an element that lies across a page's end.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

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
    """An extensible array, as its header has it."""

    element_bytes: int
    bits: int
    in_index: int
    least: int
    pointers: int
    page_bits: int
    index_block: int


def mended(path: str | Path) -> list[tuple[int, bytes]]:
    """Make the torn blocks of all chunk indexes in a file whole; returns what they were, as (place, bytes).

    An element across the end of a page that leads beyond the file was half written. It leads nowhere from
    then on: it was new, and nothing that was flushed lay there.
    """
    with Path(path).open("r+b") as file, mmap.mmap(file.fileno(), 0) as content:
        torn = [
            block
            for array in _arrays(content)
            for block in _blocks(content, array)
            if not _whole(content, block)
        ]
        before = [(block.start, content[block.start : block.end + CHECKSUM.size]) for block in torn]
        for block in torn:
            _mend(content, block)
        content.flush()
    return before


def _arrays(content: mmap.mmap) -> Iterator[Array]:
    """Find the headers of extensible arrays by their signature and checksum, wherever they lie."""
    place = content.find(b"EAHD")
    while place >= 0:
        end = place + HEADER.size
        if end + CHECKSUM.size <= len(content) and _sum(content, end) == lookup3(content[place:end]):
            _, _, _, size, bits, in_index, least, pointers, page_bits, *_, block = HEADER.unpack_from(
                content, place
            )
            yield Array(size, bits, in_index, least, pointers, page_bits, block)
        place = content.find(b"EAHD", place + 1)


def _blocks(content: mmap.mmap, array: Array) -> Iterator[Block]:
    """Yield the blocks of an array that are there: index block, super blocks, data blocks, pages."""
    if array.index_block == NOWHERE:
        return
    # The index block leads to the data blocks of the first super blocks itself.
    first = 2 * (array.pointers.bit_length() - 1)
    direct = 2 * (array.pointers - 1)
    supers = 1 + array.bits - (array.least.bit_length() - 1) - first
    first_chunks = Run(array.index_block + PREFIX, array.in_index, array.element_bytes)
    places = Run(first_chunks.end, direct + supers, ADDRESS.size)
    yield Block(array.index_block, (first_chunks, places))
    sizes = [_elements(array, number) for number in range(first) for _ in range(_data_blocks(number))]
    addresses = _addresses(content, places)
    for address, elements in zip(addresses[:direct], sizes, strict=True):
        yield from _data_block(content, array, address, elements, "")
    for number, address in enumerate(addresses[direct:], first):
        yield from _super_block(content, array, address, number)


def _super_block(content: mmap.mmap, array: Array, address: int, number: int) -> Iterator[Block]:
    """Yield a super block and its data blocks."""
    if address == NOWHERE:
        return
    blocks, elements = _data_blocks(number), _elements(array, number)
    pages = elements >> array.page_bits
    start = address + PREFIX + _offset_bytes(array)
    # A bit for each page that was ever written, where blocks have pages; those of all blocks in a row.
    bitmap = blocks * -(-pages // 8) if pages > 1 else 0
    places = Run(start + bitmap, blocks, ADDRESS.size)
    yield Block(address, (places,))
    bits = "".join(f"{byte:08b}" for byte in content[start : start + bitmap])
    for block, place in enumerate(_addresses(content, places)):
        yield from _data_block(content, array, place, elements, bits[block * pages : (block + 1) * pages])


def _data_block(
    content: mmap.mmap, array: Array, address: int, elements: int, written: str
) -> Iterator[Block]:
    """Yield a data block: itself, or what comes before its pages and those that were written."""
    if address == NOWHERE:
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


def _addresses(content: mmap.mmap, places: Run) -> list[int]:
    return [address for (address,) in ADDRESS.iter_unpack(content[places.start : places.end])]


def _sum(content: mmap.mmap, place: int) -> int:
    (found,) = CHECKSUM.unpack_from(content, place)
    return int(found)


def _whole(content: mmap.mmap, block: Block) -> bool:
    return lookup3(content[block.start : block.end]) == _sum(content, block.end)


def _mend(content: mmap.mmap, block: Block) -> None:
    """Give a torn block its checksum, without elements that were half written."""
    for run in block.runs:
        for edge in range(-(-run.start // PAGE) * PAGE, run.end, PAGE):
            size = run.element_bytes
            place = edge - (edge - run.start) % size
            (address,) = ADDRESS.unpack_from(content, place)
            if len(content) <= address < NOWHERE:
                content[place : place + size] = ADDRESS.pack(NOWHERE) + bytes(size - ADDRESS.size)
    CHECKSUM.pack_into(content, block.end, lookup3(content[block.start : block.end]))
