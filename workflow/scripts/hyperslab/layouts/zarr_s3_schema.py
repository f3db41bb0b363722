"""What a layout of Zarr in an object store may say: that of Zarr, without zarrs, which cannot read there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from hyperslab.layouts import zarr_schema
from hyperslab.layouts.layout import Array
from hyperslab.layouts.schema import LayoutModel
from hyperslab.validation.errors import Place


class ZarrS3Model(zarr_schema.ZarrModel):
    """How a Zarr array is stored whose files are objects in a store."""

    format: str = Field(default="zarr-s3", description="the format; what else may be given depends on it")

    @model_validator(mode="after")
    def _zarr_python(self) -> ZarrS3Model:
        if self.settings.get("pipeline", "default") != "default":
            raise ValueError("settings: zarr-python's own pipeline reads through obstore, no other")
        if self.pyramid:
            raise ValueError("pyramid: of Zarr in an object store the array alone is read")
        return self


def resolve(given: Any, array: Array, settings: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Return the layout with every default filled in; raises ConfigurationError."""
    assert isinstance(given, ZarrS3Model)
    return zarr_schema.resolve(given, array, settings, place)


MODEL: type[LayoutModel] = ZarrS3Model
