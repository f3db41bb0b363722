"""Encoding and decoding the bytes of IDX blocks."""

from __future__ import annotations

import zlib
from typing import Any

from hyperslab.formats import Unavailable

# numcodecs puts the length before a block of LZ4, as four bytes; IDX has the block alone.
LENGTH_BYTES = 4


def prepare(codec: str) -> None:
    """Load what a codec needs; raises Unavailable where it is not installed."""
    if codec == "lz4":
        _lz4()


def _lz4() -> Any:
    try:
        from numcodecs import LZ4
    except ImportError:
        raise Unavailable("the package numcodecs, which has LZ4, is not installed here") from None
    return LZ4()


def encoded(codec: str, content: memoryview) -> memoryview:
    """Return the bytes of a block as they are stored."""
    match codec:
        case "zip":
            return memoryview(zlib.compress(content))
        case "lz4":
            return memoryview(_lz4().encode(content))[LENGTH_BYTES:]
        case _:
            return content


def decoded(codec: str, content: memoryview, size: int, file: str) -> memoryview:
    """Return the bytes of a block of a file, which are `size`; raises OSError where they are not."""
    try:
        match codec:
            case "zip":
                # A byte more than is right tells damage, whatever else would come out of it.
                unpacking = zlib.decompressobj()
                found = memoryview(unpacking.decompress(content, size + 1))
                if not unpacking.eof:
                    raise zlib.error("it does not end where it should")
            case "lz4":
                found = memoryview(_lz4().decode(size.to_bytes(LENGTH_BYTES, "little") + content.tobytes()))
            case _:
                found = content
    except (zlib.error, RuntimeError, ValueError, OverflowError) as error:
        raise OSError(f"{file}: a block of codec {codec} is damaged: {error}") from None
    if len(found) != size:
        raise OSError(f"{file}: a block of codec {codec} holds {len(found)} bytes instead of {size}")
    return found
