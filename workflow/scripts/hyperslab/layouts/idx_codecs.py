"""The codecs of IDX blocks: their flags in a block's header, and what each may add to a block."""

from __future__ import annotations

from dataclasses import dataclass

# Bits of a block's flags (OpenVisus, IdxDiskAccess.cpp).
CODEC_MASK, ROW_MAJOR = 0x0F, 0x10


@dataclass(frozen=True)
class Codec:
    """How a block's samples are encoded: the flag in its header, and how far it may grow."""

    flag: int
    share: float = 0.0
    extra: int = 0


# Those that OpenVisus reads back equal. Growth: deflate's stored blocks in zlib's frame, LZ4_COMPRESSBOUND.
CODECS = {"raw": Codec(0), "zip": Codec(3, 0.001, 64), "lz4": Codec(7, 1 / 255, 16)}
BY_FLAG = {codec.flag: name for name, codec in CODECS.items()}
