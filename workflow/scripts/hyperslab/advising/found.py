"""What a user's file says of its array, in the words of a study: axes, extents, type, chunks, filters."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from hyperslab.data.donor_paths import SEPARATOR
from hyperslab.formats.donor_files import pieces
from hyperslab.formats.donor_opening import DonorArray, DonorError, open_donor, readable
from hyperslab.formats.hdf5.description import NO_VARIABLE
from hyperslab.formats.hdf5.filter_names import named
from hyperslab.formats.hdf5.other_files import unending, whereabouts
from hyperslab.layouts.hdf5_filters import FILTERS, refusal
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
    """What a file says of the array to be measured: extents, type, chunks and filters in study terms.

    `stored_dtype` is the type in the file where it is not measured as that, `unknown` why its layout is none
    that a study can have, empty where it is one. `grows`: it may become longer, which needs chunks.
    `rewritable`: its values lie in this file, which a rewrite can store otherwise.
    `pieces` are the extents of what is read whole, wherever it lies, None where there is no such thing; the
    values lie in the files `holders`.
    """

    file: Path
    dataset: str | None
    axes: list[str]
    shape: list[int]
    dtype: str
    chunks: list[int] | None
    filters: list[Any]
    stored_dtype: str = ""
    unknown: str = ""
    grows: bool = False
    rewritable: bool = False
    pieces: list[int] | None = None
    holders: tuple[Path, ...] = ()

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return np.dtype(self.dtype).itemsize


def look(file: Path, dataset: str | None) -> Found:
    """Return what a file says of its array; raises DonorError, also for one of several that is not named."""
    if dataset is None and file.is_file() and h5py.is_hdf5(file):
        dataset = _only_dataset(file)
    with readable(file), open_donor(file, dataset) as array:
        dtype = np.dtype(array.dtype)
        if dtype.kind not in "iuf":
            raise DonorError(f"{file}: holds {dtype}, not integers or floats")
        if not array.shape or 0 in array.shape:
            raise DonorError(f"{file}: has no axis to be read along: its shape is {tuple(array.shape)}")
        plain = dtype.newbyteorder("=").name
        measured = WIDER.get(plain, plain)
        filters, unknown = _storage(array, measured)
        chunks = getattr(array, "chunks", None)
        whole = pieces(array)
        return Found(
            file=file.absolute(),
            dataset=dataset,
            axes=_axes(array),
            shape=list(array.shape),
            dtype=measured,
            chunks=list(chunks) if chunks else None,
            filters=filters,
            stored_dtype=plain if measured != plain else "",
            unknown=unknown,
            grows=getattr(array, "maxshape", array.shape) != array.shape,
            rewritable=isinstance(array, h5py.Dataset) and _lies_in(array, file),
            pieces=list(whole) if whole else None,
            holders=tuple(_holders(array, file)),
        )


def _lies_in(array: h5py.Dataset, file: Path) -> bool:
    """Tell whether the values of a dataset lie in the file in which it was looked up, and in no other."""
    return not array.is_virtual and not array.external and os.path.samefile(array.file.filename, file)


def _holders(array: DonorArray, file: Path) -> list[Path]:
    """Return the files that hold the values of an array that was looked up in `file`."""
    if not isinstance(array, h5py.Dataset):
        return [file.absolute()]
    return [place.absolute() for place in whereabouts(array.id, Path(array.file.filename)).holders]


def arrays(file: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays of numbers in an HDF5 file, by name."""
    found: dict[str, tuple[int, ...]] = {}

    def visit(name: str, item: object) -> None:
        # A type that numpy has not is none of its numbers; a damaged dataset is not all of the file, nor is
        # one whose shape cannot be asked for.
        with suppress(TypeError, ValueError, RuntimeError):
            if not isinstance(item, h5py.Dataset) or unending(item.id, file):
                return
            if not item.shape or not item.size:
                return
            if item.dtype.kind in "iuf" and not _stands_alone(item):
                found[f"/{name}"] = item.shape

    with readable(file), h5py.File(file, "r") as opened:
        opened.visititems(visit)
    return found


def _stands_alone(array: h5py.Dataset) -> bool:
    """Tell whether a dataset is a dimension of netCDF-4 without a variable: a length, and no values."""
    name = array.attrs.get("NAME") if array.is_scale else None
    return isinstance(name, bytes) and name.startswith(NO_VARIABLE.encode())


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
    """Return a name for each axis: the file's labels or scales where they can be names, else usual ones.

    An axis has the usual name of its place, or the number of it where another axis is called so in the file;
    of names that stand twice none is taken.
    """
    count = len(array.shape)
    usual = USUAL.get(count, [f"a{number}" for number in range(count)])
    if not isinstance(array, h5py.Dataset):
        return usual
    said = []
    for dimension in array.dims:
        scale = ""
        # What it leads to may be gone, as of a dataset that was copied alone.
        with suppress(RuntimeError):
            scale = _text(dimension[0].name) if len(dimension) else ""
        text = re.sub(r"\W+", "-", _text(dimension.label) or scale.rsplit("/", 1)[-1]).strip("-")
        said.append("" if not text or name_mistake(text) else text)
    given = {text for text in said if text}
    if len(given) < sum(map(bool, said)):
        return usual
    spare = [name if name not in given else f"a{at}" for at, name in enumerate(usual)]
    names = [text or other for text, other in zip(said, spare, strict=True)]
    return names if len(set(names)) == count else usual


def _text(name: str | bytes | None) -> str:
    """Return a name of the file as text: h5py gives bytes where it is not UTF-8, None where there is none."""
    return name.decode(errors="replace") if isinstance(name, bytes) else name or ""


def _storage(array: DonorArray, dtype: str) -> tuple[list[Any], str]:
    """Return an array's filters as a study says them, and why its layout is none that a study can have."""
    if not isinstance(array, h5py.Dataset):
        return [], "the file is not HDF5"
    if array.is_virtual:
        return [], "the dataset is virtual, and its values lie in other datasets"
    if array.external:
        return [], "its values lie in files beside it"
    if not array.chunks:
        return [], ""
    filters = named(array.id)
    if filters is None or refusal(filters, dtype, array.chunks):
        return [], "the file has filters that a study cannot name"
    return [_in_study(one) for one in filters], ""


def _in_study(chosen: Mapping[str, Any]) -> Any:
    """Return a filter as a study says it: a single value stands for its first parameter."""
    options = {key: value for key, value in chosen.items() if key != "name"}
    if not options:
        return chosen["name"]
    single = list(options) == [next(iter(FILTERS[chosen["name"]].parameters))]
    return {chosen["name"]: next(iter(options.values())) if single else options}


def shortened(shape: Sequence[int], itemsize: int, largest: int = LARGEST_BYTES) -> list[int]:
    """Return the shape with its longest axes cut until the array has at most `largest` bytes."""
    kept = list(shape)
    while math.prod(kept) * itemsize > largest and max(kept) > 1:
        axis = kept.index(max(kept))
        second = max([extent for at, extent in enumerate(kept) if at != axis], default=1)
        wanted = max(1, int(largest // (math.prod(kept) // kept[axis] * itemsize)))
        kept[axis] = max(wanted, min(second, kept[axis] // 2), 1)
    return kept


def flow(value: Any) -> str:
    """Return a value as YAML on one line; whatever is JSON is YAML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(key)}: {flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z](?:[\w /-]*\w)?", value)
    words = ("true", "false", "yes", "no", "on", "off", "null")
    return value if plain and value.lower() not in words else json.dumps(value, ensure_ascii=False)
