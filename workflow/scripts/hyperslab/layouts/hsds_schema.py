"""What a layout of HSDS may say: chunks, filters that the server applies, settings of server and client."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from hyperslab.layouts.hsds_filters import FILTERS, REFUSED
from hyperslab.layouts.layout import Array
from hyperslab.layouts.parameters import known
from hyperslab.layouts.parameters_schema import WithParameters
from hyperslab.layouts.schema import LayoutModel, automatic_extents, resolved_extents
from hyperslab.validation.errors import Forms, Place
from hyperslab.validation.models import Count, Strict

Extents = list[Count | Literal["all"]]
CHUNKS_FORMS = "a list with an extent or 'all' for each axis, or 'auto'"
# With less the server answers that it is too busy; and a chunk has to fit several times.
LEAST_CACHE_BYTES, CHUNKS_IN_CACHE = 2**25, 4
MOST_NODES = 64
# HSDS's own; with fewer it would turn away one client alone.
LEAST_TASKS = 100


class HsdsFilter(WithParameters):
    """One filter of a layout: "gzip", {gzip: 4}, or "fletcher32"."""

    table = FILTERS

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name in REFUSED:
            *others, last = FILTERS
            raise ValueError(f"{REFUSED[name]}; should be {', '.join(others)} or {last}")
        return known(name, cls.table)


class HsdsSettings(Strict):
    """How the server is started, and how a client asks it."""

    nodes: Annotated[Count, Field(le=MOST_NODES)] = Field(
        default=1, description="data nodes of the server, a process each, beside its service node"
    )
    chunk_cache_bytes: Annotated[Count, Field(ge=LEAST_CACHE_BYTES)] = Field(
        default=2**27, description="chunks that each data node keeps in memory (chunk_mem_cache_size), bytes"
    )
    tasks: Annotated[Count, Field(ge=LEAST_TASKS)] | None = Field(
        default=None,
        description="tasks at once above which the server says it is too busy (max_task_count); 100 if none",
    )
    transfer: Literal["binary", "json"] = Field(
        default="binary",
        description="how values travel: as h5pyd has them sent, or as JSON through the same REST interface",
    )


class HsdsModel(LayoutModel):
    """How an array is stored behind HSDS: a chunk is an object, which a server reads and writes."""

    format: str = Field(default="hsds", description="the format; what else may be given depends on it")
    chunks: Annotated[Extents | Literal["auto"], Forms(CHUNKS_FORMS)] = Field(
        default="auto", description="the chunk shape"
    )
    filters: list[HsdsFilter] = Field(default=[], description="at most one compressor, and fletcher32")
    settings: dict[str, Any] = Field(default={}, description="settings of the server and of its client")

    @model_validator(mode="after")
    def _one_compressor(self) -> HsdsModel:
        names = [one.name for one in self.filters]
        if len(set(names)) != len(names) or sum(FILTERS[name].compresses for name in names) > 1:
            raise ValueError("filters: at most one compressor, and fletcher32 at most once")
        return self


def resolve(given: HsdsModel, array: Array, _: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Return the layout with every default filled in; raises ConfigurationError."""
    settings = place.at("settings").validate(HsdsSettings, given.settings)
    automatic = given.chunks == "auto"
    chunks = (
        automatic_extents(array, array.axes)
        if automatic
        else resolved_extents([*given.chunks], array, place.at("chunks"))
    )
    size = math.prod(chunks) * array.itemsize
    if size * CHUNKS_IN_CACHE > settings.chunk_cache_bytes:
        message = (
            f"a chunk of {size:,} bytes does not fit {CHUNKS_IN_CACHE} times into chunk_cache_bytes "
            f"({settings.chunk_cache_bytes:,}); the server needs that to write it"
        )
        raise place.at("chunks").mistake(message)
    return {
        "format": given.format,
        "chunks": chunks,
        "order": list(array.axes),
        "filters": [one.model_dump(exclude_none=True) for one in given.filters],
        "settings": settings.model_dump(exclude_none=True),
        "label": given.label,
    }


MODEL = HsdsModel
