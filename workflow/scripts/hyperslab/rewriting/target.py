"""The dataset that gets another layout: made empty, then filled box by box."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from h5py import h5d, h5g, h5i, h5p, h5s, h5t

from hyperslab.formats import Unavailable
from hyperslab.formats.hdf5 import filter_setters
from hyperslab.formats.hdf5.settings import KNOBS, Lists
from hyperslab.layouts.chunks import automatic_chunk, balanced_chunk
from hyperslab.layouts.hdf5_filters import refusal
from hyperslab.layouts.parameters import NUMBERS
from hyperslab.measuring.processors import MOST_PROCESSES, processors
from hyperslab.rewriting import RewriteError
from hyperslab.rewriting.elements import is_plain
from hyperslab.rewriting.storage import StoredChunks
from hyperslab.rewriting.survey import shown

# A chunk of this many bytes or more is beyond HDF5 (file format, "Chunk Size": 32 bits).
CHUNK_LIMIT = 2**32
# Compact data lie in a message of the object header, which has 16 bits for its size and a few for itself.
COMPACT_LIMIT = 65520
# Where a new dataset is made: its group, the name of its link, and what is said of that.
Place = tuple[h5g.GroupID, bytes, h5p.PropLCID]
# H5Z_FILTER_ALL.
ALL_FILTERS = 0
# Behind the name of a dataset, in the name of its second copy.
SUFFIX = "-second"


def resolved_chunks(
    asked: Sequence[int | str] | Mapping[str, int] | str | None,
    shape: Sequence[int],
    most: Sequence[int | None],
    itemsize: int,
) -> tuple[int, ...] | None:
    """Return the chunk shape that a layout asks for, on an array of `shape` that may grow to `most`.

    `asked` has an extent or "all" for each axis, or is "auto", {"unidata": bytes} or None (contiguous).
    Raises RewriteError, without a file's name, where HDF5 or a formula would refuse.
    """
    if asked is None:
        if any(limit != extent for limit, extent in zip(most, shape, strict=True)):
            raise RewriteError("can grow, which a contiguous layout cannot; choose a layout with chunks")
        return None
    if not shape:
        raise RewriteError("is a single value, which has no chunks")
    now = [max(extent, 1) for extent in shape]
    if isinstance(asked, str):
        return tuple(automatic_chunk(now, itemsize))
    if isinstance(asked, Mapping):
        (largest,) = asked.values()
        try:
            asked = balanced_chunk(now, itemsize, largest)
        except ValueError as error:
            raise RewriteError(f"has shape {tuple(shape)}: {error}") from None
    if len(asked) != len(shape):
        raise RewriteError(f"has {len(shape)} axes {tuple(shape)}, the chunk {list(asked)} has {len(asked)}")
    chunk = tuple(extent if part == "all" else int(part) for part, extent in zip(asked, now, strict=True))
    if any(limit is not None and size > limit for size, limit in zip(chunk, most, strict=True)):
        raise RewriteError(f"has shape {tuple(shape)}, which the chunk {list(chunk)} does not fit")
    if math.prod(chunk) * itemsize >= CHUNK_LIMIT:
        raise RewriteError(f"the chunk {list(chunk)} has 4 GiB or more; an HDF5 chunk must be smaller")
    return chunk


def extents(dataset: h5d.DatasetID) -> tuple[tuple[int, ...], tuple[int | None, ...]]:
    """Return the shape and largest shape of a dataset; None stands for unlimited."""
    space = dataset.get_space()
    most = (None if n == h5s.UNLIMITED else int(n) for n in space.get_simple_extent_dims(True))
    return tuple(map(int, space.get_simple_extent_dims())), tuple(most)


def can_grow(dataset: h5d.DatasetID) -> bool:
    """Return whether a dataset may become longer along some axis."""
    shape, most = extents(dataset)
    return any(limit != extent for limit, extent in zip(most, shape, strict=True))


def chunks_for(dataset: h5d.DatasetID, layout: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Return the chunk shape of `layout` on a dataset; RewriteError, without names,
    where it cannot be rewritten.
    """
    creation, datatype = dataset.get_create_plist(), dataset.get_type()
    # First: of sources without an end HDF5 would look for the extent for ever.
    if creation.get_layout() == h5d.VIRTUAL:
        raise RewriteError("is a virtual dataset, whose values lie in other datasets: rewrite those")
    if dataset.get_space().get_simple_extent_type() == h5s.NULL:
        raise RewriteError("has no extent (a null dataspace), so that there is nothing to lay out")
    if not is_plain(datatype):
        raise RewriteError("has elements of variable length or references, which lie outside of its chunks")
    if creation.get_external_count():
        raise RewriteError(
            "has its values in other files (external storage), which HDF5 allows without chunks only"
        )
    check_filters(dataset)
    chunk = _checked_chunk(dataset, layout)
    if second := layout.get("second"):
        try:
            _checked_chunk(dataset, second)
        except RewriteError as error:
            raise RewriteError(f"cannot have its second copy: {error}") from None
        if _dtype(datatype) is None:
            raise RewriteError("cannot have a second copy: NumPy has no such type")
        _check_free(dataset)
    never = layout["settings"].get("fill_time") == "never"
    if never and creation.get_fill_time() != h5d.FILL_TIME_NEVER and not StoredChunks(dataset).complete():
        raise RewriteError(
            "has parts that were never written, which have no value with fill_time: never; leave that out"
        )
    if layout["compact"] and math.prod(dataset.shape) * datatype.get_size() > COMPACT_LIMIT:
        raise RewriteError("is too large for compact storage, which has less than 64 KiB")
    return chunk


