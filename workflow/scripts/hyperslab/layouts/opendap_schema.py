"""What a layout of OPeNDAP may say: chunks and filters of the file behind the server, and its workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from hyperslab.layouts import hdf5_schema
from hyperslab.layouts.hdf5_schema import Filter, Hdf5Model
from hyperslab.layouts.hsds_schema import CHUNKS_FORMS
from hyperslab.layouts.layout import Array
from hyperslab.layouts.schema import LayoutModel
from hyperslab.validation.errors import Forms, Place
from hyperslab.validation.models import Count, Strict

# What NetCDF-4 knows of HDF5's filters, so that other servers could serve the file, too; and DAP2 of types.
FILTERS = ("shuffle", "gzip", "fletcher32")
TYPES = ("uint8", "int16", "uint16", "int32", "uint32", "float32", "float64")
MOST_WORKERS = 64


class OpendapSettings(Strict):
    """How the server is started."""

    workers: Annotated[Count, Field(le=MOST_WORKERS)] = Field(
        default=1, description="processes of the server that answer requests, one request at a time each"
    )


class OpendapModel(LayoutModel):
    """How an array is stored in the file behind an OPeNDAP server."""

    format: str = Field(default="opendap", description="the format; what else may be given depends on it")
    chunks: Annotated[list[Count | Literal["all"]] | Literal["auto"] | None, Forms(CHUNKS_FORMS)] = Field(
        default=None, description="the chunk shape; contiguous where there is none"
    )
    filters: list[Filter] = Field(default=[], description=f"of HDF5's filters {', '.join(FILTERS)}")
    settings: dict[str, Any] = Field(default={}, description="settings of the server")

    @model_validator(mode="after")
    def _known_filters(self) -> OpendapModel:
        for one in self.filters:
            if one.name not in FILTERS:
                raise ValueError(f"filters: a NetCDF-4 file has {', '.join(FILTERS)}, not {one.name}")
        return self


def resolve(given: OpendapModel, array: Array, _: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Return the layout with every default filled in; raises ConfigurationError."""
    if array.dtype not in TYPES:
        raise place.at("format").mistake(f"DAP2 knows {', '.join(TYPES)}, not {array.dtype}")
    settings = place.at("settings").validate(OpendapSettings, given.settings)
    file = Hdf5Model(chunks=given.chunks, filters=given.filters, label=given.label)
    resolved = hdf5_schema.resolve(file, array, {}, place)
    return {**resolved, "format": given.format, "workers": settings.workers}


MODEL = OpendapModel
