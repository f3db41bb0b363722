"""What a study may say of flattened rows in Zarr; codecs and settings are those of Zarr's arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from hyperslab.layouts.rows import RowsArray
from hyperslab.layouts.schema import LayoutModel
from hyperslab.layouts.zarr_schema import CHUNK_BYTES, Codec, ZarrSettings
from hyperslab.validation.errors import Place
from hyperslab.validation.models import Count


class ZarrRowsModel(LayoutModel):
    """How flattened rows are stored in Zarr: values end to end, and lengths."""

    extents = ()

    format: str = Field(default="zarr-rows", description="the format; what else may be given depends on it")
    chunk_bytes: Annotated[Count, Field(lt=CHUNK_BYTES)] = Field(
        default=2**20, description="bytes of a chunk of values, which is a file"
    )
    row_chunk: Annotated[Count, Field(lt=CHUNK_BYTES // 8)] = Field(
        default=2**16, description="rows of a chunk of lengths"
    )
    codecs: list[Codec] = Field(default=[], description="what chunks of values go through, in this order")
    settings: dict[str, Any] = Field(default={}, description="settings of zarr-python and of zarrs")


def resolve(given: ZarrRowsModel, array: RowsArray, _: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Return the layout with every default filled in; raises ConfigurationError."""
    names = [codec.name for codec in given.codecs]
    if len(set(names)) != len(names):
        raise place.at("codecs").mistake("each codec at most once")
    if given.chunk_bytes < array.itemsize:
        raise place.at("chunk_bytes").mistake(f"should hold at least one {array.dtype}")
    chosen = place.at("settings").validate(ZarrSettings, given.settings)
    return {
        "format": given.format,
        "order": list(array.axes),
        "chunk_bytes": given.chunk_bytes,
        "row_chunk": given.row_chunk,
        "codecs": [codec.model_dump(exclude_none=True) for codec in given.codecs],
        "settings": chosen.model_dump(exclude_none=True),
        "label": given.label,
    }


MODEL = ZarrRowsModel
