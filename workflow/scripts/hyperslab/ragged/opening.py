"""Making rows in an open file, and finding those that are there; every file is checked."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from .convention import (
    CHUNK_BYTES,
    CONVENTION,
    FILTERED_CHUNK_BYTES,
    LEAST_CHUNK_BYTES,
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
from .writing import RaggedDataset

# h5py's keywords for filters, where they are asked for and not left out.
FILTERS = ("compression", "shuffle", "fletcher32", "scaleoffset")
Filters = Mapping[str, Any] | None


def create(
    group: h5py.Group,
    name: str,
    dtype: npt.DTypeLike,
    *,
    chunk_bytes: int | None = None,
    row_chunk: int = ROW_CHUNK,
    filters: Filters = None,
    row_filters: Filters = None,
    chunk_cache: int | None = None,
    row_cache: int | None = None,
    reuse: bool = False,
    expected_bytes: int | None = None,
) -> RaggedDataset:
    """Return new, empty rows of elements of `dtype` under `name` in `group`.

    chunk_bytes, row_chunk: bytes of a chunk of the vector, and rows of a chunk of the primary dataset. By
    default a chunk of the vector has 8 MiB, or 1 MiB where there are filters, and no more than are needed for
    `expected_bytes` in all, where somebody knows that.
    filters, row_filters: keywords of h5py's `create_dataset` for the filters of each, such as
    {"compression": "gzip", "compression_opts": 4} or what hdf5plugin gives. chunk_cache, row_cache: bytes of
    their chunk caches. By default an unfiltered vector has none, as in `open`, and others the file's, or two
    chunks where those are more.
    reuse: space of rows that were replaced is given to others (`RaggedDataset.__setitem__`).
    Raises RaggedError for a type or size that cannot be stored, for a scaleoffset that keeps some bits alone,
    and where the name is taken.
    """
    kind = storable(np.dtype(dtype))
    filtered = _filtered(filters)
    if chunk_bytes is None:
        chunk_bytes = _chosen_chunk(kind.itemsize, filtered, expected_bytes)
    if chunk_bytes < 1 or row_chunk < 1:
        raise RaggedError(f"chunk_bytes {chunk_bytes} and row_chunk {row_chunk} should be above 0")
    for taken in (name, name + SUFFIX):
        if taken in group:
            raise RaggedError(f"{group.file.filename}: there is something called {taken} already")
    if chunk_cache is None and not filtered:
        chunk_cache = 0
    try:
        vector = _made(group, name + SUFFIX, np.dtype("u1"), chunk_bytes, filters, chunk_cache)
        _check_exact(vector)
        primary = _made(group, name, REFERENCE, row_chunk, row_filters, row_cache, UNWRITTEN)
        primary.attrs[TYPE] = repr(kind.descr) if kind.names else kind.str
        primary.attrs[VECTOR] = vector.name.rpartition("/")[2]
        if reuse:
            primary.attrs[REUSE] = True
        primary.attrs[NUMBER] = VERSION
        # The mark is last: what is only half made is no dataset of rows.
        primary.attrs[MARK] = CONVENTION
    except BaseException as error:
        # Else the names would be taken by what is of no use.
        for half in (name, name + SUFFIX):
            if half in group:
                del group[half]
        if isinstance(error, (ValueError, TypeError)):
            said = " ".join(str(error).split())
            raise RaggedError(f"{group.file.filename}: {name} cannot be made: {said}") from None
        raise
    return RaggedDataset(primary, vector, kind, reuse)


def storable(kind: np.dtype[Any]) -> np.dtype[Any]:
    """Return a type of elements; raises RaggedError for one that a file cannot give back."""
    if kind.hasobject or not kind.itemsize or kind.subdtype or (kind.kind not in "iufcb" and not kind.names):
        raise RaggedError(f"rows of {kind} cannot be stored; elements are numbers, or records of numbers")
    if enumerations(kind):
        raise RaggedError(
            f"rows of {kind} cannot be stored: its values have names (an enumeration), which would be lost; "
            "plain numbers have none"
        )
    if kind.names and ((said := _said(kind)) is None or said != kind):
        raise RaggedError(
            f"rows of {kind} cannot be stored: its records have gaps, or fields that share bytes; "
            "numpy.lib.recfunctions.repack_fields makes records without"
        )
    return kind


def enumerations(kind: np.dtype[Any], part: str = "") -> dict[str, dict[str, int]]:
    """Return the names of values that a type and its parts have, by part, without which numpy compares."""
    # Of an array the type of its elements.
    own = h5py.check_enum_dtype(kind.base)
    found = {} if own is None else {part: own}
    for name, (inner, *_) in (kind.base.fields or {}).items():
        found |= enumerations(inner, f"{part}/{name}")
    return found


def _said(kind: np.dtype[Any]) -> np.dtype[Any] | None:
    """Return what becomes of a type of records in a file; None for what cannot be written as its fields."""
    try:
        found: np.dtype[Any] = np.dtype(ast.literal_eval(repr(kind.descr)))
        return found
    except (TypeError, ValueError, SyntaxError):
        return None


def _filtered(filters: Filters) -> bool:
    """Return whether h5py's keywords ask for any filter."""
    given = filters or {}
    creation = given.get("dcpl")
    if creation is not None and creation.get_nfilters():
        return True
    return any(given.get(name) is not None and given[name] is not False for name in FILTERS)


