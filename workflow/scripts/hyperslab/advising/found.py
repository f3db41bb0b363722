"""What a user's file says of its array, in the words of a study: axes, extents, type, chunks, filters."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from hyperslab.data.donor_paths import SEPARATOR
from hyperslab.formats.donor_files import DonorArray, DonorError, open_donor
from hyperslab.validation.errors import name_mistake
from hyperslab.validation.nearest import choices

# A longer array is cut for the test files: each cell writes its own.
LARGEST_BYTES = 256 * 10**6
# What axes are called where the file does not say.
USUAL = {1: ["i"], 2: ["row", "column"], 3: ["x", "y", "z"], 4: ["t", "x", "y", "z"]}
# Types that a study does not know, and those that hold their values.
WIDER = {"float16": "float32", "float128": "float64"}


@dataclass(frozen=True)
class Found:
    """What a file says of the array to be measured: extents, type, chunks and filters in study terms."""

    file: Path
    dataset: str | None
    axes: list[str]
    shape: list[int]
    dtype: str
    chunks: list[int] | None
    filters: list[Any]
    # It has filters that `filters` does not name.
    other_filters: bool = False

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return np.dtype(self.dtype).itemsize


def look(file: Path, dataset: str | None) -> Found:
    """Return what a file says of its array; raises DonorError, also for one of several that is not named."""
    if dataset is None and file.is_file() and h5py.is_hdf5(file):
        dataset = _only_dataset(file)
    with open_donor(file, dataset) as array:
        dtype = np.dtype(array.dtype)
        if dtype.kind not in "iuf":
            raise DonorError(f"{file}: holds {dtype}, not numbers")
        if not array.shape or 0 in array.shape:
            raise DonorError(f"{file}: has no axis to be read along: its shape is {tuple(array.shape)}")
        stored: Any = array if isinstance(array, h5py.Dataset) else None
        return Found(
            file=file.absolute(),
            dataset=dataset,
            axes=_axes(array),
            shape=list(array.shape),
            dtype=WIDER.get(dtype.newbyteorder("=").name, dtype.newbyteorder("=").name),
            chunks=list(stored.chunks) if stored and stored.chunks else None,
            filters=_filters(stored) if stored else [],
            other_filters=bool(stored)
            and len(_filters(stored)) < stored.id.get_create_plist().get_nfilters(),
        )


def arrays(file: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays of numbers in an HDF5 file, by name."""
    found: dict[str, tuple[int, ...]] = {}

    def visit(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and item.shape and item.size and item.dtype.kind in "iuf":
            found[f"/{name}"] = item.shape

    with h5py.File(file, "r") as opened:
        opened.visititems(visit)
    return found


def meant(found: dict[str, tuple[int, ...]]) -> list[str]:
    """Return the arrays that may be meant where none is named: those with more than one axis, else all."""
    return [name for name, shape in found.items() if len(shape) > 1] or list(found)


def _only_dataset(file: Path) -> str:
    """Return the name of the one array that may be meant; raises DonorError."""
    wide = meant(arrays(file))
    if len(wide) != 1:
        known = choices("", wide)
        raise DonorError(f"{file}: name an array of the file as {file.name}{SEPARATOR}NAME; it has {known}")
    return wide[0]


def _axes(array: DonorArray) -> list[str]:
    """Return a name for each axis: the file's labels or scales where they can be names, else usual ones."""
    count = len(array.shape)
    usual = USUAL.get(count, [f"a{number}" for number in range(count)])
    if not isinstance(array, h5py.Dataset):
        return usual
    named = []
    for dimension, fallback in zip(array.dims, usual, strict=True):
        scale = dimension[0].name if len(dimension) else ""
        text = re.sub(r"\W+", "-", dimension.label or (scale or "").rsplit("/", 1)[-1]).strip("-")
        named.append(fallback if not text or name_mistake(text) else text)
    return named if len(set(named)) == count else usual


def _filters(dataset: h5py.Dataset) -> list[Any]:
    """Return the filters of a dataset that a study can name so."""
    found: list[Any] = ["shuffle"] if dataset.shuffle else []
    if dataset.compression == "gzip":
        found.append({"gzip": dataset.compression_opts})
    elif dataset.compression == "lzf":
        found.append("lzf")
    return [*found, *(["fletcher32"] if dataset.fletcher32 else [])]


def shortened(shape: Sequence[int], itemsize: int, largest: int = LARGEST_BYTES) -> list[int]:
    """Return the shape with its longest axes cut until the array has at most `largest` bytes."""
    kept = list(shape)
    while math.prod(kept) * itemsize > largest and max(kept) > 1:
        axis = kept.index(max(kept))
        second = max([extent for at, extent in enumerate(kept) if at != axis], default=1)
        wanted = max(1, int(largest // (math.prod(kept) // kept[axis] * itemsize)))
        kept[axis] = max(wanted, min(second, kept[axis] // 2), 1)
    return kept


def even_chunks(shape: Sequence[int], itemsize: int, size: int) -> list[int]:
    """Return a chunk shape of about `size` bytes with as many chunks along every axis as axes allow.

    Planes across any axis then touch about equally many chunks.
    """
    chunk = list(shape)
    while math.prod(chunk) * itemsize > size:
        counts = [-(-extent // part) for extent, part in zip(shape, chunk, strict=True)]
        splittable = [axis for axis, part in enumerate(chunk) if part > 1]
        axis = min(splittable, key=lambda at: (counts[at], -chunk[at]))
        chunk[axis] = -(-chunk[axis] // 2)
    return chunk


def flow(value: Any) -> str:
    """Return a value as YAML on one line; whatever is JSON is YAML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(key)}: {flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z](?:[\w /-]*\w)?", value)
    words = ("true", "false", "yes", "no", "on", "off", "null")
    return value if plain and value.lower() not in words else json.dumps(value, ensure_ascii=False)
