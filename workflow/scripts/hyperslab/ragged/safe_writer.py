"""A file of rows whose writer may be killed: all that was flushed is there, and whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from .convention import REFERENCE, SUFFIX, RaggedError
from .opening import create
from .opening import open as open_rows
from .writing import RaggedDataset

OLD = "has to be made anew with libver v110 or later"
# Keywords of h5py's File for a file whose writer may be killed: it can have readers beside it, and chunks lie
# at multiples of a reference's size, so that none lies across the end of a page, where a kill tears writes.
SAFE = {"libver": "latest", "alignment_threshold": 1, "alignment_interval": REFERENCE.itemsize}
# Filters after which a chunk is as long as before, but for a checksum.
OF_SAME_SIZE = {h5py.h5z.FILTER_FLETCHER32, h5py.h5z.FILTER_SHUFFLE}


@contextmanager
def writer(
    path: str | Path, name: str, dtype: npt.DTypeLike | None = None, **options: Any
) -> Iterator[RaggedDataset]:
    """Open a file for rows that are appended, and let others read it meanwhile; both are closed at the end.

    The file is made where it is not there, and so are the rows, of elements of `dtype` and with the `options`
    of `create`; rows that are there go on at their end. The file is in HDF5's mode for a single writer and
    many readers, so that rows outlive a killed process once they were flushed: `recover` makes the file one
    that opens again. In that mode nothing else can be made in the file.
    Raises RaggedError for a file that HDF5 cannot open so, whose rows are of another type, or in which a kill
    could tear what leads to them.
    """
    fresh = not Path(path).exists()
    try:
        file = h5py.File(path, "a", **SAFE)
    except OSError as error:
        hint = "; if its writer was killed, ragged.recover clears its mark" if "h5clear" in str(error) else ""
        raise RaggedError(f"{path}: {' '.join(str(error).split())}{hint}") from None
    with file:
        try:
            rows = _rows(file, name, dtype, options)
        except BaseException:
            if fresh:
                Path(path).unlink()
            raise
        with rows:
            yield rows


def _filters_of_same_size(dataset: h5py.Dataset) -> set[int]:
    """Return the filters of a dataset, if its chunks always have the same size with them."""
    creation = dataset.id.get_create_plist()
    codes = {creation.get_filter(number)[0] for number in range(creation.get_nfilters())}
    return codes if codes <= OF_SAME_SIZE else set()


def _check_filters(rows: RaggedDataset, place: str) -> None:
    """Raise RaggedError where HDF5 would write chunks in place of which a torn one is wrong or unreadable.

    A checksum refuses all of a torn chunk; shuffled references have each byte in a page of its own.
    """
    checked = h5py.h5z.FILTER_FLETCHER32 in _filters_of_same_size(rows.vector)
    if checked or _filters_of_same_size(rows.primary):
        raise RaggedError(
            f"{place}: fletcher32 or shuffle needs a filter that compresses beside it: HDF5 writes chunks of "
            "equal size in place, and a kill meanwhile would spoil rows that were flushed"
        )


def _check_places(rows: RaggedDataset, place: str) -> None:
    """Raise RaggedError where chunks of references lie as no SAFE file has them: a kill may tear one.

    That is no matter with filters, for HDF5 writes a compressed chunk that changed in another place.
    """
    chunks = rows.primary.id
    if chunks.get_create_plist().get_nfilters():
        return
    found: list[int] = []
    try:
        # HDF5 before 1.10.10 has no chunk_iter, and takes longer where there are many chunks.
        if hasattr(chunks, "chunk_iter"):
            chunks.chunk_iter(lambda chunk: found.append(chunk.byte_offset))
        else:
            found += [chunks.get_chunk_info(number).byte_offset for number in range(chunks.get_num_chunks())]
    except (OSError, RuntimeError) as error:
        said = " ".join(str(error).split())
        raise RaggedError(f"{place}: the index of its chunks cannot be read: {said}") from None
    if any(start % REFERENCE.itemsize for start in found):
        raise RaggedError(
            f"{place}: was written without ragged.SAFE, so that a kill could tear what leads to rows; copy "
            "its rows to a file that ragged.writer makes"
        )


def _rows(
    file: h5py.File, name: str, dtype: npt.DTypeLike | None, options: Mapping[str, Any]
) -> RaggedDataset:
    """Return rows that are there or made, in a file that others may read from now on."""
    fresh = False
    if name in file:
        rows = open_rows(file[name])
        if dtype is not None and np.dtype(dtype) != rows.dtype:
            raise RaggedError(f"{file.filename}: {name} holds rows of {rows.dtype}, not of {np.dtype(dtype)}")
    elif dtype is None:
        raise RaggedError(f"{file.filename}: there is nothing called {name}, and new rows need a dtype")
    else:
        # HDF5 would say so only when they are there. Superblocks of version 3 can carry the writer's mark.
        if file.id.get_create_plist().get_version()[0] < 3:
            raise RaggedError(f"{file.filename} {OLD}")
        rows, fresh = create(file, name, dtype, **options), True
    try:
        place = f"{file.filename}: {name}"
        _check_filters(rows, place)
        _check_places(rows, place)
    except RaggedError:
        if fresh:
            del file[name], file[name + SUFFIX]
        raise
    try:
        file.swmr_mode = True
    except (OSError, ValueError, RuntimeError) as error:
        said = " ".join(str(error).split())
        raise RaggedError(f"{file.filename} {OLD}: {said}") from None
    # From now on, and not from the first row on, nobody may take the file for one whose writer was killed.
    rows.claim()
    return rows
