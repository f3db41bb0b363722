"""Filling a store quickly: chunks are cut, encoded and written file by file, several files at once."""

from __future__ import annotations

import gzip
import io
import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import google_crc32c
import numcodecs
import numpy as np

from hyperslab.data.selections import Box
from hyperslab.data.tiles import in_chunk_order, read_tile, tiles
from hyperslab.data.values import Values
from hyperslab.formats.zarr.description import SHUFFLES, OnDisk
from hyperslab.formats.zarr.inspection import NOTHING, file_of
from hyperslab.layouts.chunks import chunks_per_axis
from hyperslab.layouts.zarr_codecs import options_in_force
from hyperslab.specifications import Specification

# writev(2) takes as many pieces at once.
PIECES = 1024
MOST_THREADS = 4
# What a thread makes holds about four times the bytes of a run of chunks, or of a shard.
TILE_BYTES, MEMORY_BYTES, COPIES = 8 * 2**20, 512 * 2**20, 4

Piece = Any
Encoder = Callable[[Piece], Piece]


def fill(path: str, spec: Specification, values: Values) -> None:
    """Write every chunk of an empty store; one that holds only zeros is stored where the layout says so."""
    disk, encode = OnDisk.of(spec), _encoder(spec)
    keep_empty = spec["layout"]["settings"]["write_empty_chunks"]
    itemsize = disk.dtype.itemsize
    store = _store_shard if disk.sharded else _store_chunks

    def make(tile: Box) -> None:
        # Zarr's bytes are little-endian, whatever this machine's are.
        block = read_tile(values, tile, disk.order).astype(disk.dtype, copy=False)
        chunks = in_chunk_order(block, disk.chunk).view(np.uint8).reshape(-1, disk.chunk_bytes)
        store(path, tile, disk, (encode(chunk) if keep_empty or chunk.any() else None for chunk in chunks))

    limit = 1 if disk.sharded else TILE_BYTES
    one = max(TILE_BYTES, disk.chunk_bytes * math.prod(disk.per_unit))
    threads = max(1, min(MOST_THREADS, len(os.sched_getaffinity(0)), MEMORY_BYTES // (COPIES * one)))
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[None]] = deque()
        for tile in tiles(disk.shape, disk.unit, itemsize, limit):
            waiting.append(pool.submit(make, tile))
            if len(waiting) > threads:
                waiting.popleft().result()
        while waiting:
            waiting.popleft().result()


def _encoder(spec: Specification) -> Encoder:
    """Return what the codecs of a layout, one after the other, make of the bytes of a chunk."""
    steps = [_step(options_in_force(codec), spec) for codec in spec["layout"]["codecs"]]

    def encode(chunk: Piece) -> Piece:
        for step in steps:
            chunk = step(chunk)
        return chunk

    return encode


def _step(codec: dict[str, Any], spec: Specification) -> Encoder:
    """Return what one codec makes of bytes, by the library that zarr-python takes."""
    match codec["name"]:
        case "gzip":
            return lambda chunk: _gzip(chunk, codec["level"])
        case "zstd":
            zstd = numcodecs.Zstd(level=codec["level"], checksum=False)
            return lambda chunk: zstd.encode(chunk)
        case "blosc":
            shuffle = list(SHUFFLES).index(codec["shuffle"])
            itemsize = np.dtype(spec["dataset"]["dtype"]).itemsize
            blosc = numcodecs.Blosc(codec["codec"], codec["level"], shuffle, typesize=itemsize)
            return lambda chunk: blosc.encode(chunk)
        case _:
            return _with_checksum


def _gzip(chunk: Piece, level: int) -> bytes:
    """Compress as numcodecs does, which keeps the time of writing in each chunk; here it is 0."""
    compressed = io.BytesIO()
    with gzip.GzipFile(fileobj=compressed, mode="wb", compresslevel=level, mtime=0) as compressor:
        compressor.write(chunk)
    return compressed.getvalue()


def _with_checksum(chunk: Piece) -> bytes:
    content = bytes(chunk)
    checksum: int = google_crc32c.value(content)
    return content + checksum.to_bytes(4, "little")


def _places(tile: Box, chunk: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the places in the grid of the chunks of a tile, row-major."""
    first = [start // size for start, size in zip(tile.origin, chunk, strict=True)]
    for place in np.ndindex(*chunks_per_axis(tile.extent, chunk)):
        yield tuple(f + p for f, p in zip(first, place, strict=True))


def _store_chunks(path: str, tile: Box, disk: OnDisk, encoded: Iterator[Piece | None]) -> None:
    """Write each chunk of a tile to a file of its own."""
    folder = ""
    for place, content in zip(_places(tile, disk.chunk), encoded, strict=True):
        if content is None:
            continue
        file = file_of(path, place)
        if folder != (folder := os.path.dirname(file)):
            os.makedirs(folder, exist_ok=True)
        _write(file, [content])


def _store_shard(path: str, tile: Box, disk: OnDisk, encoded: Iterator[Piece | None]) -> None:
    """Write the chunks of one shard in zarr-python's order, and their index behind them."""
    counts = chunks_per_axis(tile.extent, disk.chunk)
    pieces = dict(zip(np.ndindex(*counts), encoded, strict=True))
    index = np.full((*disk.per_unit, 2), NOTHING, "<u8")
    ordered: list[Piece] = []
    end = 0
    for place in sorted(pieces, key=lambda place: _morton_code(place, disk.per_unit)):
        content = pieces[place]
        if content is not None:
            index[place] = end, len(content)
            ordered.append(content)
            end += len(content)
    if not ordered:
        return
    (shard,) = _places(tile, disk.unit)
    file = file_of(path, shard)
    os.makedirs(os.path.dirname(file), exist_ok=True)
    _write(file, [*ordered, _with_checksum(index.tobytes())])


def _morton_code(place: Sequence[int], counts: Sequence[int]) -> int:
    """Return the number of a chunk in a shard: the bits of its place, interleaved,
    as long as an axis has some.
    """
    bits = [(count - 1).bit_length() for count in counts]
    code = position = 0
    for bit in range(max(bits)):
        for axis, has in enumerate(bits):
            if bit < has:
                code |= (place[axis] >> bit & 1) << position
                position += 1
    return code


def _write(file: str, pieces: Sequence[Piece]) -> None:
    """Write pieces one behind the other to a new file."""
    waiting = deque(memoryview(piece).cast("B") for piece in pieces)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        while waiting:
            written = os.writev(descriptor, [waiting[number] for number in range(min(PIECES, len(waiting)))])
            while waiting and written >= len(waiting[0]):
                written -= len(waiting.popleft())
            if written:
                waiting[0] = waiting[0][written:]
    finally:
        os.close(descriptor)
