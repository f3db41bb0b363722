"""What a study says of cases that several workers carry out."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from hyperslab.validation.models import Count, Name, Strict, Text

# More than any node has cores, or any study ranks.
MOST_WORKERS = 65_536
Counts = Annotated[list[Annotated[Count, Field(le=MOST_WORKERS)]], Field(min_length=1)]
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


Way = Literal["token", "per-level", "per-level-kept", "per-level-fast", "aggregated", "plain"]


class Subvolumes(Strict):
    """What every rank writes of an IDX dataset: the array is cut along an axis into as many sub-volumes."""

    ways: Annotated[list[Way], Field(min_length=1)] = Field(
        default=list(get_args(Way)), description="the ways in which ranks write, a case each"
    )
    along: Name = Field(description="the axis along which the sub-volumes lie beside each other")
    each: Count | None = Field(
        default=None,
        description="elements of one sub-volume along that axis, so that the array grows with the ranks; "
        "without it they share all of the array",
    )
    aggregators: Count | None = Field(
        default=None, description="ranks that put blocks together and write them; all, if none is given"
    )

    @model_validator(mode="after")
    def _fitting(self) -> Subvolumes:
        if len(set(self.ways)) != len(self.ways):
            raise ValueError("ways: each at most once")
        return self
