"""Specifications as typed dictionaries: what decides the bytes of a test file, and what is measured of it."""

from __future__ import annotations

import hashlib
import json
from typing import Any, NotRequired, Required, TypedDict

# Of a repeat, opening included, in the median: more of these cost little, and 45 leave 39 % less variance
# between rounds than 15 do.
SHORT_SECONDS = 0.05

# Of `fetch`: each worker copies what it needs for itself.
EACH = "each"
# What is timed beside cold summaries: all files, read by a process that does nothing else.
PLAIN = "plain read"


class DatasetSpecification(TypedDict):
    """The array that is stored."""

    # Names of the axes, and elements along each.
    axes: list[str]
    shape: list[int]
    # A name of NumPy's, such as "uint16".
    dtype: str
    # What fills it where it has no donor.
    fill: NotRequired[str]
    # The file whose values fill it: path, variable and which part.
    donor: NotRequired[dict[str, Any]]
    # How long ragged rows are; their one axis is "row".
    rows: NotRequired[dict[str, Any]]
    # What stands where there is no value, if the fill does not say so.
    missing: NotRequired[float]


class LayoutSpecification(TypedDict, total=False):
    """How the array is stored; what a format does not know, its layouts do not have.

    Keys of formats that are registered from elsewhere are theirs alone; their Layout reads them.
    """

    format: Required[str]
    # Names of the axes as they lie on disk, slowest first.
    order: Required[list[str]]
    label: str | None
    # In elements, in array terms; None where the array is contiguous.
    chunks: list[int] | None
    # Settings of the format's library.
    settings: dict[str, Any]
    # Several files: the axis along which the array is cut (position and name), indices of a file or a word of
    # the calendar, and the date of index 0.
    files: dict[str, Any]
    # HDF5: filters with their options, "compact" where it is, and the release that writes and reads it.
    filters: list[dict[str, Any]]
    storage: str
    release: str
    # HDF5 and Zarr: how many coarser levels lie beside the array, and what they hold.
    pyramid: dict[str, Any]
    # Of two copies in a file the other one: its chunks and filters.
    beside: dict[str, Any]
    # Whether the file has dimensions as netCDF-4 keeps them.
    netcdf: bool
    # Zarr: elements of a shard, and codecs with their options.
    shards: list[int]
    codecs: list[dict[str, Any]]
    # IDX: the array's own axes, the order of splits, samples of a block as a power of two, blocks of a file,
    # how samples lie within a block, the codec, and the axes of time steps and fields where there are some.
    axes: list[str]
    bitmask: str
    bits_per_block: int
    blocks_per_file: int
    within_block: str
    codec: str
    times: str
    fields: str
    # In an object store: the client that reads, and how it caches.
    access: dict[str, Any]
    # OPeNDAP: processes of the server that answer.
    workers: int
    # Ragged rows: bytes of a chunk of values, rows of a chunk of what leads to them.
    chunk_bytes: int | None
    row_chunk: int | None
    # Flattened rows: offsets instead of lengths. Padded rows: elements of each.
    offsets: bool
    width: int
    # Offsets with a vector: bytes of the chunk caches of the vector and of what leads to rows, and whether
    # space of replaced rows is reused.
    chunk_cache: int
    row_cache: int
    reuse: bool
    # Parquet: the compressor and its level.
    compression: str
    level: int


class CaseSpecification(TypedDict, total=False):
    """What is timed; which keys there are beside the first three depends on the kind."""

    name: Required[str]
    kind: Required[str]
    states: Required[list[str]]
    # Elements per axis of a selection or of the planes of a reduction.
    extent: list[int]
    # Selections: step and block of strides, the type in memory, and the level: every 2^level-th element.
    pattern: dict[str, Any]
    memory_dtype: str
    level: int
    # Views that become finer: the levels, coarsest first, and the axes of their pictures.
    levels: list[int]
    picture: list[str]
    # Writes: the strategy and, where that is "box", its block by axis.
    strategy: str
    block: dict[str, Any] | None
    # Ragged rows: those of a selection, or how they are written.
    rows: dict[str, Any]
    # Workers: the family of cases that differ in their number, what they are, and how many.
    family: str
    by: str
    workers: int
    # Reductions: the axis of the planes, and that along which workers share.
    planes: str
    split: str
    # Summaries: what is found of each plane, and whether files are copied first, by "each" worker its own.
    statistics: str
    fetch: bool | str
    # Summaries: whether the kernel is told what is read next, and what is timed beside each cold one.
    ahead: bool
    beside: str
    # Workers: the memory that each has to itself, its page cache included.
    node_memory_bytes: int
    # Clients: extents by kind of request, and how many requests they share.
    clients: dict[str, list[int]]
    requests: int
    # Parallel access: datasets, bytes and transfers, in the terms of its benchmark.
    parallel: dict[str, Any]
    # Sub-volumes that ranks write: the way, parts along each axis that is cut, and how many ranks aggregate.
    subvolumes: dict[str, Any]


class Specification(TypedDict):
    """A test file (dataset and layout), and of a cell all the rest."""

    dataset: DatasetSpecification
    layout: LayoutSpecification
    case: NotRequired[CaseSpecification]
    # Number of repeats by state.
    repeats: NotRequired[dict[str, int]]
    # Number of repeats by state to which a cell goes on where its first ones take less than SHORT_SECONDS.
    most_repeats: NotRequired[dict[str, int]]
    # Name of the study, which with its seed decides where selections lie; of kinds that draw them.
    study: NotRequired[str]
    seed: NotRequired[int]
    # "r0" … for main rounds, "c0" … for confirming ones.
    round: NotRequired[str]
    protocol: NotRequired[int]
    # "other-node" where another node has to read than wrote.
    reader: NotRequired[str]


def file_digest(spec: Specification) -> str:
    """Return what tells the test file of a specification, be it a cell's or the file's own, from others."""
    decides = {"dataset": spec["dataset"], "layout": spec["layout"]}
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()
