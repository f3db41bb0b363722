"""What a study file may say of its dataset: axes, shape and type of the array, or its rows; what fills it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from hyperslab.data import models
from hyperslab.data.daily_grid import MISSING
from hyperslab.data.rows import DONOR
from hyperslab.data.values import DAILY_GRID
from hyperslab.studies.rows_schema import RowLengths
from hyperslab.validation.errors import Forms
from hyperslab.validation.models import Count, Name, Strict, Text

DType = Literal[
    "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64"
]
ITEMSIZE = {name: int(name.lstrip("uintfloa")) // 8 for name in get_args(DType)}
LARGEST_BYTES = 2**62


def _in_all_digits(given: float | None) -> float | None:
    """Return a number as a float, but for a whole one that only an integer holds, of up to 64 bits.

    NetCDF marks what is missing among integers of 64 bits by such ones.
    """
    near = None if given is None else float(given)
    return near if near == given else given


class DonorFile(Strict):
    """A real file whose values fill the array."""

    path: Text = Field(
        description="HDF5, NetCDF-4, imzML or .npy; may hold ~ and $VARIABLES, and be FILE::DATASET"
    )
    dataset: Text | None = Field(default=None, description="the array in the file")
    window: list[Count] | None = Field(
        default=None,
        description="extents after which the values are repeated, elements; by default those of the donor",
    )
    offsets: Text | None = Field(
        default=None, description="ragged rows: the dataset of their offsets, one more than there are rows"
    )
    lengths: Text | None = Field(default=None, description="ragged rows: the dataset of their lengths")


class Collection(Strict):
    """A dataset whose layouts may keep it in several files (`files`), cut along one axis."""

    along: Name = Field(description="the axis along which files follow each other, such as day")
    first: date | None = Field(
        default=None, description="the date of index 0 of an axis of days, which a file a month or year needs"
    )


class Dataset(Strict):
    """Shape, type and content of the array, in array terms."""

    axes: list[Name] = Field(min_length=1, description="a name for each axis, slowest first")
    shape: list[Count] = Field(min_length=1, description="extent of each axis, elements")
    dtype: DType = Field(default="uint16", description="type of an element")
    fill: Literal["mixed", "constant-per-spectrum", "random-below-256", "counts", "daily-grid"] = Field(
        default="mixed",
        description="synthetic values: mixed, so that no wrong element passes; counts, which compress; "
        "daily-grid, fields over (day, latitude, longitude) with no values over land",
    )
    donor: DonorFile | None = Field(default=None, description="real values instead")
    rows: RowLengths | None = Field(
        default=None, description="ragged rows instead of an array, which has axes and a shape"
    )
    missing: Annotated[
        float | Annotated[int, Field(ge=-(2**63), lt=2**64)] | None,
        AfterValidator(_in_all_digits),
        Forms("a number"),
    ] = Field(
        default=None,
        description="what stands where there is no value, which summaries leave out; a daily-grid has "
        "its own, -999",
    )
    collection: Collection | None = Field(
        default=None, description="layouts may keep the array in several files, as their `files` says"
    )

    @model_validator(mode="before")
    @classmethod
    def _axis_of_rows(cls, given: Any) -> Any:
        if not isinstance(given, dict) or not given.get("rows"):
            return given
        if given.keys() & {"shape", "axes"}:
            raise ValueError("has `rows`, whose number and lengths say all; leave axes and shape out")
        count = given["rows"].get("count") if isinstance(given["rows"], dict) else None
        # What is no number is a mistake of `rows`, which says so.
        shape = [count if type(count) is int and count > 0 else 1]
        return {**given, "axes": ["row"], "shape": shape}

    @model_validator(mode="before")
    @classmethod
    def _shape_of_a_donor(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("donor") and not given.keys() & {"shape", "axes", "rows"}:
            raise ValueError(
                "has a donor, but neither axes nor shape; `python -m hyperslab.draft FILE::DATASET` writes a "
                "study with those of a file"
            )
        return given

    @model_validator(mode="after")
    def _one_name_an_axis(self) -> Dataset:
        if len(self.axes) != len(self.shape) or len(set(self.axes)) != len(self.axes):
            raise ValueError(f"axes {self.axes} and shape {self.shape} need one distinct name an axis")
        if len(self.axes) > 32:
            raise ValueError("HDF5 knows at most 32 dimensions")
        if self.nbytes > LARGEST_BYTES:
            raise ValueError(f"shape {self.shape} is beyond any file system")
        if self.fill == "random-below-256" and self.dtype == "int8":
            raise ValueError("fill random-below-256 needs a dtype that holds 255, not int8")
        if self.fill == DAILY_GRID and not self.donor:
            if not self.dtype.startswith("float") or len(self.shape) != 3:
                raise ValueError(
                    "fill daily-grid has three axes (day, latitude, longitude) of float32 or float64"
                )
            if self.missing is not None:
                raise ValueError(
                    f"fill daily-grid has {MISSING:g} where there is no value; leave `missing` out"
                )
        if self.missing is not None and not self._holds(self.missing):
            raise ValueError(f"missing: {self.missing:g} is no {self.dtype}, so that no element can be it")
        if self.collection and (self.rows or self.collection.along not in self.axes):
            raise ValueError(
                f"collection.along: should be an axis of the array, one of {', '.join(self.axes)}"
            )
        if self.collection and (first := self.collection.first):
            days = self.shape[self.axes.index(self.collection.along)]
            if days > (date.max - first).days + 1:
                end = f"{days:,} days from {first} on end after the year {date.max.year}"
                other = f"leave it out where {self.collection.along} is no axis of days"
                raise ValueError(f"collection.first: {end}; {other}")
        if self.rows and (self.rows.lengths == DONOR) != bool(self.donor):
            raise ValueError("rows whose lengths are a donor's need `donor`, and no others have one")
        if self.donor and not self.rows and (self.donor.offsets or self.donor.lengths):
            raise ValueError("donor.offsets and donor.lengths are for `rows`")
        if self.donor and self.donor.window and len(self.donor.window) != len(self.shape):
            raise ValueError(f"donor.window needs {len(self.shape)} extents, one an axis")
        return self

    def _holds(self, value: float) -> bool:
        """Return whether an element can have a value, floats within their digits."""
        if self.dtype.startswith("float"):
            return abs(value) <= float(np.finfo(self.dtype).max)
        whole = float(value).is_integer()
        return whole and np.iinfo(self.dtype).min <= value <= np.iinfo(self.dtype).max

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return ITEMSIZE[self.dtype]

    @property
    def nbytes(self) -> int:
        """Bytes of the raw array, or of the values of all rows."""
        return self.bytes_of(self.shape)

    @property
    def model(self) -> str:
        """The data model: an array, or rows (data.models)."""
        return models.model_of({"rows": self.rows, "collection": self.collection})

    @property
    def longest(self) -> int:
        """Elements of the longest of all rows."""
        return models.longest({"shape": self.shape, "rows": self._rows()})

    def values_shape(self, shape: Sequence[int]) -> list[int]:
        """Return the extents of all values of an array, or of as many rows as `shape` says: end to end."""
        return models.values_shape({"shape": shape, "rows": self._rows()})

    def _rows(self) -> dict[str, Any] | None:
        return self.rows.described() if self.rows else None

    def bytes_of(self, shape: Sequence[int]) -> int:
        """Return the bytes of all values of an array of this shape, or of so many rows."""
        return math.prod(self.values_shape(shape)) * self.itemsize
