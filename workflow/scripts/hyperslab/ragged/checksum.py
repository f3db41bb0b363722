"""The checksum of HDF5's metadata."""

from __future__ import annotations

import struct

# Where it stands: behind what it is of.
CHECKSUM = struct.Struct("<I")
WORDS = struct.Struct("<3I")
MASK = 0xFFFFFFFF


def lookup3(data: bytes) -> int:
    """Return Bob Jenkins' hash `hashlittle` (lookup3.c, 2006) with which HDF5 checks its metadata."""
    a = b = c = (0xDEADBEEF + len(data)) & MASK
    if not data:
        return c
    mixed = (len(data) - 1) // WORDS.size * WORDS.size
    for x, y, z in WORDS.iter_unpack(data[:mixed]):
        a, b, c = a + x & MASK, b + y & MASK, c + z & MASK
        # Written out: the index of many chunks takes many of these steps.
        a, c = (a - c ^ (c << 4 | c >> 28)) & MASK, c + b & MASK
        b, a = (b - a ^ (a << 6 | a >> 26)) & MASK, a + c & MASK
        c, b = (c - b ^ (b << 8 | b >> 24)) & MASK, b + a & MASK
        a, c = (a - c ^ (c << 16 | c >> 16)) & MASK, c + b & MASK
        b, a = (b - a ^ (a << 19 | a >> 13)) & MASK, a + c & MASK
        c, b = (c - b ^ (b << 4 | b >> 28)) & MASK, b + a & MASK
    x, y, z = WORDS.unpack(data[mixed:].ljust(WORDS.size, b"\0"))
    return _final((a + x) & MASK, (b + y) & MASK, (c + z) & MASK)


def _final(a: int, b: int, c: int) -> int:
    for by in (14, 11, 25, 16, 4, 14, 24):
        c = ((c ^ b) - (b << by | b >> 32 - by)) & MASK
        a, b, c = b, c, a
    # Seven turns of three leave the last result in b.
    return b
