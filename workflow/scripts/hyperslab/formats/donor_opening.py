"""Opening a donor's array, in a file of HDF5, .npy or imzML; what is wrong with it is said in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hyperslab.data.donor_paths import SEPARATOR, NotThere, is_hdf5, located
from hyperslab.measuring import limits
from hyperslab.validation.nearest import choices

IMZML = ".imzml"
# What files of NetCDF-3 begin with.
NETCDF_3 = b"CDF"
# What an imzML file says of arrays that are not as they are (MS:1000574).
COMPRESSED = "zlib compression"
# So many missing files stand in one line.
MOST_NAMED = 3


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
        found = dataset_of(file, path, dataset)
        if found.shape is None:
            raise DonorError(f"{path}: {dataset} is a null dataset, which holds nothing")
        yield found


def dataset_of(file: Any, path: Path, name: str | None) -> Any:
    """Return a dataset of an open HDF5 file, also at the end of a link; raises DonorError without one, and
    where not all of its values can be read.
    """
    import h5py

    if name is not None and isinstance(dataset := file.get(name), h5py.Dataset):
        check_filters(path, dataset)
        # Before anything is asked of it: of sources without an end HDF5 would look for the shape for ever.
        _check_other_files(path, dataset)
        return dataset
    there: list[str] = []
    file.visititems(lambda key, item: there.append(f"/{key}") if isinstance(item, h5py.Dataset) else None)
    asked = "dataset is required" if name is None else f"no dataset {name!r}"
    link = file.get(name, getlink=True) if name else None
    if isinstance(link, h5py.ExternalLink):
        asked = f"{name} leads to {link.filename}{SEPARATOR}{link.path}, which is not there"
    raise DonorError(f"{path}: {asked}; the file has {choices(name, there)}")


def check_filters(path: Path, dataset: Any) -> None:
    """Raise DonorError where an HDF5 dataset cannot be read for want of a filter; plug-ins are made known."""
    from hyperslab.formats.hdf5 import filter_setters

    if why := filter_setters.missing(dataset.id):
        raise DonorError(f"{path}: {dataset.name} {why}")


def _check_other_files(path: Path, dataset: Any) -> None:
    """Raise DonorError where files are missing that hold values, or too many to be open: a virtual dataset
    would have fill values.
    """
    from hyperslab.formats.hdf5.other_files import whereabouts

    # At the end of an external link it is one of another file.
    where = whereabouts(dataset.id, Path(dataset.file.filename))
    if lost := where.missing:
        some = ", ".join(lost[:MOST_NAMED]) + (" and more" if len(lost) > MOST_NAMED else "")
        raise DonorError(f"{path}: {dataset.name} has values in files that are not there: {some}")
    if dataset.is_virtual:
        try:
            # HDF5 closes no source before the dataset is closed.
            limits.allow_files(len(where.holders), "reading")
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


def place_of(donor: dict[str, Any]) -> tuple[Path, str | None]:
    """Return the file and dataset of a donor; raises DonorError where the path cannot be known."""
    try:
        return located(donor)
    except NotThere as reason:
        raise DonorError(str(reason)) from None
