"""The codecs that a Zarr layout may name: one row of CODECS each says what it takes and what it adds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hyperslab.layouts.parameters import Parameter, in_short

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Kind:
    """One codec that turns the bytes of a chunk into others.

    parameters: by name; a single value in a study means the first.
    share, extra: the largest growth of a chunk, as share of its bytes and in bytes.
    """

    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    share: float = 0.0
    extra: int = 0


# Those that version 3 of the Zarr specification describes, with zarr-python's defaults (which chooses the
# shuffle of blosc by the type). Growth: deflate's stored blocks in a file's frame, ZSTD_COMPRESSBOUND,
# BLOSC_MAX_OVERHEAD.
CODECS: dict[str, Kind] = {
    "gzip": Kind({"level": Parameter(0, 9, default=5)}, share=0.001, extra=64),
    "zstd": Kind({"level": Parameter(-131072, 22, default=0)}, share=0.004, extra=128),
    "blosc": Kind(
        {
            "codec": Parameter(words=("zstd", "lz4", "lz4hc", "blosclz", "snappy", "zlib"), default="zstd"),
            "level": Parameter(0, 9, default=5),
            "shuffle": Parameter(words=("byte", "bit", "none"), default="byte"),
        },
        extra=16,
    ),
    "crc32c": Kind(extra=4),
}


def options_in_force(codec: Options) -> dict[str, Any]:
    """Return a codec as specified, with the defaults of the parameters that were not given."""
    parameters = CODECS[codec["name"]].parameters
    return {**{name: parameter.default for name, parameter in parameters.items()}, **codec}


def largest_chunk_bytes(codecs: Sequence[Options], chunk_bytes: int) -> int:
    """Return an upper bound of one stored chunk: nothing that codecs may add to it is left out."""
    for codec in codecs:
        kind = CODECS[codec["name"]]
        chunk_bytes = math.ceil(chunk_bytes * (1 + kind.share)) + kind.extra
    return chunk_bytes


def text(codec: Options) -> str:
    """Return a codec in short: "zstd 3", "blosc lz4 shuffle bit"."""
    return in_short(codec, CODECS)
