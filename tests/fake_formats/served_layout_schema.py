"""What a study may say of a layout of planes behind a server."""

from __future__ import annotations

from fake_formats.planes_layout_schema import PlanesModel, resolve


class ServedModel(PlanesModel):
    """As of planes; the server has nothing to set."""

    format: str = "served"


MODEL = ServedModel
__all__ = ["MODEL", "resolve"]
