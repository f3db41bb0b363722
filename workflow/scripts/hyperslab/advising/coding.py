"""What filters make of the data: how far and how fast they shrink sampled chunks, and read them back."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from h5py import h5d, h5f, h5p, h5s

from hyperslab.advising.candidates import Filters
from hyperslab.advising.prices import Coded
from hyperslab.advising.probe import timed
from hyperslab.data.values import Values
from hyperslab.formats.hdf5 import filter_setters
from hyperslab.layouts.chunks import even_chunks

# Chunks of an array that are tried, and the seconds after which no further one is.
SAMPLES, ENOUGH_S = 6, 2.0
# Of a longer chunk a part is sampled: a byte of it takes as long to decode.
MOST_SAMPLED_BYTES = 2**24
# About how large the chunks are on which filters are tried first, bytes; how often each is decoded.
TRIED_BYTES, TRIES = (2**12, 2**14, 2**17, 2**21), 3
# Nothing is faster than this, a byte.
LEAST_S = 1e-12


def coded(blocks: Sequence[npt.NDArray[Any]], filters: Filters) -> Coded:
    """Return what `filters` make of `blocks`, each stored as one chunk in an HDF5 file in memory.

    Raises Unavailable (formats.hdf5) for a filter that this machine has not.
    """
    if not filters:
        return Coded(1.0, 0.0)
    raw, stored, decoding, encoding = _tried(blocks, filters)
    return Coded(stored / raw, decoding / raw, encoding / raw)


@dataclass(frozen=True)
class Chain:
    """What a chain of filters makes of chunks of several sizes, ascending, in bytes."""

    sizes: Sequence[int]
    codes: Sequence[Coded]

    def at(self, raw_bytes: Any) -> Coded:
        """Return what it makes of chunks of so many bytes: between those that were tried; a number, or an
        array of them.

        Short chunks take longer a byte, since each takes some time however short it is, and so do those of
        some megabytes, for which the library gets new memory.
        """
        places, tried = np.log(raw_bytes), np.log(self.sizes)
        ratio = np.interp(places, tried, [one.ratio for one in self.codes])
        speeds = (
            np.exp(np.interp(places, tried, np.log([max(getattr(one, key), LEAST_S) for one in self.codes])))
            for key in ("decode_s", "encode_s")
        )
        return Coded(ratio, *speeds)

    def of(self, raw_bytes: int) -> Coded:
        """Return the same of one size."""
        found = self.at(float(raw_bytes))
        return Coded(float(found.ratio), float(found.decode_s), float(found.encode_s))


def blocks_of(values: Values) -> list[list[npt.NDArray[Any]]]:
    """Return chunks of an array of several sizes, cut evenly along all axes, some of each size."""
    shapes = [tuple(even_chunks(values.shape, values.dtype.itemsize, size)) for size in TRIED_BYTES]
    return [samples(values, shape) for shape in dict.fromkeys(shapes)]


def chain_of(blocks: Sequence[Sequence[npt.NDArray[Any]]], filters: Filters) -> Chain:
    """Return what `filters` make of chunks of several sizes (`blocks_of`).

    Raises Unavailable (formats.hdf5) for a filter that this machine has not.
    """
    found = {some[0].nbytes: coded(some, filters) for some in blocks}
    return Chain(sorted(found), [found[size] for size in sorted(found)])


def _tried(blocks: Sequence[npt.NDArray[Any]], filters: Filters) -> tuple[int, int, float, float]:
    """Return the bytes of the blocks that were tried, what is stored of them, and the seconds to read and to
    write them.
    """
    chosen = [one.resolved() for one in filters]
    filter_setters.prepare(chosen)
    raw, stored, decoding, encoding = 0, 0, 0.0, 0.0
    for block in blocks:
        # Filters of a user's file may be as slow as they like.
        if raw and encoding + TRIES * decoding > ENOUGH_S:
            break
        raw += block.nbytes
        access = h5p.create(h5p.FILE_ACCESS)
        access.set_fapl_core(block.nbytes + 2**16, False)
        file = h5f.create(b"advice", h5f.ACC_TRUNC, fapl=access)
        creation = h5p.create(h5p.DATASET_CREATE)
        creation.set_chunk(block.shape)
        filter_setters.apply(creation, chosen)
        space = h5s.create_simple(block.shape)
        dataset = h5d.create(file, b"a", h5py.h5t.py_create(block.dtype), space, creation)
        encoding += timed(lambda dataset=dataset, block=block: _store(dataset, block))  # type: ignore[misc]
        stored += dataset.get_storage_size()
        del dataset
        h5f.flush(file)
        target = np.empty_like(block, order="C")
        # Another process may have the processor now and then; that is no time of a filter.
        decoding += min(_decoded(file, target) for _ in range(TRIES))
        file.close()
    return raw, stored, decoding, encoding


def _decoded(file: h5f.FileID, target: npt.NDArray[Any]) -> float:
    """Return the seconds to read the one chunk of a file, of which nothing is decoded yet."""
    dataset = h5d.open(file, b"a")
    return timed(lambda: dataset.read(h5s.ALL, h5s.ALL, target))


def _store(dataset: h5d.DatasetID, block: npt.NDArray[Any]) -> None:
    """Write a chunk, and have it filtered: it lies in a cache until somebody asks for its size."""
    dataset.write(h5s.ALL, h5s.ALL, block)
    dataset.get_storage_size()


def samples(values: Values, chunk: Sequence[int], count: int = SAMPLES) -> list[npt.NDArray[Any]]:
    """Return `count` whole chunks of an array, from all over it, or as much of each as is sampled."""
    counts = [max(1, size // one) for size, one in zip(values.shape, chunk, strict=True)]
    extent = [min(one, size) for size, one in zip(values.shape, chunk, strict=True)]
    if math.prod(extent) * values.dtype.itemsize > MOST_SAMPLED_BYTES:
        extent = even_chunks(extent, values.dtype.itemsize, MOST_SAMPLED_BYTES)
    rng = random.Random(str(tuple(chunk)))
    return [
        np.ascontiguousarray(
            values.block(
                [rng.randrange(number) * one for number, one in zip(counts, chunk, strict=True)], extent
            )
        )
        for _ in range(count)
    ]
