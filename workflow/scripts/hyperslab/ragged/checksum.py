"""The checksum of HDF5's metadata."""

from __future__ import annotations

import struct

# Where it stands: behind what it is of.
CHECKSUM = struct.Struct("<I")
MASK = 0xFFFFFFFF


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
