"""Ragged rows in HDF5 as a vector of bytes with the offset and length of each row: fast, and compressible.

This package needs h5py and numpy alone. docs/ragged.md says how files look, so that others can read them.

    import h5py
    from hyperslab import ragged

    with h5py.File("events.h5", "w") as file:
        with ragged.create(file, "hits", "int32", filters={"compression": "gzip"}) as hits:
            hits.append([[1, 2, 3], [], [4, 5]])
    with h5py.File("events.h5") as file:
        hits = ragged.open(file["hits"])
        print(hits[2], hits[0:2], len(hits), hits.lengths)
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from hyperslab.ragged.convention import (
    CHUNK_BYTES,
    CONVENTION,
    MARK,
    NUMBER,
    REFERENCE,
    REUSE,
    ROW_CHUNK,
    SUFFIX,
    TYPE,
    UNWRITTEN,
    VECTOR,
    VERSION,
    RaggedError,
)
from hyperslab.ragged.parallel import append_collectively
from hyperslab.ragged.reading import split
from hyperslab.ragged.recovery import recover
from hyperslab.ragged.vlen import from_vlen, to_vlen
from hyperslab.ragged.writing import BUFFER_BYTES, RaggedDataset

__all__ = [
    "RaggedDataset", "RaggedError", "append_collectively", "create", "from_vlen", "open", "recover", "split",
    "to_vlen",
]  # fmt: skip


def create(
    group: h5py.Group,
    name: str,
    dtype: npt.DTypeLike,
    *,
    chunk_bytes: int = CHUNK_BYTES,
    row_chunk: int = ROW_CHUNK,
    filters: Mapping[str, Any] | None = None,
    row_filters: Mapping[str, Any] | None = None,
    chunk_cache: int | None = None,
    row_cache: int | None = None,
    reuse: bool = False,
) -> RaggedDataset:
    """Return new, empty rows of elements of `dtype` under `name` in `group`.

    chunk_bytes, row_chunk: bytes of a chunk of the vector, and rows of a chunk of the primary dataset.
    filters, row_filters: keywords of h5py's `create_dataset` for the filters of each, such as
    {"compression": "gzip", "compression_opts": 4} or what hdf5plugin gives. chunk_cache, row_cache: bytes of
    their chunk caches; by default the file's, or two chunks where those are more; a vector's as in `open`.
    reuse: space of rows that were replaced is given to others (`RaggedDataset.__setitem__`).
    Raises RaggedError for a type or size that cannot be stored, and where the name is taken.
    """
    kind = np.dtype(dtype)
    if kind.hasobject or not kind.itemsize or kind.subdtype or (kind.kind not in "iufcb" and not kind.names):
        raise RaggedError(f"rows of {kind} cannot be stored; elements are numbers, or records of numbers")
    if chunk_bytes < 1 or row_chunk < 1:
        raise RaggedError(f"chunk_bytes {chunk_bytes} and row_chunk {row_chunk} should be above 0")
    for taken in (name, name + SUFFIX):
        if taken in group:
            raise RaggedError(f"{group.file.filename}: there is something called {taken} already")
    vector = _made(group, name + SUFFIX, np.dtype("u1"), chunk_bytes, filters, chunk_cache)
    vector = _reopened(vector, chunk_cache)
    primary = _made(group, name, REFERENCE, row_chunk, row_filters, row_cache, UNWRITTEN)
    primary.attrs[TYPE] = repr(kind.descr) if kind.names else kind.str
    primary.attrs[VECTOR] = vector.name.rpartition("/")[2]
    if reuse:
        primary.attrs[REUSE] = True
    primary.attrs[NUMBER] = VERSION
    # The mark is last: what is only half made is no dataset of rows.
    primary.attrs[MARK] = CONVENTION
    return RaggedDataset(primary, vector, kind, reuse)


def _made(
    group: h5py.Group,
    name: str,
    dtype: np.dtype[Any],
    chunk: int,
    filters: Mapping[str, Any] | None,
    cache: int | None,
    fill: Any = None,
) -> h5py.Dataset:
    """Return a new dataset without end, whose chunk cache holds two chunks at least if nothing is said."""
    if cache is None:
        _, _, held, _ = group.file.id.get_access_plist().get_cache()
        cache = max(held, 2 * chunk * dtype.itemsize)
    return group.create_dataset(
        name, (0,), dtype, maxshape=(None,), chunks=(chunk,), fillvalue=fill, rdcc_nbytes=cache,
        **(filters or {}),
    )  # fmt: skip


def open(  # noqa: A001, for it is called as ragged.open
    dataset: h5py.Dataset, *, chunk_cache: int | None = None
) -> RaggedDataset:
    """Return the rows of a primary dataset, for reading, or appending where its file is open for that.

    chunk_cache: bytes of the vector's chunk cache. By default the file's; none where there are no filters,
    and the file is open for reading alone or a chunk has between 1 and 4 MiB. Then a short row is read by
    itself and not with the whole chunk around it, and appended rows, which are gathered before, are copied
    once less. HDF5 sets it when a vector is opened that nobody else has open.
    Raises RaggedError for a dataset that is none, of a newer convention, or whose vector is missing.
    """
    if not isinstance(dataset, h5py.Dataset):
        raise RaggedError(f"{getattr(dataset, 'name', dataset)} is no dataset")
    place = f"{dataset.file.filename}: {dataset.name}"
    if dataset.attrs.get(MARK) != CONVENTION:
        raise RaggedError(
            f"{place} is no dataset of ragged rows: it has no attribute {MARK} = {CONVENTION!r}"
        )
    if (number := dataset.attrs.get(NUMBER)) != VERSION:
        raise RaggedError(
            f"{place} is of convention {number}, and only {VERSION} is known here; take a newer release"
        )
    if dataset.ndim != 1 or dataset.dtype.names != REFERENCE.names:
        raise RaggedError(
            f"{place} is marked as ragged rows but holds no offsets and lengths: {dataset.dtype}"
        )
    if any(dataset.dtype[name].kind != "u" for name in dataset.dtype.names):
        raise RaggedError(f"{place} has offsets or lengths that can be negative: {dataset.dtype}")
    beside = dataset.attrs.get(VECTOR)
    vector = dataset.parent.get(beside) if isinstance(beside, str) else None
    if not isinstance(vector, h5py.Dataset) or vector.dtype != np.dtype("u1") or vector.ndim != 1:
        raise RaggedError(f"{place} has no vector of bytes: {beside!r} is not one")
    dtype, reuse = _row_type(dataset, place), bool(dataset.attrs.get(REUSE, False))
    return RaggedDataset(dataset, _reopened(vector, chunk_cache), dtype, reuse)


def _row_type(dataset: h5py.Dataset, place: str) -> np.dtype[Any]:
    said = dataset.attrs.get(TYPE)
    try:
        found = np.dtype(ast.literal_eval(said) if str(said).startswith("[") else str(said))
    except (TypeError, ValueError, SyntaxError):
        raise RaggedError(f"{place} says that its elements are {said!r}, which is no type") from None
    if found.hasobject or not found.itemsize:
        raise RaggedError(f"{place} says that its elements are {said!r}, which cannot lie in a file")
    return found


def _reopened(vector: h5py.Dataset, cache: int | None) -> h5py.Dataset:
    """Return a vector with a chunk cache of its own size, see `open`."""
    # Smaller chunks keep theirs and are gathered in it: datasets that are written in turn scatter less.
    alone = vector.file.mode == "r" or CHUNK_BYTES <= vector.chunks[0] <= BUFFER_BYTES
    if cache is None and alone and not vector.id.get_create_plist().get_nfilters():
        cache = 0
    if cache is None:
        return vector
    file, name, access = vector.file, vector.name.encode(), vector.id.get_access_plist()
    slots, _, preemption = access.get_chunk_cache()
    access.set_chunk_cache(slots, cache, preemption)
    # Of a dataset that is open HDF5 changes nothing.
    vector.id.close()
    return h5py.Dataset(h5py.h5d.open(file.id, name, access))
