"""What a study may say of layouts, whatever their format, and how that is resolved.

Needs pydantic, which processes that measure have not: what they need of a layout is in layout.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Protocol

from pydantic import Field

from hyperslab.layouts import chunks as arithmetic
from hyperslab.layouts.layout import Array
from hyperslab.validation.errors import Forms, Place
from hyperslab.validation.models import Count, Strict, Text

UNIDATA: Literal["unidata"] = "unidata"
# Of the document that took the formula for daily grids ("HDF Performance on OpenStack").
UNIDATA_BYTES = 32 * 1024
# Unidata's formula, or with another bound: {unidata: bytes}.
Balanced = (
    Literal["unidata"]
    | Annotated[dict[Literal["unidata"], Annotated[Count, Field(le=2**30)]], Field(min_length=1)]
)
# What pydantic would report form by form, in one sentence.
CHUNKS_FORMS = (
    "a list with an extent or 'all' for each axis, 'auto', 'unidata' or {unidata: BYTES}, the most of a chunk"
)
FILES_FORMS = "a number of indices along the collection's axis, 'month' or 'year'"


def is_balanced(given: object) -> bool:
    """Return whether chunks are given as Unidata's formula."""
    return given == UNIDATA or (isinstance(given, dict) and list(given) == [UNIDATA])


class LayoutModel(Strict):
    """What a study may say of a layout of any format."""

    # Fields that list extents, one an axis: in a grid they may name its variables.
    extents: ClassVar[tuple[str, ...]] = ("chunks",)

    format: str = Field(default="hdf5", description="the format; what else may be given depends on it")
    label: Text | None = Field(
        default=None, description="a remark; it lets two layouts be the same, to compare a layout with itself"
    )
    files: Annotated[Count | Literal["month", "year"] | None, Forms(FILES_FORMS)] = Field(
        default=None,
        description="of a collection: indices along its axis, such as days, that lie in one file, or month "
        "or year of the calendar; one file for all where it is not given",
    )


class Schema(Protocol):
    """What the module of a format's schema offers."""

    MODEL: type[LayoutModel]

    def resolve(self, given: Any, array: Array, settings: Mapping[str, Any], place: Place) -> dict[str, Any]:
        """Return what a study says of a layout (`MODEL`) with every default filled in.

        `settings` are those of the study, which belong to HDF5; `place` is where the layout stands. Raises
        ConfigurationError for what cannot be had of the array.
        """


def resolved_order(order: list[str] | None, array: Array, place: Place) -> list[str]:
    """Return the order of the axes on disk, the array's own by default; raises ConfigurationError."""
    found = order or array.axes
    if sorted(found) != sorted(array.axes):
        raise place.at("order").mistake(f"{found} must name each of {array.axes} once")
    return list(found)


def resolved_extents(given: Sequence[int | str], array: Array, place: Place) -> list[int]:
    """Return extents with "all" filled in; raises ConfigurationError for those that the array has not."""
    if len(given) != len(array.shape):
        wanted = f"needs {len(array.shape)} extents, one for each of {array.axes}"
        raise place.mistake(f"{list(given)} {wanted}")
    found = [
        size if extent == "all" else int(extent) for extent, size in zip(given, array.shape, strict=True)
    ]
    if any(extent > size for extent, size in zip(found, array.shape, strict=True)):
        raise place.mistake(f"{found} is larger than the array {array.shape}")
    return found


def on_disk(array: Array, order: Sequence[str], choose: Callable[[list[int]], Sequence[int]]) -> list[int]:
    """Return what a formula chooses for the array as it lies on disk, in array terms."""
    found = choose([array.shape[array.axes.index(axis)] for axis in order])
    return [found[order.index(axis)] for axis in array.axes]


def automatic_extents(array: Array, order: Sequence[str]) -> list[int]:
    """Return the chunk that h5py chooses for the array as it lies on disk, in array terms."""
    return on_disk(array, order, lambda shape: arithmetic.automatic_chunk(shape, array.itemsize))


def balanced_extents(given: Balanced, array: Array, order: Sequence[str], place: Place) -> list[int]:
    """Return the chunk that Unidata's formula gives; raises ConfigurationError but for three axes."""
    most = UNIDATA_BYTES if given == UNIDATA else given[UNIDATA]
    try:
        return on_disk(array, order, lambda shape: arithmetic.balanced_chunk(shape, array.itemsize, most))
    except ValueError as error:
        raise place.mistake(str(error)) from None
