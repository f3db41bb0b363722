"""Processes in which the formats of fake_formats are registered, and cells of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fake_formats
import pytest
from fake_formats import planes_layout_schema
from samples import file_specification

import hyperslab
from hyperslab import formats, layouts
from hyperslab.specifications import Specification

# Python imports this module in every interpreter that it starts (site).
CUSTOM = "import fake_formats\n\nfake_formats.register()\n"


def registered(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    """Register the formats in this process and in those that it starts, until the test ends."""
    monkeypatch.setattr(layouts, "FORMATS", {**layouts.FORMATS, **fake_formats.LAYOUTS})
    monkeypatch.setattr(formats, "MODULES", {**formats.MODULES, **fake_formats.MODULES})
    (directory / "sitecustomize.py").write_text(CUSTOM, encoding="utf-8")
    places = (directory, Path(fake_formats.__file__).parents[1], Path(hyperslab.__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, places)))


def planes_of(shape: Sequence[int], planes: int, format_: str = "planes") -> Specification:
    """Return dataset and layout of a specification: so many planes a file."""
    spec = file_specification(shape)
    axes = spec["dataset"]["axes"]
    assert planes_layout_schema.MODEL(planes=planes).planes == planes
    layout: Any = {"format": format_, "planes_of": [planes, *shape[1:]], "order": axes}
    return {"dataset": spec["dataset"], "layout": layout}
