"""A study's layouts: each checked by the model of its format, grids expanded, every default filled in."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hyperslab import layouts
from hyperslab.layouts.layout import Layout, LayoutModel
from hyperslab.studies.schema import Dataset, Grid, Study
from hyperslab.validation.errors import NAME_PATTERN, NAME_RULE, Place


@dataclass
class Expanded:
    """Layouts by name: as they are given, and resolved; of a grid's, the values of its variables."""

    given: dict[str, LayoutModel] = field(default_factory=dict)
    resolved: dict[str, dict[str, Any]] = field(default_factory=dict)
    grid_values: dict[str, dict[str, int]] = field(default_factory=dict)


def expand(study: Study, file: Path) -> Expanded:
    """Return all layouts of a study; raises ConfigurationError for the first mistake."""
    found, top = Expanded(), Place(file)
    # The settings of a study are those of its HDF5 layouts.
    top.at("settings").validate(layouts.load(layouts.DEFAULT).settings, study.settings)
    for name, content in study.layouts.items():
        _add(found, name, content or {}, study, top.at("layouts", name))
    for position, grid in enumerate(study.grids):
        place = top.at("grids", position)
        for name, content, values in _of_grid(grid, found.given, place):
            _add(found, name, content, study, Place(file, f"{place.path} ({name})"))
            found.grid_values[name] = values
    if not found.given:
        raise top.at("layouts").mistake("a study needs at least one layout (under `layouts` or `grids`)")
    _refuse_twins(found.resolved, top)
    return found


def given(content: Mapping[str, Any], place: Place) -> tuple[type[Layout], Any]:
    """Return the class of layouts that `content` names, and `content` as its model; ConfigurationError."""
    name = content.get("format", layouts.DEFAULT) if isinstance(content, Mapping) else layouts.DEFAULT
    if name not in layouts.MODULES:
        known = " or ".join(map(repr, layouts.MODULES))
        raise place.at("format").mistake(f"should be {known}, not {name!r}")
    kind = layouts.load(name)
    return kind, place.validate(kind.model, content)


def _add(found: Expanded, name: str, content: Mapping[str, Any], study: Study, place: Place) -> None:
    kind, model = given(content, place)
    dataset: Dataset = study.dataset
    found.given[name] = model
    found.resolved[name] = kind.resolve(model, dataset, study.settings, place)


def _of_grid(
    grid: Grid, taken: Mapping[str, Any], place: Place
) -> Iterator[tuple[str, dict[str, Any], dict[str, int]]]:
    """Yield name, content and values of the variables of each layout of a grid; ConfigurationError."""
    for combination in itertools.product(*grid.over.values()):
        values = dict(zip(grid.over, combination, strict=True))
        try:
            name = grid.name.format(**values)
        except (KeyError, IndexError, ValueError, AttributeError, TypeError):
            variables = ", ".join("{" + variable + "}" for variable in grid.over)
            raise place.at("name").mistake(f"only {variables} can be filled in") from None
        if not re.fullmatch(NAME_PATTERN, name):
            raise place.at("name").mistake(f"{NAME_RULE}, not {name!r}")
        if name in taken:
            raise place.at("name").mistake(f"duplicate layout {name!r}; every layout needs its own name")
        yield name, _filled_in(grid.layout, values, place), values


def _filled_in(content: Mapping[str, Any], values: Mapping[str, int], place: Place) -> dict[str, Any]:
    """Return the content of a grid's layout with variables in its extents filled in; ConfigurationError."""
    filled = dict(content)
    name = str(content.get("format", layouts.DEFAULT))
    extents = layouts.load(name).model.extents if name in layouts.MODULES else ()
    for key in extents:
        if not isinstance(content.get(key), list):
            continue
        for extent in content[key]:
            if isinstance(extent, str) and extent != "all" and extent not in values:
                known = ", ".join(values)
                raise place.at(key).mistake(f"unknown variable {extent!r}; `over` has {known}")
        filled[key] = [values.get(str(extent), extent) for extent in content[key]]
    return filled


def _refuse_twins(resolved: Mapping[str, Mapping[str, Any]], top: Place) -> None:
    seen: dict[str, str] = {}
    for name, layout in resolved.items():
        content = repr(sorted((key, value) for key, value in layout.items() if key != "label"))
        if content in seen and layout["label"] is None:
            raise top.at("layouts", name).mistake(
                f"duplicate layout: the same as {seen[content]!r} "
                "(give it a `label` to compare a layout with itself)"
            )
        seen.setdefault(content, name)