def _check_free(dataset: h5d.DatasetID) -> None:
    """Raise RewriteError where something stands already where the second copy of a dataset would."""
    beside = h5i.get_name(dataset) + SUFFIX.encode()
    group, _, name = beside.rpartition(b"/")
    # It stays open for as long as its links are asked for.
    parent = h5g.open(h5i.get_file_id(dataset), group or b"/")
    # Also a link that leads nowhere.
    if parent.links.exists(name):
        raise RewriteError(
            f"has {shown(beside)} already, where the second copy would stand; rename or delete that"
        )


def _checked_chunk(dataset: h5d.DatasetID, stored: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Return the shape of a dataset's `chunks`; RewriteError where it cannot get them or the `filters`."""
    datatype = dataset.get_type()
    chunk = resolved_chunks(stored["chunks"], *extents(dataset), datatype.get_size())
    if chunk is None and stored["filters"]:
        raise RewriteError("cannot have filters without chunks")
    # Of a type that NumPy does not have HDF5 decides.
    dtype = _dtype(datatype)
    if dtype in NUMBERS and (wrong := refusal(stored["filters"], dtype, chunk or ())):
        raise RewriteError(f"cannot have this filter: {wrong}")
    return chunk


def _dtype(datatype: h5t.TypeID) -> str | None:
    """Return NumPy's name of a type, without its byte order; None where NumPy does not have it."""
    try:
        return str(datatype.dtype.newbyteorder("=").name)
    # The second of floats that are longer than any of NumPy's.
    except (TypeError, ValueError):
        return None


def check_filters(dataset: h5d.DatasetID) -> None:
    """Raise RewriteError, without names, where a dataset cannot be read for want of a filter's plug-in."""
    if why := filter_setters.missing(dataset):
        raise RewriteError(why)


def put_chunks(creation: h5p.PropDCID, chunk: Sequence[int], filters: Sequence[dict[str, Any]]) -> None:
    """Have datasets made with `creation` get chunks and filters; RewriteError where a filter is not there."""
    creation.set_chunk(tuple(chunk))
    try:
        filter_setters.prepare(filters)
    except Unavailable as error:
        raise RewriteError(str(error)) from None
    filter_setters.apply(creation, filters)


def create(
    source: h5d.DatasetID,
    datatype: Any,
    chunk: Sequence[int] | None,
    layout: Mapping[str, Any],
    lists: Lists,
    place: Place,
) -> None:
    """Make the dataset with its new layout, all else (fill value, extents, order of attributes) as it was."""
    creation = source.get_create_plist()
    if creation.get_nfilters():
        creation.remove_filter(ALL_FILTERS)
    if layout["compact"]:
        creation.set_layout(h5d.COMPACT)
        creation.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    elif chunk is None:
        creation.set_layout(h5d.CONTIGUOUS)
        creation.set_alloc_time(h5d.ALLOC_TIME_LATE)
    else:
        put_chunks(creation, chunk, layout["filters"])
        creation.set_alloc_time(h5d.ALLOC_TIME_INCR)
    mine = Lists(lists.file_creation, lists.file_access, creation, lists.access, lists.transfer)
    for setting in ("alloc_time", "fill_time"):
        if setting in layout["settings"]:
            KNOBS[setting].put(mine, layout["settings"][setting], "")
    group, name, linking = place
    h5d.create(group, name, datatype, source.get_space(), creation, linking).close()


def opened(file: Any, path: bytes, budget: int) -> h5d.DatasetID:
    """Return a dataset, with a chunk cache that holds two of its chunks but at most an eighth of the budget.

    A chunk that fits is read and written whole instead of row by row. Several processes that share the work
    have a cache each, and at most a quarter of the budget in all.
    """
    dataset = h5d.open(file, path)
    creation = dataset.get_create_plist()
    if creation.get_layout() != h5d.CHUNKED:
        return dataset
    chunk = math.prod(creation.get_chunk()) * dataset.get_type().get_size()
    # While it is open another cache is not to be had.
    dataset.close()
    access = h5p.create(h5p.DATASET_ACCESS)
    size = 2 * chunk
    # How many there are the system is asked each time, which takes longer than to open a dataset.
    if size > budget // (4 * MOST_PROCESSES):
        size = min(size, budget // max(8, 4 * processors()))
    access.set_chunk_cache(521, size, 1.0)
    return h5d.open(file, path, access)
