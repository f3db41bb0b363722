"""What an IDX layout of a study may say: bitmask, blocks, files, codec, axes of time steps and fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from hyperslab.layouts import idx_order
from hyperslab.layouts.idx_files import MOST_BLOCKS_PER_FILE
from hyperslab.layouts.layout import Array
from hyperslab.layouts.schema import LayoutModel
from hyperslab.validation.errors import Place
from hyperslab.validation.models import Count, Name, Strict, Text

BITMASKS = {"guess": idx_order.guessed_bitmask, "regular": idx_order.regular_bitmask}
# A header names the bytes of a block in 31 bits.
MOST_BITS_PER_BLOCK = 24


class IdxSettings(Strict):
    """What writes and reads an IDX dataset."""

    library: Literal["hyperslab", "openvisus"] = Field(
        default="hyperslab", description="Hyperslab's own writer and reader, or OpenVisus 2.2.149"
    )


class IdxModel(LayoutModel):
    """How an IDX dataset is stored: samples in hierarchical Z order, in blocks of binary files."""

    extents = ()

    format: str = Field(default="idx", description="the format; what else may be given depends on it")
    bitmask: Text = Field(
        default="guess",
        description="V and the axis of each split, coarsest first, the fastest axis being 0; guess: as "
        "OpenVisus does; regular: the finest splits take the axes in turn",
    )
    bits_per_block: Annotated[Count, Field(le=MOST_BITS_PER_BLOCK)] = Field(
        default=15, description="samples of a block, as a power of two"
    )
    blocks_per_file: Annotated[Count, Field(le=MOST_BLOCKS_PER_FILE)] = Field(
        default=256, description="blocks of each field that a binary file holds"
    )
    within_block: Literal["hz", "row-major"] = Field(
        default="hz", description="how samples lie within a block; OpenVisus' own default is row-major"
    )
    codec: Literal["raw", "zip", "lz4"] = Field(default="raw", description="what a block's bytes go through")
    times: Name | None = Field(default=None, description="the axis whose indices become time steps")
    fields: Name | None = Field(default=None, description="the axis whose indices become fields")
    order: list[Name] | None = Field(
        default=None, description="the other axes as they lie on disk, slowest first"
    )
    settings: dict[str, Any] = Field(default={}, description="what writes and reads it")

    @model_validator(mode="after")
    def _two_axes(self) -> IdxModel:
        if self.times is not None and self.times == self.fields:
            raise ValueError("times and fields: two axes, not one")
        return self


def resolve(given: IdxModel, array: Array, _: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Return the layout with every default filled in; raises ConfigurationError."""
    apart = {name: axis for name in ("times", "fields") if (axis := getattr(given, name))}
    for name, axis in apart.items():
        if axis not in array.axes:
            raise place.at(name).mistake(f"no such axis; the dataset has {', '.join(array.axes)}")
    left = [axis for axis in array.axes if axis not in apart.values()]
    order = given.order or left
    if sorted(order) != sorted(left):
        raise place.at("order").mistake(f"{order} must name each of {left} once")
    if not 2 <= len(order) <= idx_order.MOST_AXES:
        wanted = f"has 2 to {idx_order.MOST_AXES} axes beside those of time steps and fields"
        raise place.mistake(f"an IDX dataset {wanted}, not {len(order)}")
    shape = [array.shape[array.axes.index(axis)] for axis in order]
    bitmask = BITMASKS[given.bitmask](shape) if given.bitmask in BITMASKS else given.bitmask
    if wrong := idx_order.bitmask_mistake(bitmask, shape):
        raise place.at("bitmask").mistake(wrong)
    if len(bitmask) == 1:
        raise place.mistake("an array of one element has no levels")
    settings = place.at("settings").validate(IdxSettings, given.settings)
    if settings.library == "openvisus" and str(len(order) - 1) not in bitmask:
        message = f"OpenVisus has no slowest axis of one element; name {order[0]} in times or fields"
        raise place.at("settings", "library").mistake(message)
    return {
        "format": given.format,
        "axes": list(array.axes),
        "order": [*apart.values(), *order],
        **apart,
        "bitmask": bitmask,
        # As OpenVisus takes it: no block is larger than the array.
        "bits_per_block": min(given.bits_per_block, len(bitmask) - 1),
        "blocks_per_file": given.blocks_per_file,
        "within_block": given.within_block,
        "codec": given.codec,
        "settings": settings.model_dump(),
        "label": given.label,
    }


MODEL = IdxModel
