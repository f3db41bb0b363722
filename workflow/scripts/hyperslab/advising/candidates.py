"""Layouts that may suit an array and its reads: chunk shapes around the reads, crossed with filters."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab import text
from hyperslab.layouts import hdf5_index
from hyperslab.layouts.chunks import chunk_count


@dataclass(frozen=True)
class Filter:
    """A filter by its name, with the options that are given."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def word(self) -> str:
        """A short name, such as gzip4 or blosc-lz4."""
        given = dict(self.options)
        return f"{self.name}-{given['codec']}" if "codec" in given else f"{self.name}{given.get('level', '')}"

    def resolved(self) -> dict[str, Any]:
        """Return it as specifications have it."""
        return {"name": self.name, **dict(self.options)}

    def in_study(self) -> Any:
        """Return it as a study says it."""
        return {self.name: dict(self.options)} if self.options else self.name


Filters = tuple[Filter, ...]
# A chunk has at least and at most so many bytes. HDF5 keeps chunks of up to 1 MiB; unfiltered ones that are
# larger are read piece by piece.
LEAST_BYTES, MOST_BYTES, MOST_UNFILTERED = 2**12, 2**22, 2**20
# Along an axis at most so many extents are tried.
MOST_EXTENTS = 24
# Of so many axes not even all extents that are read can be tried.
MANY_AXES = 8
# The superblock and the object headers, about.
HEADER_BYTES = 2048
SHUFFLE = Filter("shuffle")
HDF5, ZARR = "hdf5", "zarr"
# Of so many axes every order is considered.
MOST_PERMUTED = 3
# Those of zarr-python, which every reader of Zarr has; blosc sorts bytes by itself.
ZARR_CODECS = (
    Filter("zstd", (("level", 3),)),
    Filter("blosc", (("codec", "lz4"), ("level", 5), ("shuffle", "byte"))),
)
# What a user's readers have -> lossless filters worth a try; a shuffle before them where elements have bytes.
# LZF is h5py's own: neither every HDF5 has it nor hdf5plugin.
CODECS: Mapping[str, Sequence[Filter]] = {
    "builtin": [Filter("gzip", (("level", 1),)), Filter("gzip", (("level", 4),))],
    "any": [
        Filter("gzip", (("level", 4),)),
        Filter("zstd", (("level", 3),)),
        Filter("blosc", (("codec", "lz4"), ("level", 5), ("shuffle", "none"))),
    ],
}


@dataclass(frozen=True)
class Candidate:
    """A layout that might be used: chunk extents in elements (None: contiguous) and filters in order.

    `order` are the axes as they lie on disk, by number, slowest first; () is the array's own order, in which
    the chunk extents are always given.
    """

    chunks: tuple[int, ...] | None
    filters: Filters = ()
    order: tuple[int, ...] = ()
    format: str = HDF5

    @property
    def name(self) -> str:
        """A name that a study can give the layout, such as 10x5x256-shuffle-zstd3."""
        words = [] if self.format == HDF5 else [self.format]
        words += [text.shape(list(self.chunks) if self.chunks else None), *(one.word for one in self.filters)]
        return "-".join([*words, *(["axes", *map(str, self.order)] if self.order else [])])

    def layout(self, axes: Sequence[str] = ()) -> dict[str, Any]:
        """Return the layout as a study says it; `axes` are the names of those of the array."""
        found: dict[str, Any] = {} if self.format == HDF5 else {"format": self.format}
        if self.chunks is not None:
            found["chunks"] = list(self.chunks)
        if self.filters:
            found["filters" if self.format == HDF5 else "codecs"] = [one.in_study() for one in self.filters]
        return {**found, **({"order": [axes[at] for at in self.order]} if self.order else {})}

    def on_disk(self, extents: Sequence[int]) -> tuple[int, ...]:
        """Return extents of the array's axes in the order in which these lie on disk."""
        return tuple(extents[at] for at in self.order) if self.order else tuple(extents)


def filter_chains(readers: str, itemsize: int, format: str = HDF5) -> list[Filters]:
    """Return the filters to consider, none first, for elements of `itemsize` bytes."""
    if format != HDF5:
        return [(), *((codec,) for codec in ZARR_CODECS)]
    before: Filters = (SHUFFLE,) if itemsize > 1 else ()
    return [(), *((*before, codec) for codec in CODECS[readers])]


