"""What a study may say of a pyramid, for the formats whose files can hold one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from hyperslab.layouts.layout import Array
from hyperslab.layouts.pyramids import AVERAGING, most_levels
from hyperslab.validation.errors import Place
from hyperslab.validation.models import Count, Strict

# The sum of some of them does not fit any integer of the machine.
TOO_LARGE_TO_ADD = ("int64", "uint64")


class Pyramid(Strict):
    """Coarser levels that are stored beside the array, each half as long along every axis."""

    levels: Count = Field(description="how many there are")
    by: Literal["subsampling", "averaging"] = Field(
        default="subsampling",
        description="what an element of a level is: the first of 2 along each axis, as in IDX, or their "
        "mean, as in OME-Zarr",
    )


def resolved_pyramid(given: Pyramid | None, array: Array, lossy: bool, place: Place) -> Mapping[str, Any]:
    """Return what a resolved layout has of a pyramid, nothing where none is asked for; ConfigurationError."""
    if given is None:
        return {}
    most = most_levels(array.shape)
    if given.levels > most:
        there = (
            f"the array has {most} coarser levels, the last of one element" if most else "the array has none"
        )
        raise place.at("levels").mistake(f"{given.levels} is too many: {there}")
    if lossy:
        raise place.mistake(
            "levels are made of what is stored, which a lossy filter changes; take another filter"
        )
    if given.by == AVERAGING and str(array.dtype) in TOO_LARGE_TO_ADD:
        raise place.at("by").mistake(
            f"sums of {array.dtype} may overflow; take subsampling, or a shorter type"
        )
    return {"pyramid": given.model_dump()}