def _check_exact(vector: h5py.Dataset) -> None:
    """Raise RaggedError for a scaleoffset that keeps a number of bits that somebody chose."""
    creation = vector.id.get_create_plist()
    for number in range(creation.get_nfilters()):
        code, _, values, _ = creation.get_filter(number)
        # 0 stands for as many bits as the numbers of a chunk need.
        if code == h5py.h5z.FILTER_SCALEOFFSET and values[:2] != (h5py.h5z.SO_INT, 0):
            raise RaggedError(
                f"{vector.file.filename}: {vector.name} holds bytes, of which this scaleoffset keeps some "
                "bits alone; scaleoffset=True keeps all"
            )


def _chosen_chunk(itemsize: int, filtered: bool, expected: int | None) -> int:
    """Return the bytes of a chunk of the vector: whole elements, and not far above what is expected."""
    size = FILTERED_CHUNK_BYTES if filtered else CHUNK_BYTES
    if expected is not None:
        size = min(size, max(LEAST_CHUNK_BYTES, 1 << max(0, expected - 1).bit_length()))
    return max(itemsize, size - size % itemsize)


def _made(
    group: h5py.Group,
    name: str,
    dtype: np.dtype[Any],
    chunk: int,
    filters: Filters,
    cache: int | None,
    fill: Any = None,
) -> h5py.Dataset:
    """Return a new dataset without end; its chunk cache holds two chunks at least if nothing is said."""
    keywords = dict(filters or {})
    _, slots, held, preemption = group.file.id.get_access_plist().get_cache()
    if cache is None:
        cache = max(held, 2 * chunk * dtype.itemsize)
    if fill is None and not _filtered(filters) and "fill_time" not in keywords:
        # Nobody reads bytes to which no row leads, and a chunk need not be filled before it is written.
        given = keywords.get("dcpl")
        keywords["dcpl"] = given.copy() if given else h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        keywords["dcpl"].set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    return group.create_dataset(
        name, (0,), dtype, maxshape=(None,), chunks=(chunk,), fillvalue=fill, rdcc_nbytes=cache,
        rdcc_nslots=slots, rdcc_w0=preemption, **keywords,
    )  # fmt: skip


def open(  # noqa: A001, for it is called as ragged.open
    dataset: h5py.Dataset, *, chunk_cache: int | None = None, row_cache: int | None = None
) -> RaggedDataset:
    """Return the rows of a primary dataset, for reading, or appending where its file is open for that.

    chunk_cache: bytes of the vector's chunk cache. By default the file's, or none where there are no filters:
    a short row is then read by itself and not with the whole chunk around it, and appended rows, which are
    gathered before, are copied once less. row_cache: bytes of the primary dataset's, by default the file's.
    HDF5 sets them when a dataset is opened that nobody else has open; where there is a row_cache, `dataset`
    itself is closed for that.
    Raises RaggedError for a dataset that is none, of a newer convention, or whose vector is missing.
    """
    if not isinstance(dataset, h5py.Dataset):
        raise RaggedError(f"{getattr(dataset, 'name', dataset)} is no dataset")
    place = f"{dataset.file.filename}: {dataset.name}"
    # Somebody else's attribute of this name may be a list.
    mark = _text(dataset.attrs.get(MARK))
    if not isinstance(mark, str) or mark != CONVENTION:
        raise RaggedError(
            f"{place} is no dataset of ragged rows: it has no attribute {MARK} = {CONVENTION!r}"
        )
    if np.any((number := dataset.attrs.get(NUMBER)) != VERSION):
        raise RaggedError(
            f"{place} is of convention {number}, and only {VERSION} is known here; take a newer release"
        )
    if dataset.ndim != 1 or dataset.dtype.names != REFERENCE.names:
        raise RaggedError(
            f"{place} is marked as ragged rows but holds no offsets and lengths: {dataset.dtype}"
        )
    if any(dataset.dtype[name].kind != "u" for name in dataset.dtype.names):
        raise RaggedError(f"{place} has offsets or lengths that can be negative: {dataset.dtype}")
    beside = _text(dataset.attrs.get(VECTOR))
    vector = dataset.parent.get(beside) if isinstance(beside, str) else None
    if not isinstance(vector, h5py.Dataset) or vector.dtype != np.dtype("u1") or vector.ndim != 1:
        raise RaggedError(f"{place} has no vector of bytes: {beside!r} is not one")
    dtype, reuse = _row_type(dataset, place), bool(dataset.attrs.get(REUSE, False))
    if chunk_cache is None and not vector.id.get_create_plist().get_nfilters():
        chunk_cache = 0
    return RaggedDataset(_reopened(dataset, row_cache), _reopened(vector, chunk_cache), dtype, reuse)


def _text(value: Any) -> Any:
    """Return an attribute's text, which lies in the file in a length of its own or in a fixed one."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _row_type(dataset: h5py.Dataset, place: str) -> np.dtype[Any]:
    said = _text(dataset.attrs.get(TYPE))
    try:
        found = np.dtype(ast.literal_eval(said) if str(said).startswith("[") else str(said))
    except (TypeError, ValueError, SyntaxError):
        raise RaggedError(f"{place} says that its elements are {said!r}, which is no type") from None
    if found.hasobject or not found.itemsize:
        raise RaggedError(f"{place} says that its elements are {said!r}, which cannot lie in a file")
    return found


def _reopened(dataset: h5py.Dataset, cache: int | None) -> h5py.Dataset:
    """Return a dataset with a chunk cache of its own size; None: as it is."""
    if cache is None:
        return dataset
    file, name, access = dataset.file, dataset.name.encode(), dataset.id.get_access_plist()
    slots, _, preemption = access.get_chunk_cache()
    access.set_chunk_cache(slots, cache, preemption)
    # Of a dataset that is open HDF5 changes nothing.
    dataset.id.close()
    return h5py.Dataset(h5py.h5d.open(file.id, name, access))