def orders(count: int) -> list[tuple[int, ...]]:
    """Return orders of `count` axes other than their own: all of few axes, else each axis last or first."""
    own = tuple(range(count))
    if count <= MOST_PERMUTED:
        return [one for one in itertools.permutations(own) if one != own]
    moved = [[at for at in own if at != axis] for axis in own]
    found = [(*rest, axis) for axis, rest in enumerate(moved)]
    found += [(axis, *rest) for axis, rest in enumerate(moved)]
    return [one for one in dict.fromkeys(found) if one != own]


def _extents(size: int, reads: Sequence[int]) -> list[int]:
    """Return chunk extents to try along an axis: the reads', parts of it, powers of two."""
    parts = {-(-size // count) for count in (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 64, 128, 256)}
    wanted = {1, *reads, *parts, *(2**power for power in range(1, 21))}
    fitting = sorted(one for one in wanted if one <= size)
    return _thinned(_even(fitting, size, reads), reads, MOST_EXTENTS)


def _even(extents: Sequence[int], size: int, reads: Sequence[int]) -> list[int]:
    """Return those extents that an axis can be cut into: what pads it by more than a tenth is no part of it,
    unless it is read so.
    """
    return [one for one in extents if one in reads or -(-size // one) * one <= 1.1 * size]


def _thinned(extents: Sequence[int], reads: Sequence[int], most: int) -> list[int]:
    """Return at most about `most` of ascending extents: what is read, the ends, and others evenly."""
    if len(extents) <= most:
        return list(extents)
    own = {one for one in extents if one in reads}
    others = [one for one in extents if one not in own]
    kept = {others[round(at)] for at in np.linspace(0, len(others) - 1, max(2, most - len(own)))}
    return sorted(kept | own)


def chunk_shapes(
    shape: Sequence[int], itemsize: int, reads: Sequence[Sequence[int]], most_extents: Sequence[int] = ()
) -> npt.NDArray[np.int64]:
    """Return chunk shapes to try (shapes x axes), of 4 KiB to 4 MiB, or of the array where that is less.

    None is longer than `most_extents` along any axis, where that is given, nor pads it much.
    """
    axes = []
    for size, longest, *along in zip(shape, most_extents or shape, *reads, strict=True):
        axes.append(_even([one for one in _extents(size, along) if one <= longest], longest, along))
    # Of more axes fewer extents each, so that all shapes are at most some hundred thousand.
    most = max(2, int(400_000 ** (1 / len(axes))))
    axes = [
        _thinned(found, [read[at] for read in reads] if len(axes) < MANY_AXES else (), most)
        for at, found in enumerate(axes)
    ]
    table = np.array(list(itertools.product(*axes)), np.int64)
    size = table.prod(axis=1) * itemsize
    least = min(LEAST_BYTES, math.prod(shape) * itemsize)
    found: npt.NDArray[np.int64] = table[(size >= least) & (size <= MOST_BYTES)]
    return found


def expected_touched(
    shapes: npt.NDArray[np.int64], array: Sequence[int], extent: Sequence[int]
) -> npt.NDArray[np.float64]:
    """Return how many chunks a random box touches on average along each axis (shapes x axes), exactly.

    Along an axis of s elements, box of e, chunks of c: 1 + [F(s) - F(e - 1) - F(s - e + 1)] / (s - e + 1)
    with F(N) the sum of floor(o / c) over o < N: the mean of the last chunk's number less the first one's.
    """

    def below(count: int, chunk: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        whole, rest = np.divmod(count, chunk)
        # As floats: of a long axis half the square is beyond 64 bits.
        found: npt.NDArray[np.float64] = chunk * (whole * ((whole - 1) / 2.0)) + whole * rest
        return found

    columns = []
    for axis, (size, width) in enumerate(zip(array, extent, strict=True)):
        chunk = shapes[:, axis]
        places = size - width + 1
        total = below(size, chunk) - below(width - 1, chunk) - below(places, chunk)
        columns.append(1.0 + total / places)
    return np.stack(columns, axis=1)


def file_bytes(candidate: Candidate, shape: Sequence[int], itemsize: int, chunk_bytes: float) -> float:
    """Return about how many bytes the file has: chunks with their index, and headers."""
    if candidate.chunks is None:
        return math.prod(shape) * itemsize + HEADER_BYTES
    count = chunk_count(shape, candidate.chunks)
    if candidate.format != HDF5:
        return count * chunk_bytes + HEADER_BYTES
    nodes = hdf5_index.btree_nodes(count) * hdf5_index.btree_node_bytes(len(shape))
    return count * chunk_bytes + nodes + HEADER_BYTES
