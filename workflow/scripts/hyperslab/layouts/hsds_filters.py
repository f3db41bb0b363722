"""The filters that HSDS 1.0.2 applies as a client asks for them, and why others are refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hyperslab.layouts.parameters import Parameter


@dataclass(frozen=True)
class Kind:
    """One filter: its parameters by name, whether it compresses, and the bytes it may add to a chunk."""

    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    compresses: bool = True
    extra: int = 0


def _level(default: int) -> dict[str, Parameter]:
    return {"level": Parameter(0, 9, default=default)}


# The server compresses through Blosc, which adds a header and stores what does not become smaller as it is
# (BLOSC_MAX_OVERHEAD). Levels: that of h5pyd for gzip, the server's own for the others.
BLOSC_EXTRA = 16
FILTERS: dict[str, Kind] = {
    "gzip": Kind(_level(4), extra=BLOSC_EXTRA),
    "lz4": Kind(_level(5), extra=BLOSC_EXTRA),
    "lz4hc": Kind(_level(5), extra=BLOSC_EXTRA),
    "blosclz": Kind(_level(5), extra=BLOSC_EXTRA),
    "fletcher32": Kind(compresses=False, extra=4),
}
_NO_EFFECT = "HSDS 1.0.2 accepts it from a client and stores chunks as if it were not there"
_REFUSED = "HSDS 1.0.2 refuses it"
REFUSED = {
    "shuffle": _NO_EFFECT,
    "scaleoffset": _NO_EFFECT,
    "zstd": "h5pyd 1.0.0 cannot ask for it; HSDS has it in its REST interface alone",
    "bitshuffle": "h5pyd 1.0.0 cannot ask for it; HSDS has it in its REST interface alone",
    "szip": _REFUSED,
    "lzf": _REFUSED,
}
