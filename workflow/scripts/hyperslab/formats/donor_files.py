"""Donors: real arrays whose values fill the test files. Read once, cut to what a study uses, kept as .npy."""

from __future__ import annotations

import errno
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.data.donor_paths import SEPARATOR
from hyperslab.data.tiles import tiles
from hyperslab.formats.donor_opening import DonorArray, DonorError, ImzML, open_donor, place_of, readable
from hyperslab.text import megabytes

# A few of these (read, converted, compared) are in memory at once.
TILE_BYTES = 64 * 2**20
# What a file system says that knows of no blocks set aside.
NO_BLOCKS_ASIDE = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


@dataclass(frozen=True)
class Used:
    """What is used of a file: its array, the extents of that from the first element on, and those of what is
    read whole, [] where there is nothing such.
    """

    file: Path
    dataset: str | None
    shape: list[int]
    pieces: list[int]


def used(spec: dict[str, Any]) -> Used:
    """Return what a dataset uses of its donor; raises DonorError where that cannot fill it."""
    path, dataset = place_of(spec["donor"])
    try:
        with open_donor(path, dataset) as array, readable(path):
            return Used(path, dataset, _held(path, array, spec), list(pieces(array) or []))
    except (OSError, ValueError) as error:
        raise DonorError(f"{path}: cannot be read: {' '.join(str(error).split())}") from None


def check(spec: dict[str, Any]) -> int:
    """Return the bytes that a dataset uses of its donor; raises DonorError where that cannot fill it."""
    return math.prod(used(spec).shape) * int(np.dtype(spec["dtype"]).itemsize)


def _held(path: Path, array: DonorArray, spec: dict[str, Any]) -> list[int]:
    """Return the extents that are used of a donor; raises DonorError where it cannot fill the dataset."""
    if 0 in array.shape:
        raise DonorError(f"{path}: holds no element: its shape is {tuple(array.shape)}")
    if len(array.shape) != len(spec["shape"]):
        raise DonorError(
            f"{path}: has {len(array.shape)} axes {tuple(array.shape)}, the dataset has {len(spec['shape'])}"
        )
    held = [min(d, s) for d, s in zip(array.shape, spec["shape"], strict=True)]
    window = spec["donor"].get("window")
    if window and any(w > h for w, h in zip(window, held, strict=True)):
        raise DonorError(f"{path}: donor.window {window} is longer than what the donor holds, {held}")
    if np.dtype(array.dtype).kind not in "iuf":
        raise DonorError(f"{path}: holds {array.dtype}, not integers or floats")
    return held


def converted(block: npt.NDArray[Any], dtype: np.dtype[Any], path: Path) -> npt.NDArray[Any]:
    """Return `block` in `dtype`; raises DonorError where a value would change (floats may lose digits to
    floats, and none becomes infinite).
    """
    # What does not fit is found below.
    with np.errstate(over="ignore", invalid="ignore"):
        result = block.astype(dtype)
        if block.dtype.kind == "f" and dtype.kind == "f":
            same = np.array_equal(np.isfinite(result), np.isfinite(block))
        elif dtype.kind == "f":
            # Compared as floats, both would have lost the same digits; beyond the largest integer, what a
            # processor makes of it differs.
            beyond = float(np.iinfo(block.dtype).max) + 1
            same = bool((result < beyond).all()) and np.array_equal(result.astype(block.dtype), block)
        else:
            same = np.array_equal(result, block)
    if not same:
        raise DonorError(
            f"{path}: values from {block.min()} to {block.max()} ({block.dtype}) do not all fit {dtype}"
        )
    return result


def read_box(
    array: DonorArray, box: tuple[slice, ...], dtype: np.dtype[Any], path: Path, dataset: str | None
) -> npt.NDArray[Any]:
    """Return the values of a box in `dtype`; raises DonorError, also where they cannot be read."""
    with readable(f"{path}{SEPARATOR}{dataset}" if dataset else path):
        block = np.asarray(array[box])
    return converted(block, dtype, path)


def pieces(array: DonorArray) -> tuple[int, ...] | None:
    """Return the extents of what is read whole, however little of it is needed: of a chunk, or a spectrum;
    None where there is nothing such.
    """
    if isinstance(array, ImzML):
        return (1, 1, array.shape[2])
    if chunks := getattr(array, "chunks", None):
        return tuple(chunks)
    if not getattr(array, "is_virtual", False):
        return None
    from hyperslab.formats.hdf5.other_files import chunks_of

    dataset: Any = array
    return chunks_of(dataset.id, Path(dataset.file.filename))


def prepare(spec: dict[str, Any], output: Path) -> None:
    """Write the part of the donor that a dataset specification uses to `output`, piece by piece."""
    dtype = np.dtype(spec["dtype"])
    path, dataset = place_of(spec["donor"])
    with open_donor(path, dataset) as array:
        held = tuple(_held(path, array, spec))
        target = np.lib.format.open_memmap(output, mode="w+", dtype=dtype, shape=held)
        _set_aside(output)
        # Whole ones, so that none is read twice; one may reach beyond what is used.
        whole = pieces(array) or [1] * len(held)
        chunks = [min(extent, used) for extent, used in zip(whole, held, strict=True)]
        for tile in tiles(held, chunks, array.dtype.itemsize, TILE_BYTES):
            piece = tile.slices()
            target[piece] = read_box(array, piece, dtype, path, dataset)
        target.flush()


def _set_aside(file: Path) -> None:
    """Give all of a file its blocks; raises DonorError where there is no room.

    A page of a mapped file that gets no block when it is written would end the process (SIGBUS).
    """
    size = file.stat().st_size
    descriptor = os.open(file, os.O_RDWR)
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        if error.errno not in NO_BLOCKS_ASIDE:
            raise DonorError(f"{file}: {error.strerror}: it needs {megabytes(size)}; free some") from None
    finally:
        os.close(descriptor)
