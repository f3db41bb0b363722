"""What a study may say of a layout of planes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperslab.layouts.layout import Array
from hyperslab.layouts.schema import LayoutModel
from hyperslab.validation.errors import Place
from hyperslab.validation.models import Count


class PlanesModel(LayoutModel):
    """How many planes along the first axis are one file."""

    extents = ()

    format: str = "planes"
    planes: Count = 1


def resolve(given: PlanesModel, array: Array, _: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Return the layout with every default filled in; raises ConfigurationError."""
    if given.planes > array.shape[0]:
        raise place.at("planes").mistake(f"{given.planes} is more than the {array.shape[0]} planes there are")
    return {
        "format": given.format,
        "planes_of": [given.planes, *array.shape[1:]],
        "order": list(array.axes),
        "label": given.label,
    }


MODEL = PlanesModel
