"""Donors: real arrays whose values fill the test files. Read once, cut to what a study uses, kept as .npy."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hyperslab.data.donor_paths import SEPARATOR, NotThere, is_hdf5, located
from hyperslab.data.tiles import tiles
from hyperslab.measuring import limits
from hyperslab.text import megabytes
from hyperslab.validation.nearest import choices

# A few of these (read, converted, compared) are in memory at once.
TILE_BYTES = 64 * 2**20
IMZML = ".imzml"
# What files of NetCDF-3 begin with.
NETCDF_3 = b"CDF"
# What an imzML file says of arrays that are not as they are (MS:1000574).
COMPRESSED = "zlib compression"
# So many missing files stand in one line.
MOST_NAMED = 3
# What a file system says that knows of no blocks set aside.
NO_BLOCKS_ASIDE = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class DonorError(Exception):
    """A donor that cannot serve; the text is one line that names the file and the fix."""


class DonorArray(Protocol):
    """What a donor must offer: extent, type, and boxes of values."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __getitem__(self, index: tuple[slice, ...]) -> npt.NDArray[Any]: ...


Opener = Callable[[Path, str | None], AbstractContextManager[DonorArray]]


def spectra(path: Path) -> Any:
    """Return the parser of an imzML file whose values are there; raises DonorError where they are not."""
    from pyimzml.ImzMLParser import ImzMLParser

    values = path.with_suffix(".ibd")
    if not values.is_file():
        raise DonorError(f"{values}: there is no such file; it holds the values of {path.name}")
    with readable(path):
        parser = ImzMLParser(str(path))
    groups = parser.metadata.referenceable_param_groups.values()
    if any(COMPRESSED in group.param_by_name for group in groups):
        raise DonorError(f"{path}: its values have {COMPRESSED}, which is not read; write them without")
    end = 0
    for name in ("mz", "intensity"):
        # The parser knows no type of another size, and NumPy would take none for float64.
        if (precision := getattr(parser, f"{name}Precision")) is None:
            raise DonorError(f"{path}: its {name} values have a type that is not read; write 32 or 64 bits")
        size = np.dtype(precision).itemsize
        places = zip(getattr(parser, f"{name}Offsets"), getattr(parser, f"{name}Lengths"), strict=True)
        end = max([end, *(offset + length * size for offset, length in places)])
    if (there := values.stat().st_size) < end:
        raise DonorError(f"{values}: is shorter than {path.name} says: {there:,} bytes, not {end:,}")
    return parser


class ImzML:
    """An imzML image as an array (x, y, m/z); pixels that were not measured are zero."""

    def __init__(self, path: Path) -> None:
        self._parser = spectra(path)
        # NumPy would repeat a single intensity over the whole axis.
        lengths = {*self._parser.mzLengths, *self._parser.intensityLengths}
        if len(lengths) != 1:
            raise DonorError(
                f"{path}: its spectra have {min(lengths)} to {max(lengths)} values; bin them to one m/z axis"
            )
        self._pixels = {(x - 1, y - 1): index for index, (x, y, _) in enumerate(self._parser.coordinates)}
        if len(self._pixels) < len(self._parser.coordinates):
            raise DonorError(
                f"{path}: has several spectra at one (x, y), such as at several z; give each image a file"
            )
        if (least := min(map(min, self._pixels)) + 1) < 1:
            raise DonorError(f"{path}: its coordinates begin at {least}, and those of imzML at 1")
        extent = (max(axis) + 1 for axis in zip(*self._pixels, strict=True))
        self.shape = (*extent, lengths.pop())
        self.dtype = np.dtype(self._parser.intensityPrecision)

    def __getitem__(self, index: tuple[slice, ...]) -> npt.NDArray[Any]:
        ranges = [range(*part.indices(size)) for part, size in zip(index, self.shape, strict=True)]
        block = np.zeros([len(axis) for axis in ranges], self.dtype)
        for i, x in enumerate(ranges[0]):
            for j, y in enumerate(ranges[1]):
                if (pixel := self._pixels.get((x, y))) is not None:
                    block[i, j] = self._parser.getspectrum(pixel)[1][index[2]]
        return block


@contextmanager
def _open_hdf5(path: Path, dataset: str | None) -> Iterator[DonorArray]:
    import h5py

    with h5py.File(path, "r") as file:
        # Also at the end of a soft or external link.
        if dataset is None or not isinstance(file.get(dataset), h5py.Dataset):
            found: list[str] = []
            file.visititems(
                lambda name, item: found.append(f"/{name}") if isinstance(item, h5py.Dataset) else None
            )
            asked = "dataset is required" if dataset is None else f"no dataset {dataset!r}"
            link = file.get(dataset, getlink=True) if dataset else None
            if isinstance(link, h5py.ExternalLink):
                asked = f"{dataset} leads to {link.filename}{SEPARATOR}{link.path}, which is not there"
            raise DonorError(f"{path}: {asked}; the file has {choices(dataset, found)}")
        if file[dataset].shape is None:
            raise DonorError(f"{path}: {dataset} is a null dataset, which holds nothing")
        check_filters(path, file[dataset])
        _check_other_files(path, file[dataset])
        yield file[dataset]


