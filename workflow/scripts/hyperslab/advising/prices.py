"""What a site and a library take for each thing that a selection asks of them, and so for all of it.

The terms are explained in `model`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from hyperslab.advising.candidates import HDF5
from hyperslab.advising.requests import CACHE_BYTES

# Where the kernel does not say how far it reads ahead, Linux's default.
READ_AHEAD_BYTES = 2**17
OPENING = "opening"


@dataclass(frozen=True)
class Coded:
    """What filters make of samples: stored bytes over raw ones, seconds to decode and to encode a raw byte.

    `chunk_s` are those that a chunk takes to decode however short it is.
    """

    ratio: float
    decode_s: float
    encode_s: float = 0.0
    chunk_s: float = 0.0


@dataclass(frozen=True)
class Storage:
    """What a site's storage and library take: the prices of the prediction, as probed.

    latency_s: until a read that somebody waits for begins to arrive. waited_s and ahead_s: a byte of it, and
    one read ahead. cached_s: a byte copied from the page cache. lookup_s: one chunk looked up and copied.
    read_s: one read of the library beside these, from the page cache. run_s: one run copied out of a buffer.
    open_s: to open file and dataset. zarr_chunk_s and zarr_open_s: the same through zarr-python, None where
    it was not asked for. file_s and evict_s: one of many small files written, synced and removed, and dropped
    from the page cache; None where there are none, since nobody asked for Zarr. write_s: a byte written and
    synced; None where nothing can be written. bytes_per_s: what the site is throttled to, None where it is
    not. chunk_cache_bytes are the library's; large_folios: whether the kernel keeps files of the site in
    large folios, which is part of how it reads ahead.
    """

    latency_s: float
    waited_s: float
    ahead_s: float
    cached_s: float
    lookup_s: float
    open_s: float
    read_ahead_bytes: int
    read_s: float = 1e-6
    run_s: float = 2e-8
    zarr_chunk_s: float | None = None
    zarr_open_s: float | None = None
    file_s: float | None = None
    evict_s: float | None = None
    write_s: float | None = None
    bytes_per_s: float | None = None
    chunk_cache_bytes: int = CACHE_BYTES
    large_folios: bool = True

    @property
    def to_device_s(self) -> float:
        """What a byte takes until it is on the device; nothing where nothing can be written."""
        return self.write_s or 0.0

    def warm(self) -> Storage:
        """Return the same site where everything lies in the page cache and the file is open."""
        return replace(
            self, latency_s=0.0, waited_s=0.0, ahead_s=0.0, open_s=0.0, bytes_per_s=None,
            zarr_open_s=None if self.zarr_open_s is None else 0.0,
        )  # fmt: skip

    def through(self, format: str) -> Storage:
        """Return the same site as the library of a format uses it; of Zarr every chunk is a file."""
        if format == HDF5:
            return self
        return replace(self, lookup_s=self.zarr_chunk_s or 0.0, open_s=self.zarr_open_s or 0.0, run_s=0.0)


@dataclass(frozen=True)
class Counts:
    """What one selection asks for, or many of them on average: numbers, or arrays of them.

    `misses`, `waited_bytes` and `ahead_bytes` are the device's, `requested_bytes` those asked of the kernel,
    `reads` the requests that are neither whole chunks nor their index, `chunks` those looked up, `runs` those
    copied out of a buffer, `decoded_bytes` raw ones, of `decoded_chunks`.
    """

    misses: Any
    waited_bytes: Any
    ahead_bytes: Any
    requested_bytes: Any
    reads: Any = 0
    chunks: Any = 0
    runs: Any = 0
    decoded_bytes: Any = 0
    decoded_chunks: Any = 0

    def times(self, factor: float) -> Counts:
        """Return all of them multiplied."""
        return Counts(*(factor * getattr(self, one.name) for one in fields(self)))


def terms(counts: Counts, storage: Storage, code: Coded) -> dict[str, Any]:
    """Return the seconds of each term; their sum is what the selection takes."""
    device = {
        "waits": storage.latency_s * counts.misses,
        "waited": storage.waited_s * counts.waited_bytes,
        "ahead": storage.ahead_s * counts.ahead_bytes,
    }
    if storage.bytes_per_s is not None:
        free = sum(device.values())
        least = (counts.waited_bytes + counts.ahead_bytes) / storage.bytes_per_s
        slower = np.maximum(1.0, least / np.maximum(free, 1e-12))
        device = {name: seconds * slower for name, seconds in device.items()}
    return {
        OPENING: storage.open_s,
        **device,
        "memory": storage.cached_s * counts.requested_bytes,
        "chunks": storage.lookup_s * counts.chunks,
        "reads": storage.read_s * counts.reads,
        "runs": storage.run_s * counts.runs,
        "decoding": code.decode_s * counts.decoded_bytes + code.chunk_s * counts.decoded_chunks,
    }


def seconds(counts: Counts, storage: Storage, code: Coded) -> Any:
    """Return what the selection takes."""
    return sum(terms(counts, storage, code).values())
