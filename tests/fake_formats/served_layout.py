"""Layouts of planes behind a server."""

from __future__ import annotations

from fake_formats.planes_layout import PlanesLayout


class ServedLayout(PlanesLayout):
    """A resolved layout of planes that a server reads and writes."""

    title = "Served planes"


LAYOUT = ServedLayout
