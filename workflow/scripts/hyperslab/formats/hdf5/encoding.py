"""What HDF5 makes of chunks before it stores them, without the file: every filter serves, plugins too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from h5py import h5d, h5f, h5p, h5s, h5t

# Filter mask and bytes of one chunk.
Stored = tuple[int, bytes]


@contextmanager
def _in_memory(
    block: npt.NDArray[Any], creation: h5p.PropDCID, datatype: h5t.TypeID, memory: h5t.TypeID | None = None
) -> Iterator[h5d.DatasetID]:
    """Yield a dataset of a file in memory that holds a block; see `encoded`."""
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_fapl_core(block_size=2**20, backing_store=False)
    # Without a chunk cache each chunk goes through its filters as soon as it is written.
    access.set_cache(0, 1, 0, 0.75)
    access.set_fclose_degree(h5f.CLOSE_STRONG)
    file = h5f.create(b"chunks", h5f.ACC_TRUNC, fapl=access)
    try:
        # Without limits, or no chunk could be larger than the block at the array's edge.
        space = h5s.create_simple(block.shape, (h5s.UNLIMITED,) * block.ndim)
        dataset = h5d.create(file, b"data", datatype, space, creation)
        dataset.write(h5s.ALL, h5s.ALL, block, memory)
        yield dataset
    finally:
        file.close()


def encoded(
    block: npt.NDArray[Any],
    creation: h5p.PropDCID,
    datatype: h5t.TypeID,
    places: Iterable[tuple[int, ...]],
    memory: h5t.TypeID | None = None,
) -> list[Stored]:
    """Return chunks of a block, each by its first element in `places`, as HDF5 stores them.

    `creation` has chunks, filters and fill value, `datatype` is that of elements in a file, `memory` that of
    the block's (default: what its dtype says). The block begins where a chunk begins.
    """
    with _in_memory(block, creation, datatype, memory) as dataset:
        return [dataset.read_direct_chunk(place) for place in places]


def decoded(block: npt.NDArray[Any], creation: h5p.PropDCID, datatype: h5t.TypeID) -> npt.NDArray[Any]:
    """Return a block of whole chunks as it is read back from HDF5: what its filters leave of it."""
    found = np.empty_like(block)
    with _in_memory(block, creation, datatype) as dataset:
        dataset.read(h5s.ALL, h5s.ALL, found)
    return found
