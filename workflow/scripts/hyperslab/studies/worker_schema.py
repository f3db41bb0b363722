"""What a study says of cases that several workers carry out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from hyperslab.data.sub_volumes import parts_along
from hyperslab.layouts.idx_ways import WAYS, IdxWay
from hyperslab.validation.errors import Forms
from hyperslab.validation.models import Count, Name, Strict, Text

# More than any node has cores, or any study ranks.
MOST_WORKERS = 65_536
Counts = Annotated[list[Annotated[Count, Field(le=MOST_WORKERS)]], Field(min_length=1)]
# A worker's interpreter and libraries take about as much.
LEAST_NODE_MEMORY = 2**26
Api = Literal["hdf5", "mpiio", "posix", "file-per-process"]
# What only MPI-IO has: collective calls, and hints to it.
THROUGH_MPI_IO = ("hdf5", "mpiio")


class Parallel(Strict):
    """What every rank writes and reads, in the terms of HDF5's own benchmark h5perf; sizes in bytes.

    Of each of `datasets` a rank holds `bytes`, moved `transfer` at a time. Contiguous: they lie in one piece,
    rank after rank. Interleaved: in blocks of `block`, of which every rank has one in turn.
    """

    apis: Annotated[list[Api], Field(min_length=1)] = Field(
        default=list(get_args(Api)), description="the ways to the file, a case each"
    )
    datasets: Count = Field(default=1, description="datasets in the file")
    bytes: Count = Field(description="bytes of each dataset that one rank holds")
    transfer: Count = Field(description="bytes of one call")
    block: Count | None = Field(
        default=None, description="bytes of one rank before the next one's, where interleaved"
    )
    interleaved: bool = Field(
        default=False, description="whether ranks take turns in the file instead of lying behind each other"
    )
    collective: bool = Field(default=False, description="whether calls are collective")
    hints: dict[Text, Text] = Field(default={}, description="hints to MPI-IO")

    @model_validator(mode="after")
    def _fitting(self) -> Parallel:
        if len(set(self.apis)) != len(self.apis):
            raise ValueError("apis: each at most once")
        if self.bytes % self.transfer:
            raise ValueError(f"bytes ({self.bytes}) should be a multiple of transfer ({self.transfer})")
        if self.block is not None and not self.interleaved:
            raise ValueError("only `interleaved: true` has blocks")
        if self.transfer % (self.block or self.transfer):
            raise ValueError(f"transfer ({self.transfer}) should be a multiple of block ({self.block})")
        for api in self.apis:
            if api not in THROUGH_MPI_IO and (self.collective or self.hints):
                what = "collective calls" if self.collective else "hints"
                raise ValueError(f"{api} has no {what}; only {' and '.join(THROUGH_MPI_IO)} have")
        return self


Way = Literal[IdxWay, "independent", "collective"]
Along = Name | Annotated[list[Name], Field(min_length=1)] | Annotated[dict[Name, Count], Field(min_length=1)]
ALONG_FORMS = "an axis, such as x, a list of them, or a mapping to numbers of parts, such as {x: 2, y: 2}"
EACH_FORMS = "a number of elements, or a mapping of each axis to one, such as {x: 256, y: 256}"


class Subvolumes(Strict):
    """What every rank writes of one dataset: the array is cut into as many sub-volumes as there are ranks."""

    ways: Annotated[list[Way], Field(min_length=1)] = Field(
        default=list(WAYS),
        description="the ways in which ranks write, a case each; independent and collective are those of "
        "parallel HDF5, the others of IDX",
    )
    along: Annotated[Along, Forms(ALONG_FORMS)] = Field(
        description="the axes along which the array is cut; of several, parts are as near to cubes as the "
        "number of ranks allows, unless a map says how many parts each axis has"
    )
    each: Annotated[Count | dict[Name, Count] | None, Forms(EACH_FORMS)] = Field(
        default=None,
        description="elements of one sub-volume along these axes, so that the array grows with the ranks; "
        "without it they share all of the array",
    )
    aggregators: Count | None = Field(
        default=None, description="ranks that put blocks together and write them; all, if none is given"
    )
    files_each: Count | None = Field(
        default=None,
        description="binary files for which a rank puts blocks together, so that as many ranks do as that "
        "takes; not with aggregators",
    )

    @model_validator(mode="after")
    def _fitting(self) -> Subvolumes:
        if len(set(self.ways)) != len(self.ways):
            raise ValueError("ways: each at most once")
        if len(set(self.axes)) != len(self.axes):
            raise ValueError("along: each axis at most once")
        if isinstance(self.each, dict) and set(self.each) != set(self.axes):
            raise ValueError(f"each: an extent for each of {', '.join(self.axes)}")
        if self.aggregators and self.files_each:
            raise ValueError("aggregators and files_each say the same thing; give one of them")
        if (self.aggregators or self.files_each) and "aggregated" not in self.ways:
            raise ValueError("aggregators and files_each: only the way aggregated has them")
        return self

    @property
    def axes(self) -> list[str]:
        """The axes along which the array is cut."""
        return [self.along] if isinstance(self.along, str) else list(self.along)

    def parts(self, extents: Mapping[str, int], ranks: int) -> dict[str, int]:
        """Return into how many parts each axis is cut; raises ValueError where that is not one a rank."""
        found = self.along if isinstance(self.along, dict) else None
        if found is None:
            return parts_along({axis: extents[axis] for axis in self.axes}, ranks)
        if math.prod(found.values()) != ranks:
            words = " x ".join(map(str, found.values()))
            raise ValueError(f"subvolumes.along: {words} parts are not one for each of {ranks} ranks")
        return dict(found)

    def elements(self, axis: str) -> int | None:
        """Return the elements of one sub-volume along an axis, None where ranks share all of them."""
        return self.each.get(axis) if isinstance(self.each, dict) else self.each
