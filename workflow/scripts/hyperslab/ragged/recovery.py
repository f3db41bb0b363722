"""A file whose writer was killed: clear the mark that HDF5 left in it, so that it opens as before.

HDF5 marks a file as open for writing in its superblock (versions 3 and on, which libver v110 and later
write), and whoever finds the mark refuses the file. `h5clear -s --increment` of HDF5's tools does the same.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

import h5py

from .convention import RaggedError

SIGNATURE = b"\x89HDF\r\n\x1a\n"
# Signature, version, sizes of offsets and lengths, flags, base address, extension, end of file, root group;
# then the checksum (HDF5 File Format Specification, "Version 2 and 3 Superblock").
SUPERBLOCK = struct.Struct("<8s4B4Q")
CHECKSUM = struct.Struct("<I")
# Beyond what was allocated when the writer was killed, as h5clear does.
ROOM = 2**20


def recover(path: str | Path) -> bool:
    """Make a file whose writer was killed one that opens; returns whether anything had to be done.

    Nothing else may have it open. Raises RaggedError for a file whose superblock cannot carry the mark or
    does not add up, and for one in which the kill tore a block of an index that is longer than a page, which
    HDF5 would try to read for ever; its mark then stays.
    """
    with Path(path).open("r+b") as file:
        found = file.read(SUPERBLOCK.size + CHECKSUM.size)
        if found[: len(SIGNATURE)] != SIGNATURE:
            raise RaggedError(f"{path} is no HDF5 file, or has something before its first byte")
        fields = SUPERBLOCK.unpack_from(found)
        version, offsets, lengths, flags = fields[1:5]
        if version < 3:
            raise RaggedError(f"{path} was not written with libver v110 or later, and cannot be recovered")
        (checksum,) = CHECKSUM.unpack_from(found, SUPERBLOCK.size)
        if (offsets, lengths) != (8, 8) or checksum != lookup3(found[: SUPERBLOCK.size]):
            raise RaggedError(f"{path} has a superblock that does not add up; it is damaged")
        if not flags:
            return False
        *before, _, root = fields[5:]
        # Space that the writer took after it last wrote the superblock is not given away once more.
        size = os.fstat(file.fileno()).st_size
        end = max(fields[7], size) + ROOM
        block = SUPERBLOCK.pack(*fields[:4], 0, *before, end, root)
        file.truncate(end)
        file.seek(0)
        file.write(block + CHECKSUM.pack(lookup3(block)))
        file.flush()
        os.fsync(file.fileno())
        if torn := _torn(path):
            file.seek(0)
            file.write(found)
            file.truncate(size)
            raise RaggedError(
                f"{path}: the kill tore the index of {torn}; copy the file and run h5clear -s on the copy to "
                "read the rows before that place"
            )
    return True


def _torn(path: str | Path) -> str:
    """Return the name of a dataset whose chunk index HDF5 cannot read, or an empty one."""
    torn: list[str] = []

    def look(name: str, found: object) -> None:
        if isinstance(found, h5py.Dataset) and found.chunks:
            try:
                found.id.get_num_chunks()
            except RuntimeError:
                torn.append(name)

    with h5py.File(path, "r") as file:
        file.visititems(look)
    return torn[0] if torn else ""


def lookup3(data: bytes) -> int:
    """Return Bob Jenkins' hash `hashlittle` (lookup3.c, 2006) with which HDF5 checks its metadata."""
    a = b = c = (0xDEADBEEF + len(data)) & MASK
    position = 0
    while len(data) - position > 12:
        x, y, z = struct.unpack_from("<3I", data, position)
        a, b, c = _mixed((a + x) & MASK, (b + y) & MASK, (c + z) & MASK)
        position += 12
    x, y, z = struct.unpack("<3I", data[position:].ljust(12, b"\0"))
    return _final((a + x) & MASK, (b + y) & MASK, (c + z) & MASK) if data else c


MASK = 0xFFFFFFFF


def _turned(value: int, by: int) -> int:
    return ((value << by) | (value >> (32 - by))) & MASK


def _mixed(a: int, b: int, c: int) -> tuple[int, int, int]:
    for by in (4, 6, 8, 16, 19, 4):
        a = ((a - c) & MASK) ^ _turned(c, by)
        c = (c + b) & MASK
        a, b, c = b, c, a
    return a, b, c


def _final(a: int, b: int, c: int) -> int:
    for by in (14, 11, 25, 16, 4, 14, 24):
        c = ((c ^ b) - _turned(b, by)) & MASK
        a, b, c = b, c, a
    # Seven turns of three leave the last result in b.
    return b
