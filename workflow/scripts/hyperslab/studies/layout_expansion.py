"""A study's layouts: each checked by the model of its format, grids expanded, every default filled in."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hyperslab import layouts
from hyperslab.data.models import TITLES, serves
from hyperslab.layouts.collection import FILES, parts_of
from hyperslab.layouts.hdf5_settings_schema import Settings
from hyperslab.layouts.schema import LayoutModel, Schema
from hyperslab.studies.dataset_schema import Dataset
from hyperslab.studies.schema import Grid, Study
from hyperslab.validation.errors import Place, name_mistake
from hyperslab.validation.nearest import choices, did_you_mean

MOST_OF_A_GRID = 10_000
# results/STUDY/layout/recommended.h5 (rewriting/choice.py)
RECOMMENDED = "recommended"


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
    top.at("settings").validate(Settings, study.settings)
    for name, content in study.layouts.items():
        _add(found, name, content or {}, study, top.at("layouts", name))
    for position, grid in enumerate(study.grids):
        place = top.at("grids", position)
        for name, content, values in _of_grid(grid, found.given, study.dataset.model, place):
            _add(found, name, content, study, Place(file, f"{place.path} ({name})"))
            found.grid_values[name] = values
    if not found.given:
        raise top.at("layouts").mistake("a study needs at least one layout (under `layouts` or `grids`)")
    _refuse_twins(found.resolved, top)
    return found


def _schema(content: Mapping[str, Any], model: str, place: Place) -> Schema:
    """Return the schema of the format that `content` names, which stores the data model of the dataset.

    Raises ConfigurationError for one that is unknown, or stores another.
    """
    name = content.get("format", layouts.DEFAULT)
    stored = {known: layouts.load(known).data_model for known in layouts.FORMATS}
    fitting = " or ".join(repr(known) for known, other in stored.items() if serves(other, model))
    if not isinstance(name, str) or name not in stored:
        raise place.at("format").mistake(f"should be {fitting}, not {name!r}")
    if not serves(stored[name], model):
        holds = f"{name} stores {TITLES[stored[name]]}, and the dataset is {TITLES[model]}"
        raise place.at("format").mistake(f"{holds}; take {fitting}")
    return layouts.schema_of(name)


def _add(found: Expanded, name: str, content: Mapping[str, Any], study: Study, place: Place) -> None:
    if name == RECOMMENDED:
        raise place.mistake(f"{name} is what a rewritten file's target calls the layout that is recommended")
    schema = _schema(content, study.dataset.model, place)
    found.given[name] = place.validate(schema.MODEL, content)
    found.resolved[name] = _resolved(schema, found.given[name], study, place)


def _resolved(schema: Schema, given: LayoutModel, study: Study, place: Place) -> dict[str, Any]:
    """Return a layout with every default filled in; of several files the chunks are those of the longest."""
    array = study.dataset
    if given.files is None:
        return schema.resolve(given, array, study.settings, place)
    files = _files(given, array, place.at(FILES))
    longest = max(part.count for part in parts_of(files, array.shape[files["axis"]]))
    shape = [longest if axis == files["axis"] else extent for axis, extent in enumerate(array.shape)]
    one = schema.resolve(given, array.model_copy(update={"shape": shape}), study.settings, place)
    if layouts.layout_of(one).coarser_levels:
        raise place.at(FILES).mistake("an array in several files has no coarser levels beside it")
    if layouts.layout_of(one).named_cases():
        raise place.at(FILES).mistake("an array in several files has no second copy")
    if elsewhere := layouts.layout_of(one).other_file_systems():
        raise place.at(FILES).mistake(f"no parts of a collection lie on another file system ({elsewhere[0]})")
    return {**one, FILES: files}


def _files(given: LayoutModel, array: Dataset, place: Place) -> dict[str, Any]:
    """Return how an array is cut into files; raises ConfigurationError where it is not or cannot be."""
    format_ = layouts.load(given.format)
    if not format_.abilities.collections:
        raise place.mistake(f"{format_.title} keeps an array in one file or folder")
    if array.collection is None:
        raise place.mistake(
            "the dataset is no collection; its `collection: {along: AXIS}` names the axis to cut"
        )
    along, first = array.collection.along, array.collection.first
    if isinstance(given.files, str) and first is None:
        raise place.mistake(
            f"a file a {given.files} needs the date of the first day, dataset.collection.first"
        )
    found = {"axis": array.axes.index(along), "along": along, "each": given.files}
    return {**found, **({"first": first.isoformat()} if first else {})}


def _of_grid(
    grid: Grid, taken: Mapping[str, Any], data_model: str, place: Place
) -> Iterator[tuple[str, dict[str, Any], dict[str, int]]]:
    """Yield name, content and values of the variables of each layout of a grid; ConfigurationError."""
    model = _schema(grid.layout, data_model, place).MODEL
    for key in grid.layout.keys() - model.model_fields.keys():
        allowed = [*Grid.model_fields, *model.model_fields]
        meant = did_you_mean(key, allowed)
        raise place.at(key).mistake(f"unknown key; allowed are {', '.join(allowed)}{meant}")
    _check_size(grid, place.at("over"))
    for combination in itertools.product(*grid.over.values()):
        values = dict(zip(grid.over, combination, strict=True))
        try:
            name = grid.name.format(**values)
        except (KeyError, IndexError, ValueError, AttributeError, TypeError):
            variables = ", ".join("{" + variable + "}" for variable in grid.over)
            raise place.at("name").mistake(f"only {variables} can be filled in") from None
        if wrong := name_mistake(name):
            raise place.at("name").mistake(wrong)
        if name in taken:
            raise place.at("name").mistake(f"duplicate layout {name!r}; every layout needs its own name")
        yield name, _filled_in(grid.layout, model.extents, values, place), values


def _check_size(grid: Grid, place: Place) -> None:
    """Refuse a grid without end, or of layouts that are the same; raises ConfigurationError."""
    for variable, values in grid.over.items():
        for value in values:
            if values.count(value) > 1:
                raise place.at(variable).mistake(f"{value} is given twice")
    if (count := math.prod(map(len, grid.over.values()))) > MOST_OF_A_GRID:
        raise place.mistake(f"{count:,} layouts; a grid has at most {MOST_OF_A_GRID:,}")


def _filled_in(
    content: Mapping[str, Any], extents: Sequence[str], values: Mapping[str, int], place: Place
) -> dict[str, Any]:
    """Return the content of a grid's layout with variables in its extents filled in; ConfigurationError."""
    filled = dict(content)
    for key in extents:
        if not isinstance(content.get(key), list):
            continue
        for extent in content[key]:
            if isinstance(extent, str) and extent != "all" and extent not in values:
                known = choices(extent, values)
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
