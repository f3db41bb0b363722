"""Donors of ragged rows: values with offsets or lengths, variable-length rows, `ragged` ones, or spectra.

Prepared once as a .npy with the values end to end, behind which a second one has the lengths (data.rows).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from hyperslab import ragged
from hyperslab.data.donor_paths import is_hdf5
from hyperslab.formats.donor_files import converted
from hyperslab.formats.donor_opening import (
    IMZML,
    DonorError,
    check_filters,
    dataset_of,
    place_of,
    readable,
    spectra,
)
from hyperslab.ragged.convention import MARK
from hyperslab.ragged.vlen import element_type, vlen_blocks

Lengths = npt.NDArray[np.int64]
# Lengths, how many values are there where the file says it beside them, and what reads those of all rows.
Found = tuple[Lengths, int | None, Callable[[], npt.NDArray[Any]]]
# What a spectrum of an imzML file has, in the order in which it is read.
SPECTRA = ("mz", "intensity")


def check(spec: dict[str, Any]) -> int:
    """Return the bytes that a dataset uses of its donor; raises DonorError for rows that it does not say."""
    lengths, _ = _read(spec, only_lengths=True)
    dtype: np.dtype[Any] = np.dtype(spec["dtype"])
    return int(lengths.sum()) * dtype.itemsize + lengths.nbytes


def prepare(spec: dict[str, Any], output: Path) -> None:
    """Write values and lengths of the donor's rows to `output`; raises DonorError."""
    lengths, values = _read(spec)
    with output.open("wb") as file:
        np.save(file, values)
        np.save(file, lengths)


def _read(spec: dict[str, Any], only_lengths: bool = False) -> tuple[Lengths, npt.NDArray[Any]]:
    """Return the lengths of a donor's rows, and their values in the dataset's type."""
    donor, rows, dtype = spec["donor"], spec["rows"], np.dtype(spec["dtype"])
    path, name = place_of(donor)
    if not path.is_file():
        raise DonorError(f"{path}: there is no such file")
    with readable(path):
        if is_hdf5(path):
            found = _of_hdf5(path, name, donor)
        elif path.suffix.lower() == IMZML:
            found = _of_imzml(path, name)
        else:
            raise DonorError(
                f"{path}: holds no rows: it is neither HDF5 by its content nor {IMZML} by its name"
            )
        with found as (lengths, there, values):
            _check(path, lengths, rows, there)
            if only_lengths:
                return lengths, np.empty(0, dtype)
            return lengths, converted(np.asarray(values()), dtype, path)


@contextmanager
def _of_hdf5(path: Path, name: str | None, donor: dict[str, Any]) -> Iterator[Found]:
    """Yield the rows of an HDF5 file: of the variable-length type, of `ragged`, or values beside lengths."""
    with h5py.File(path) as file:
        dataset = _dataset(file, path, name)
        if h5py.check_vlen_dtype(dataset.dtype) is not None:
            kind = element_type(dataset)
            _check_numbers(path, dataset, kind)
            blocks = list(vlen_blocks(dataset, kind))
            lengths = np.concatenate([np.empty(0, np.int64), *(block[0] for block in blocks)])
            yield lengths, None, lambda: np.concatenate([np.empty(0, kind), *(block[1] for block in blocks)])
        elif MARK in dataset.attrs:
            rows = ragged.open(dataset)
            _check_numbers(path, dataset, rows.dtype)
            check_filters(path, rows.vector)
            yield rows.lengths, None, lambda: rows.read(slice(0, len(rows)))[1]
        else:
            _check_numbers(path, dataset, dataset.dtype)
            lengths = _lengths(file, path, donor, dataset)
            yield lengths, len(dataset), lambda: dataset[: int(lengths.sum())]


@contextmanager
def _of_imzml(path: Path, name: str | None) -> Iterator[Found]:
    """Yield the spectra of an imzML file as rows: their intensities, or their m/z values."""
    if name not in SPECTRA:
        raise DonorError(f"{path}: donor.dataset should be {' or '.join(SPECTRA)}, not {name!r}")
    opened = spectra(path)
    lengths = np.array(getattr(opened, f"{name}Lengths"), np.int64)
    column = SPECTRA.index(name)

    def values() -> npt.NDArray[Any]:
        dtype = getattr(opened, f"{name}Precision")
        rows = [opened.getspectrum(number)[column] for number in range(len(lengths))]
        return np.concatenate([np.empty(0, dtype), *rows])

    yield lengths, None, values


def _dataset(file: h5py.File, path: Path, name: str | None) -> h5py.Dataset:
    """Return a dataset of one axis; raises DonorError."""
    found = dataset_of(file, path, name)
    if found.ndim != 1:
        raise DonorError(f"{path}: {name} has {found.ndim} axes; rows have one")
    return found


def _check_numbers(path: Path, dataset: h5py.Dataset, kind: np.dtype[Any]) -> None:
    """Raise DonorError for rows whose elements are no numbers, such as records."""
    if kind.kind not in "iuf":
        raise DonorError(f"{path}: {dataset.name} holds {kind}, not integers or floats")


def _lengths(file: h5py.File, path: Path, donor: dict[str, Any], values: h5py.Dataset) -> Lengths:
    """Return the lengths of rows whose values lie end to end, from what the study names beside them."""
    given = [key for key in ("offsets", "lengths") if donor.get(key)]
    if len(given) != 1:
        raise DonorError(
            f"{path}: {values.name} holds values; donor.offsets or donor.lengths has to say whose"
        )
    beside = _dataset(file, path, donor[given[0]])
    if beside.dtype.kind not in "iu":
        raise DonorError(f"{path}: {beside.name} holds {beside.dtype}, not whole numbers")
    numbers = beside[:].astype(np.int64)
    if given == ["offsets"] and (not len(numbers) or numbers[0] != 0):
        raise DonorError(f"{path}: {beside.name} should hold offsets from 0 on, one more than there are rows")
    lengths: Lengths = np.diff(numbers) if given == ["offsets"] else numbers
    if len(lengths) and lengths.min() < 0:
        raise DonorError(f"{path}: {beside.name} gives row {int(np.argmin(lengths))} a negative length")
    return lengths


def _check(path: Path, lengths: Lengths, rows: dict[str, Any], there: int | None) -> None:
    """Raise DonorError where rows are not those that a study says, or longer than their values."""
    total = int(lengths.sum())
    if there is not None and total > there:
        raise DonorError(f"{path}: rows have {total:,} elements, and there are {there:,} values")
    found = {"held": len(lengths), "elements": total, "longest": int(lengths.max(initial=0))}
    if wrong := {key: value for key, value in found.items() if rows[key] != value}:
        said = ", ".join(f"{key}: {value}" for key, value in found.items())
        raise DonorError(f"{path}: dataset.rows should have {said}, and has another {', '.join(wrong)}")
