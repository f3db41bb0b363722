"""What filters make of the data: how far and how fast they shrink sampled chunks, and read them back."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
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

SAMPLES = 6
# Of short chunks more are tried, since each takes little time.
SHORT_SAMPLES = 24


def coded(blocks: Sequence[npt.NDArray[Any]], filters: Filters) -> Coded:
    """Return what `filters` make of `blocks`, each stored as one chunk in an HDF5 file in memory.

    Raises Unavailable (formats.hdf5) for a filter that this machine has not.
    """
    raw = sum(block.nbytes for block in blocks)
    if not filters:
        return Coded(1.0, 0.0)
    stored, decoding, encoding = _tried(blocks, filters)
    # Without filters the same takes the library's own time, which is a price of its own.
    _, reading, writing = _tried(blocks, ())
    return Coded(stored / raw, max(0.0, decoding - reading) / raw, max(0.0, encoding - writing) / raw)


def _tried(blocks: Sequence[npt.NDArray[Any]], filters: Filters) -> tuple[int, float, float]:
    """Return the bytes that are stored of all blocks, and the seconds to read and to write them."""
    chosen = [one.resolved() for one in filters]
    filter_setters.prepare(chosen)
    stored, decoding, encoding = 0, 0.0, 0.0
    for block in blocks:
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
        again, target = h5d.open(file, b"a"), np.empty_like(block, order="C")
        decoding += timed(lambda again=again, target=target: again.read(h5s.ALL, h5s.ALL, target))  # type: ignore[misc]
        del again
        file.close()
    return stored, decoding, encoding


def of_two_sizes(values: Values, filters: Filters, large: Sequence[int], small: Sequence[int]) -> Coded:
    """Return what `filters` make of chunks of `large` extents, and what a chunk takes however short it is.

    That is what short chunks take beyond their bytes.
    """
    found = coded(samples(values, large), filters)
    blocks = samples(values, small, SHORT_SAMPLES)
    short, long = blocks[0].nbytes, math.prod(large) * values.dtype.itemsize
    if not filters or short >= long:
        return found
    taken = short * coded(blocks, filters).decode_s
    byte = max(0.0, (found.decode_s * long - taken) / (long - short))
    return replace(found, decode_s=byte, chunk_s=max(0.0, taken - byte * short))


def _store(dataset: h5d.DatasetID, block: npt.NDArray[Any]) -> None:
    """Write a chunk, and have it filtered: it lies in a cache until somebody asks for its size."""
    dataset.write(h5s.ALL, h5s.ALL, block)
    dataset.get_storage_size()


def samples(
    values: Values, chunk: Sequence[int], count: int = SAMPLES, seed: int = 0
) -> list[npt.NDArray[Any]]:
    """Return `count` whole chunks of an array, from all over it."""
    counts = [max(1, size // one) for size, one in zip(values.shape, chunk, strict=True)]
    extent = [min(one, size) for size, one in zip(values.shape, chunk, strict=True)]
    rng = random.Random(f"{seed} {tuple(chunk)}")
    return [
        np.ascontiguousarray(
            values.block(
                [rng.randrange(number) * one for number, one in zip(counts, chunk, strict=True)], extent
            )
        )
        for _ in range(count)
    ]
