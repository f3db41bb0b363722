"""Donors of ragged rows: a real file's values, and its offsets, its lengths, or its variable-length rows.

Prepared once as a .npy with the values end to end, behind which a second one has the lengths (data.rows).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from hyperslab.data.donor_paths import NotThere, is_hdf5, located
from hyperslab.formats.donor_files import DonorError, converted
from hyperslab.validation.nearest import choices


def check(spec: dict[str, Any]) -> None:
    """Raise DonorError where the donor of a dataset specification is not the rows that it describes."""
    _read(spec, only_lengths=True)


def prepare(spec: dict[str, Any], output: Path) -> None:
    """Write values and lengths of the donor's rows to `output`; raises DonorError."""
    lengths, values = _read(spec)
    with output.open("wb") as file:
        np.save(file, values)
        np.save(file, lengths)


def _read(spec: dict[str, Any], only_lengths: bool = False) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Return the lengths of a donor's rows, and their values in the dataset's type."""
    donor, rows, dtype = spec["donor"], spec["rows"], np.dtype(spec["dtype"])
    try:
        path, name = located(donor)
    except NotThere as reason:
        raise DonorError(str(reason)) from None
    if not path.is_file() or not is_hdf5(path):
        raise DonorError(f"{path}: {'is not HDF5' if path.is_file() else 'there is no such file'}")
    try:
        with h5py.File(path) as file:
            values = _dataset(file, path, name)
            lengths, own = _lengths(file, path, donor, values)
            _check(path, lengths, rows, len(values) if own is None else None)
            if only_lengths:
                return lengths, np.empty(0, dtype)
            flat = values[: int(lengths.sum())] if own is None else own
    except OSError as error:
        raise DonorError(f"{path}: cannot be read: {' '.join(str(error).split())}") from None
    return lengths, converted(np.asarray(flat), dtype, path)


def _dataset(file: h5py.File, path: Path, name: str | None) -> h5py.Dataset:
    """Return a dataset of one axis; raises DonorError."""
    found: list[str] = []
    file.visititems(lambda key, item: found.append(f"/{key}") if isinstance(item, h5py.Dataset) else None)
    if name is None or not isinstance(file.get(name), h5py.Dataset):
        asked = "dataset is required" if name is None else f"no dataset {name!r}"
        raise DonorError(f"{path}: {asked}; the file has {choices(name, found)}")
    if file[name].ndim != 1:
        raise DonorError(f"{path}: {name} has {file[name].ndim} axes; rows have one")
    return file[name]


def _lengths(
    file: h5py.File, path: Path, donor: dict[str, Any], values: h5py.Dataset
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any] | None]:
    """Return the lengths of rows; of variable-length rows their values, too."""
    if h5py.check_vlen_dtype(values.dtype) is not None:
        rows = list(values[:])
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        return lengths, np.concatenate(rows) if rows else np.empty(0)
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
    lengths = np.diff(numbers) if given == ["offsets"] else numbers
    if len(lengths) and lengths.min() < 0:
        raise DonorError(f"{path}: {beside.name} gives row {int(np.argmin(lengths))} a negative length")
    return lengths, None


def _check(path: Path, lengths: npt.NDArray[np.int64], rows: dict[str, Any], there: int | None) -> None:
    """Raise DonorError where rows are not those that a study says, or longer than their values."""
    total = int(lengths.sum())
    if there is not None and total > there:
        raise DonorError(f"{path}: rows have {total:,} elements, and there are {there:,} values")
    found = {"held": len(lengths), "elements": total, "longest": int(lengths.max(initial=0))}
    if wrong := {key: value for key, value in found.items() if rows[key] != value}:
        said = ", ".join(f"{key}: {value}" for key, value in found.items())
        raise DonorError(f"{path}: dataset.rows should have {said}, and has another {', '.join(wrong)}")
