"""Arithmetic of an IDX dataset: which blocks its files hold, where they lie, and the bytes of all that."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hyperslab.layouts.idx_codecs import CODECS
from hyperslab.layouts.idx_order import Bitmask, Blocks, Integers

# The header of a binary file, and that of each block in it: ten integers of 32 bits, big-endian.
HEADER_WORDS = 10
HEADER_BYTES = 4 * HEADER_WORDS
# The first block of a file begins on a block of the file system, as PIDX has it.
ALIGNMENT = 4096
# The text that describes the dataset, but for its fields, and one of these.
DESCRIPTION_BYTES, FIELD_BYTES = 2**14, 2**8
# What a folder takes, and a file may waste at its end.
FILE_SYSTEM_BLOCK = 4096
# The name of the dataset within its directory.
NAME = "array"
DESCRIPTION = f"{NAME}.idx"
TIME_TEMPLATE = "time%09d/"
# As long as not all of it has been written, the description has another name, if it is there at all.
UNFINISHED = "unfinished.idx"
# Of a file all blocks' headers are read at once.
MOST_BLOCKS_PER_FILE = 2**20
# Bits of a block's number that one file name holds, and each further directory.
NAME_BITS, DIRECTORY_BITS = 16, 8


@dataclass(frozen=True)
class Place:
    """One field of one time step, counted from 0."""

    time: int
    field: int


class IdxFiles:
    """The files of an array that is stored by a layout; `axes` and `shape` are those of the array."""

    def __init__(
        self, layout: Mapping[str, Any], axes: Sequence[str], shape: Sequence[int], itemsize: int
    ) -> None:
        order: list[str] = layout["order"]
        extents = [shape[axes.index(name)] for name in order]
        # Before the axes of the dataset come those of time steps and of fields.
        self.has_times, self.has_fields = "times" in layout, "fields" in layout
        leading = self.has_times + self.has_fields
        self.times = extents[0] if self.has_times else 1
        self.fields = extents[leading - 1] if self.has_fields else 1
        self.leading = leading
        self.shape = tuple(extents[leading:])
        self.bitmask = Bitmask(layout["bitmask"], len(self.shape))
        self.blocks = Blocks(self.bitmask, layout["bits_per_block"])
        self.blocks_per_file: int = layout["blocks_per_file"]
        self.codec: str = layout["codec"]
        self.row_major: bool = layout["within_block"] == "row-major"
        self.itemsize = itemsize
        self.by_openvisus: bool = layout["settings"]["library"] == "openvisus"

    @property
    def block_bytes(self) -> int:
        """Bytes of a block before its codec."""
        return self.blocks.samples * self.itemsize

    @property
    def header_bytes(self) -> int:
        """Bytes of the header of a binary file: its own, and that of every block of every field."""
        return HEADER_BYTES * (1 + self.blocks_per_file * self.fields)

    @property
    def data_start(self) -> int:
        """Where the first block of a binary file begins; OpenVisus leaves nothing before it."""
        if self.by_openvisus:
            return self.header_bytes
        return -(-self.header_bytes // ALIGNMENT) * ALIGNMENT

    def places(self) -> Iterator[Place]:
        """Yield every field of every time step."""
        for time in range(self.times):
            for field in range(self.fields):
                yield Place(time, field)

    # Blocks

    def block_count(self) -> int:
        """Return how many blocks of one field hold samples of the array, without listing them."""
        return self.blocks.count_touched((0,) * len(self.shape), self.shape)

    def levels(self) -> range:
        """Return the levels whose blocks hold all samples; the first stands for block 0."""
        return self.blocks.levels(self.bitmask.bits)

    @cached_property
    def present(self) -> Integers:
        """The numbers of the blocks that hold samples of the array, ascending; others are not stored."""
        return self.blocks.touched((0,) * len(self.shape), self.shape)

    @cached_property
    def files(self) -> Integers:
        """The first block of each binary file of a time step, ascending."""
        return np.unique(self.present // self.blocks_per_file) * self.blocks_per_file

    def first_of_file(self, block: int) -> int:
        """Return the first block of the file in which a block lies."""
        return block - block % self.blocks_per_file

    def in_file(self, first: int) -> Integers:
        """Return the blocks that the file beginning with `first` holds, of every field, in order."""
        ends = np.searchsorted(self.present, [first, first + self.blocks_per_file])
        return self.present[ends[0] : ends[1]]

    def offsets(self, first: int, field: int) -> Integers:
        """Return where the blocks of `in_file` begin in a file without codec: field after field."""
        held = len(self.in_file(first))
        return self.data_start + (field * held + np.arange(held, dtype=np.int64)) * self.block_bytes

    def slot(self, block: int, field: int) -> int:
        """Return the number of a block's header in its file."""
        return field * self.blocks_per_file + block % self.blocks_per_file

    def file_bytes(self, first: int) -> int:
        """Return the bytes of a binary file without codec."""
        return self.data_start + self.fields * len(self.in_file(first)) * self.block_bytes

    # Names

    @property
    def template(self) -> str:
        """The names of binary files as the description has them, with directories of 256 where needed."""
        bits, directories = self.bitmask.bits - self.blocks.bits, 0
        while bits - DIRECTORY_BITS * directories > NAME_BITS:
            directories += 1
        return f"./{NAME}" + "/%02x" * directories + "/%04x.bin"

    # Sums

    def padding_bytes(self) -> int:
        """Return the bytes of stored samples that lie outside the array, before codecs."""
        stored = self.block_count() * self.blocks.samples - math.prod(self.shape)
        return self.times * self.fields * stored * self.itemsize

    def largest_files(self) -> int:
        """Return an upper bound of the number of files and folders, the description among them."""
        files = min(self.block_count(), -(-self.blocks.count // self.blocks_per_file))
        # A folder is there for so many block numbers, however few files they are in.
        folders: int = self.template.count("/") * min(files, -(-self.blocks.count // 2**NAME_BITS))
        return 3 + self.times * (files + folders)

    def largest_bytes(self) -> int:
        """Return an upper bound of the bytes of all files, blocks that end half empty included.

        With a codec a block that was stored in part is stored again, longer, behind the others: of writes in
        up to three parts a block this is a bound, of others an estimate.
        """
        codec = CODECS[self.codec]
        block = math.ceil(self.block_bytes * (1 + codec.share)) + codec.extra
        block *= 1 if self.codec == "raw" else 2
        blocks = self.times * self.fields * self.block_count() * block
        files = min(self.block_count(), -(-self.blocks.count // self.blocks_per_file))
        headers = self.times * files * self.data_start
        described = DESCRIPTION_BYTES + self.fields * FIELD_BYTES
        return blocks + headers + described + self.largest_files() * FILE_SYSTEM_BLOCK


def name_of(template: str, time_template: str, time: int, block: int) -> str:
    """Return the name of the file whose first block is `block`, as OpenVisus makes it of the templates.

    From right to left each %0Nx takes the next low bits of the number, four a digit; the last one is used
    again while bits are left. A time step's part stands before the first of them.
    """
    head, *parts = template.split("%0")
    found = ""
    for part in reversed(parts):
        digits = int(part[0])
        found = f"{block & (1 << 4 * digits) - 1:0{digits}x}{part[2:]}{found}"
        block >>= 4 * digits
    while parts and block:
        digits = int(parts[0][0])
        found = f"{block & (1 << 4 * digits) - 1:0{digits}x}/{found}"
        block >>= 4 * digits
    return head + (time_template % time if time_template else "") + found
