"""What a Zarr layout of a study may say: chunks, shards, order of axes, codecs, the library's settings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from hyperslab.layouts.chunks import automatic_chunk, chunks_per_axis
from hyperslab.layouts.layout import Array
from hyperslab.layouts.parameters_schema import WithParameters
from hyperslab.layouts.pyramid_schema import Pyramid, resolved_pyramid
from hyperslab.layouts.schema import (
    CHUNKS_FORMS,
    Balanced,
    LayoutModel,
    balanced_extents,
    on_disk,
    resolved_extents,
    resolved_order,
)
from hyperslab.layouts.zarr_codecs import CODECS
from hyperslab.validation.errors import Forms, Place
from hyperslab.validation.models import Count, Flag, Name, Strict

Extents = list[Count | Literal["all"]]
# Codecs keep sizes in 31 bits (BLOSC_MAX_BUFFERSIZE).
CHUNK_BYTES = 2**31
# zarr-python's chunks="auto": scale, least and most bytes, and the most where there are shards.
AUTO_SCALE, AUTO_LEAST, AUTO_MOST, AUTO_MOST_IN_SHARDS = 2**18, 2**17, 2**26, 2**20
SHARDS_FORMS = "a list with an extent for each axis, each a multiple of the chunk's"


class Codec(WithParameters):
    """One codec of a layout with its parameters: "zstd", {zstd: 3}, or {blosc: {codec: zstd, level: 5}}."""

    table = CODECS

    name: str = Field(description="the codec")
    codec: str | None = Field(default=None, description="blosc: the compressor inside")
    shuffle: str | None = Field(default=None, description="blosc: how bytes or bits are sorted first")


class ZarrSettings(Strict):
    """How zarr-python works while an array is written and read; what is not given keeps its own value."""

    pipeline: Literal["default", "zarrs"] = Field(
        default="default",
        description="what reads, decodes, encodes and writes chunks: zarr-python itself, or zarrs, in Rust",
    )
    write_empty_chunks: Flag = Field(
        default=False, description="whether a chunk that holds nothing but the fill value, 0, is stored"
    )
    concurrency: Count | None = Field(
        default=None,
        description="chunks under way at once: async.concurrency, or chunk_concurrent_maximum of zarrs",
    )
    threads: Count | None = Field(default=None, description="most threads: threading.max_workers")

    @model_validator(mode="after")
    def _fitting_pipeline(self) -> ZarrSettings:
        if self.pipeline == "zarrs" and self.write_empty_chunks:
            raise ValueError("write_empty_chunks: zarrs never stores a chunk that holds only the fill value")
        return self


class ZarrModel(LayoutModel):
    """How a Zarr array is stored: in a directory with a file a chunk, or a file a shard of chunks."""

    extents = ("chunks", "shards")

    format: str = Field(default="zarr", description="the format; what else may be given depends on it")
    chunks: Annotated[Extents | Literal["auto"] | Balanced, Forms(CHUNKS_FORMS)] = Field(
        default="auto", description="the chunk shape, or that of a formula: zarr-python's (auto) or Unidata's"
    )
    shards: Annotated[list[Count] | None, Forms(SHARDS_FORMS)] = Field(
        default=None,
        description="chunks in one file: the shape of a shard; a file a chunk where there is none",
    )
    order: list[Name] | None = Field(default=None, description="the axes as they lie on disk, slowest first")
    codecs: list[Codec] = Field(default=[], description="what the bytes of a chunk go through, in this order")
    settings: dict[str, Any] = Field(default={}, description="settings of zarr-python and of zarrs")
    pyramid: Pyramid | None = Field(
        default=None, description="coarser levels in the same group, each an array beside the array's"
    )

    @model_validator(mode="after")
    def _each_codec_once(self) -> ZarrModel:
        names = [codec.name for codec in self.codecs]
        if len(set(names)) != len(names):
            raise ValueError(f"codecs: each of {', '.join(CODECS)} at most once")
        return self


def resolve(given: ZarrModel, array: Array, _: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Return the layout with every default filled in; raises ConfigurationError."""
    order = resolved_order(given.order, array, place)
    chunks = _resolved_chunks(given, array, order, place.at("chunks"))
    shards = _resolved_shards(given.shards, chunks, array, place.at("shards")) if given.shards else None
    if shards == chunks:
        # A file with one chunk is a chunk.
        shards = None
    chosen = place.at("settings").validate(ZarrSettings, given.settings)
    return {
        "format": given.format,
        "chunks": chunks,
        **({"shards": shards} if shards else {}),
        "order": order,
        "codecs": [codec.model_dump(exclude_none=True) for codec in given.codecs],
        "settings": chosen.model_dump(exclude_none=True),
        "label": given.label,
        **resolved_pyramid(given.pyramid, array, False, place.at("pyramid")),
    }


def _resolved_chunks(given: ZarrModel, array: Array, order: list[str], place: Place) -> list[int]:
    if given.chunks == "auto":
        most = AUTO_MOST_IN_SHARDS if given.shards else AUTO_MOST
        bounds = (AUTO_SCALE, AUTO_LEAST, most)
        return on_disk(array, order, lambda shape: automatic_chunk(shape, array.itemsize, *bounds))
    if not isinstance(given.chunks, list):
        return balanced_extents(given.chunks, array, order, place)
    found = resolved_extents(given.chunks, array, place)
    if math.prod(found) * array.itemsize >= CHUNK_BYTES:
        raise place.mistake(f"{found} has 2 GiB or more; a codec takes smaller chunks")
    return found


def _resolved_shards(shards: list[int], chunks: list[int], array: Array, place: Place) -> list[int]:
    if len(shards) != len(array.shape):
        wanted = f"needs {len(array.shape)} extents, one for each of {array.axes}"
        raise place.mistake(f"{shards} {wanted}")
    if any(extent % chunk for extent, chunk in zip(shards, chunks, strict=True)):
        raise place.mistake(f"{shards} has to be a multiple of the chunks {chunks}")
    counts = chunks_per_axis(array.shape, chunks)
    # A shard holds whole chunks, of which the last may reach over the array's edge.
    for axis, extent, chunk, count in zip(array.axes, shards, chunks, counts, strict=True):
        if extent > chunk * count:
            message = f"{extent} along {axis} is more than the {count} chunks of {chunk} that there are"
            raise place.mistake(message)
    return shards


MODEL = ZarrModel