def check_filters(path: Path, dataset: Any) -> None:
    """Raise DonorError where an HDF5 dataset cannot be read for want of a filter; plug-ins are made known."""
    from hyperslab.formats.hdf5 import filter_setters

    if why := filter_setters.missing(dataset.id):
        raise DonorError(f"{path}: {dataset.name} {why}")


def _check_other_files(path: Path, dataset: Any) -> None:
    """Raise DonorError where files are missing that hold values, or too many to be open: a virtual dataset
    would have fill values.
    """
    from hyperslab.formats.hdf5.other_files import holders, missing

    # At the end of an external link it is one of another file.
    file = Path(dataset.file.filename)
    if lost := list(dict.fromkeys(missing(dataset.id, file))):
        some = ", ".join(lost[:MOST_NAMED]) + (" and more" if len(lost) > MOST_NAMED else "")
        raise DonorError(f"{path}: {dataset.name} has values in files that are not there: {some}")
    if dataset.is_virtual:
        try:
            # HDF5 closes no source before the dataset is closed.
            limits.allow_files(len(holders(dataset.id, file)), "reading")
        except OSError as error:
            raise DonorError(f"{path}: {dataset.name}: {error.strerror}") from None


def _refuse_name(path: Path, dataset: str | None) -> None:
    if dataset is not None:
        raise DonorError(f"{path}: holds one array without a name; leave `dataset` out, not {dataset!r}")


@contextmanager
def _open_npy(path: Path, dataset: str | None) -> Iterator[DonorArray]:
    _refuse_name(path, dataset)
    yield np.load(path, mmap_mode="r", allow_pickle=False)


@contextmanager
def _open_imzml(path: Path, dataset: str | None) -> Iterator[DonorArray]:
    _refuse_name(path, dataset)
    yield ImzML(path)


# By the ending of a name, where the content does not say that it is HDF5.
OPENERS: dict[str, Opener] = {".npy": _open_npy, IMZML: _open_imzml}


def _opener(path: Path) -> Opener:
    if is_hdf5(path):
        return _open_hdf5
    if path.suffix.lower() not in OPENERS:
        with path.open("rb") as opened:
            if opened.read(len(NETCDF_3)) == NETCDF_3:
                raise DonorError(f"{path}: is NetCDF-3, and not HDF5; `nccopy -k nc4` makes NetCDF-4 of it")
        known = " or ".join(OPENERS)
        raise DonorError(
            f"{path}: unknown kind of donor: neither HDF5 by its content nor {known} by its name"
        )
    return OPENERS[path.suffix.lower()]


@contextmanager
def readable(path: Path | str) -> Iterator[None]:
    """Raise DonorError, in one line, for whatever a reader of a donor raises."""
    try:
        yield
    except DonorError:
        raise
    # The readers raise whatever a damaged file makes them stumble over.
    except Exception as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise DonorError(f"{path}: cannot be read: {why}") from None


@contextmanager
def _opened(path: Path, dataset: str | None) -> Iterator[DonorArray]:
    with ExitStack() as stack:
        with readable(path):
            array = stack.enter_context(_opener(path)(path, dataset))
        yield array


def _as_others_name_it(path: Path) -> str:
    """Return how to name an array that was named as other programs do, mine.h5/counts; "" if it was not."""
    candidates = [*path.parents, Path(str(path).partition(":")[0])]
    for file in (Path(str(candidate).rstrip(":")) for candidate in candidates):
        if file.is_file():
            return f"; an array of {file} is named {file}{SEPARATOR}/NAME"
    return ""


def open_donor(path: Path, dataset: str | None = None) -> AbstractContextManager[DonorArray]:
    """Open a donor's array; raises DonorError for a file of unknown kind, damaged or without the dataset."""
    if not path.exists():
        raise DonorError(f"{path}: there is no such file{_as_others_name_it(path)}")
    if not path.is_file():
        # A pipe would wait for its other end.
        raise DonorError(f"{path}: is not a file")
    return _opened(path, dataset)


def _located(donor: dict[str, Any]) -> tuple[Path, str | None]:
    """Return the file and dataset of a donor; raises DonorError where the path cannot be known."""
    try:
        return located(donor)
    except NotThere as reason:
        raise DonorError(str(reason)) from None


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
    path, dataset = _located(spec["donor"])
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
    path, dataset = _located(spec["donor"])
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
