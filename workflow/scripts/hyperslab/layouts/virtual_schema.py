"""What a layout may say of HDF5 that is read by reference: that of HDF5, with filters that Zarr knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from hyperslab.layouts import hdf5_schema
from hyperslab.layouts.layout import Array
from hyperslab.layouts.schema import LayoutModel
from hyperslab.validation.errors import Place

# Filters of HDF5 whose chunks VirtualiZarr hands to codecs of numcodecs.
READABLE = ("shuffle", "gzip", "zstd", "blosc", "fletcher32")


class VirtualModel(hdf5_schema.Hdf5Model):
    """How an HDF5 dataset is stored whose file is an object, and whose chunks are read by reference."""

    format: str = Field(default="virtual", description="the format; what else may be given depends on it")

    @model_validator(mode="after")
    def _read_by_reference(self) -> VirtualModel:
        for name in ("release", "storage", "pyramid"):
            if getattr(self, name):
                raise ValueError(f"{name}: a reference leads to the chunks of one dataset, or to all of it")
        chosen = [*self.filters, *(self.second.filters if self.second else [])]
        if strange := [one.name for one in chosen if one.name not in READABLE]:
            raise ValueError(f"filters: without HDF5 {strange[0]} is not undone; {', '.join(READABLE)} are")
        if "driver" in self.settings:
            raise ValueError("driver: a reference leads into one file")
        return self


def resolve(given: Any, array: Array, settings: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Return the layout with every default filled in; raises ConfigurationError."""
    assert isinstance(given, VirtualModel)
    own = {name: value for name, value in settings.items() if name != "driver"}
    return hdf5_schema.resolve(given, array, own, place)


MODEL: type[LayoutModel] = VirtualModel
