"""What a study may say instead of layouts and cases: `advise`, an array and how it is read."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from hyperslab.studies.dataset_schema import Dataset
from hyperslab.studies.schema import Extent, Factor
from hyperslab.validation.errors import Forms
from hyperslab.validation.models import Flag, Name, Strict, Text

READS_FORMS = (
    "a mapping of names to boxes, such as {image: [all, all, 1], spectrum: {x: 1, y: 1}}, or a line such as "
    '"image: [all, all, 1]; 3 x spectrum: [1, 1, all]"'
)
# In less no layout could be written, read and judged.
LEAST_SECONDS = 20.0


class Advise(Strict):
    """An array and how it is read; which layouts are measured is found by probing the sites first."""

    file: Text | None = Field(
        default=None,
        description="HDF5, NetCDF-4, imzML or .npy; FILE::DATASET where there are several arrays",
    )
    dataset: Dataset | None = Field(
        default=None, description="the array, where there is no file yet: values of a fill, or of a sample"
    )
    reads: Annotated[dict[Name, list[Extent] | dict[Name, Extent]] | Text | None, Forms(READS_FORMS)] = Field(
        default=None, description="how it is read; without it usual ways for its shape"
    )
    mix: dict[str, Annotated[Factor, Field(ge=0)]] = Field(
        default={},
        description="how often each read happens, relative to the others; else the largest regret counts",
    )
    filters: Literal["builtin", "any"] = Field(
        default="any",
        description="what whoever reads the file has: filters of HDF5 itself, or hdf5plugin, too",
    )
    formats: list[Literal["hdf5", "zarr"]] = Field(
        default=["hdf5"], min_length=1, description="the formats that are considered"
    )
    orders: Literal["file", "any"] = Field(
        default="file", description="orders of the axes that are considered: that of the file alone, or all"
    )
    copies: Flag = Field(
        default=False,
        description="whether two copies in one file may be advised as any other layout; else these are a "
        "second answer where they pay",
    )
    state: Literal["cold", "warm"] = Field(
        default="cold", description="how the page cache stands when a read starts"
    )
    size_bound: Annotated[Factor, Field(gt=0)] = Field(
        default=1.15, description="largest file, relative to the array without filters"
    )
    sites: list[Name] = Field(
        default=[], description="where it is measured; without it the first of the file of sites"
    )
    seconds: Annotated[Factor, Field(ge=LEAST_SECONDS)] | None = Field(
        default=None,
        description="how long all of it may take at one site; decides how much is measured; else a minute, "
        "120 s on a throttled site, or what the least takes",
    )

    @model_validator(mode="after")
    def _one_array(self) -> Advise:
        if (self.file is None) == (self.dataset is None):
            raise ValueError("needs `file`, or `dataset` where there is no file yet")
        if self.dataset is not None and self.dataset.rows:
            raise ValueError("dataset.rows: advice is for arrays")
        if len(set(self.sites)) != len(self.sites):
            raise ValueError("sites: each at most once")
        if len(set(self.formats)) != len(self.formats):
            raise ValueError("formats: each at most once")
        if "hdf5" not in self.formats:
            raise ValueError(
                "formats: hdf5 is among them, with which the others are compared; say hdf5, zarr"
            )
        return self

    def asked(self) -> dict[str, Any]:
        """Return what is asked, as JSON has it: what advice is stale without."""
        return self.model_dump(exclude_defaults=True, mode="json")


class AdviceStudy(Strict):
    """A study whose layouts are found by advice."""

    title: Text | None = Field(default=None, description="what the study is called")
    advise: Advise = Field(description="the array and how it is read")
