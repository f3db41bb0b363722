"""Rows written by MPI ranks together: the five steps that the document on variable-length data sketches.

Needs an h5py that was built with parallel HDF5, a file that all ranks opened with `driver="mpio"`, and
mpi4py's communicator of them. Everything here is collective: all ranks call it, with rows or without.
"""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from .convention import REFERENCE, RaggedError
from .writing import RaggedDataset


def append_collectively(
    rows: RaggedDataset, comm: Any, lengths: npt.ArrayLike, values: npt.ArrayLike
) -> None:
    """Add the rows of all ranks at the end, those of rank 0 first.

    `lengths` are the elements of this rank's rows, `values` those of all of them end to end. Compressed
    vectors are written, too, as far as the release of parallel HDF5 can. Raises RaggedError on all ranks
    where the rows of one of them cannot be what they should; nothing is written then.
    """
    # 1: on each process, the total length of its data.
    wrong, flat, counts = "", np.empty(0, rows.dtype), np.empty(0, np.int64)
    try:
        flat, counts = rows.checked_block(lengths, values)
    # Whatever it is: a rank that left would have the others wait for it.
    except Exception as error:
        wrong = str(error) or type(error).__name__
    # 2: so that each process knows how much every process needs to write.
    told = comm.allgather((wrong, len(counts), flat.nbytes))
    mistakes = [f"rank {rank}: {said}" for rank, (said, _, _) in enumerate(told) if said]
    if mistakes:
        raise RaggedError(mistakes[0])
    rows_of, spans = [count for _, count, _ in told], [span for _, _, span in told]
    before_rows, before_bytes = sum(rows_of[: comm.rank]), sum(spans[: comm.rank])
    # 3: the vector is extended for all of them, by all of them.
    first, begin = rows.extend(sum(rows_of), sum(spans))
    # 4: each at its place, behind those of lower rank.
    place = begin + before_bytes
    _write_run(rows.vector, place, np.ascontiguousarray(flat).view(np.uint8))
    sizes = counts * rows.dtype.itemsize
    found = np.empty(len(sizes), REFERENCE)
    found["length"] = sizes
    found["offset"] = place + np.cumsum(sizes) - sizes
    # 5: the primary dataset.
    _write_run(rows.primary, first + before_rows, found)


def _write_run(dataset: h5py.Dataset, first: int, values: npt.NDArray[Any]) -> None:
    """Write a run together with all other ranks; one that has nothing to write takes part all the same."""
    if not dataset.shape[0]:
        return
    transfer = h5py.h5p.create(h5py.h5p.DATASET_XFER)
    transfer.set_dxpl_mpio(h5py.h5fd.MPIO_COLLECTIVE)
    space, memory = dataset.id.get_space(), h5py.h5s.create_simple((max(1, len(values)),))
    if len(values):
        space.select_hyperslab((first,), values.shape)
    else:
        values = np.empty(1, dataset.dtype)
        space.select_none()
        memory.select_none()
    dataset.id.write(memory, space, values, dxpl=transfer)
