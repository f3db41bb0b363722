"""A study as rules use it: checked, what it extends merged, grids expanded, defaults filled in."""

from __future__ import annotations

import fnmatch
import itertools
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hyperslab.layouts import hdf5_index
from hyperslab.layouts.hdf5_filters import refusal
from hyperslab.layouts.hdf5_releases import RELEASES
from hyperslab.studies.case_kinds import RESOLVERS, CaseMistake, check_layout
from hyperslab.studies.schema import Case, Layout, Settings, Study
from hyperslab.studies.worker_cases import variants
from hyperslab.validation.errors import NAME_PATTERN, NAME_RULE, ConfigurationError, read_yaml, validate

REPEATS: dict[str, int] = {"cold": 15, "warm": 25, "session": 50, "write": 10}


def _extended(file: Path, seen: tuple[Path, ...] = ()) -> Any:
    """A study's content on top of the study that it `extends`.

    `dataset`, `settings` and `repeats` are merged key by key; every other key replaces the other study's.
    """
    content = read_yaml(file)
    if not isinstance(content, dict) or "extends" not in content:
        return content
    name = content.pop("extends")
    others = {path.stem: path for path in sorted(file.parent.glob("*.yaml")) if path not in (file, *seen)}
    if not isinstance(name, str) or name not in others:
        raise ConfigurationError(
            file, "extends", f"{name!r} is not another study; there are {', '.join(others)}"
        )
    merged = _extended(others[name], (file, *seen))
    # A mistake in the other study is one of its own file.
    validate(Study, merged, others[name])
    # Claims are about one study's rows.
    merged.pop("claims", None)
    for key in ("dataset", "settings", "repeats"):
        if isinstance(content.get(key), dict) and isinstance(merged.get(key), dict):
            content[key] = {**merged[key], **content[key]}
    return {**merged, **content}


class LoadedStudy:
    """A valid study with its grids expanded and every default filled in.

    `layouts` and `cases` map names to plain dictionaries, ready for specifications.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.name = file.stem
        self.study = validate(Study, _extended(file), file)
        self.dataset = self.study.dataset
        validate(Settings, self.study.settings, file, "settings")
        self.grid_values: dict[str, dict[str, int]] = {}
        self.layouts = self._expand_layouts()
        self.cases = self._expand_cases()
        self._check_criteria()

    def _fail(self, path: str, message: str) -> ConfigurationError:
        return ConfigurationError(self.file, path, message)

    # Layouts

    def _expand_layouts(self) -> dict[str, dict[str, Any]]:
        layouts: dict[str, dict[str, Any]] = {}
        for name, layout in self.study.layouts.items():
            layouts[name] = self._resolve_layout(f"layouts.{name}", layout or Layout())
        for position, grid in enumerate(self.study.grids):
            for combination in itertools.product(*grid.over.values()):
                values = dict(zip(grid.over, combination, strict=True))
                path = f"grids.{position}"
                try:
                    name = grid.name.format(**values)
                except (KeyError, IndexError, ValueError, AttributeError, TypeError):
                    variables = ", ".join("{" + variable + "}" for variable in grid.over)
                    raise self._fail(f"{path}.name", f"only {variables} can be filled in") from None
                if not re.fullmatch(NAME_PATTERN, name):
                    raise self._fail(f"{path}.name", f"{NAME_RULE}, not {name!r}")
                if name in layouts:
                    raise self._fail(
                        f"{path}.name", f"duplicate layout {name!r}; every layout needs its own name"
                    )
                for extent in grid.chunks:
                    if isinstance(extent, str) and extent != "all" and extent not in values:
                        raise self._fail(
                            f"{path}.chunks", f"unknown variable {extent!r}; `over` has {', '.join(values)}"
                        )
                chunks = [values.get(str(extent), extent) for extent in grid.chunks]
                layout = Layout.model_validate(
                    {
                        "chunks": chunks,
                        "order": grid.order,
                        "filters": [f.model_dump(exclude_none=True) for f in grid.filters],
                        "settings": grid.settings,
                        "label": grid.label,
                    }
                )
                layouts[name] = self._resolve_layout(f"{path} ({name})", layout)
                self.grid_values[name] = values
        if not layouts:
            raise self._fail("layouts", "a study needs at least one layout (under `layouts` or `grids`)")
        self._refuse_twins(layouts)
        return layouts

    def _refuse_twins(self, layouts: dict[str, dict[str, Any]]) -> None:
        seen: dict[str, str] = {}
        for name, layout in layouts.items():
            content = repr(sorted((key, value) for key, value in layout.items() if key != "label"))
            if content in seen and layout["label"] is None:
                raise self._fail(
                    f"layouts.{name}",
                    f"duplicate layout: the same as {seen[content]!r} "
                    "(give it a `label` to compare a layout with itself)",
                )
            seen.setdefault(content, name)

    def _resolve_layout(self, path: str, layout: Layout) -> dict[str, Any]:
        dataset = self.dataset
        shape, axes = dataset.shape, dataset.axes
        order = layout.order or axes
        if sorted(order) != sorted(axes):
            raise self._fail(f"{path}.order", f"{order} must name each of {axes} once")
        chunks = layout.chunks
        resolved: list[int] | None = None
        if chunks == "auto":
            on_disk = hdf5_index.automatic_chunk([shape[axes.index(a)] for a in order], dataset.itemsize)
            resolved = [on_disk[order.index(a)] for a in axes]
        elif chunks is not None:
            if len(chunks) != len(shape):
                raise self._fail(
                    f"{path}.chunks", f"{chunks} needs {len(shape)} extents, one for each of {axes}"
                )
            resolved = [
                size if extent == "all" else int(extent) for extent, size in zip(chunks, shape, strict=True)
            ]
            if any(extent > size for extent, size in zip(resolved, shape, strict=True)):
                raise self._fail(f"{path}.chunks", f"{resolved} is larger than the array {shape}")
            if math.prod(resolved) * dataset.itemsize >= 2**32:
                raise self._fail(
                    f"{path}.chunks", f"{resolved} has 4 GiB or more; an HDF5 chunk must be smaller"
                )
        if layout.filters and resolved is None:
            raise self._fail(f"{path}.filters", "filters need chunks; a contiguous dataset cannot have any")
        filters = [chosen.model_dump(exclude_none=True) for chosen in layout.filters]
        if wrong := refusal(filters, dataset.dtype, resolved or []):
            raise self._fail(f"{path}.filters", wrong)
        settings = validate(
            Settings, {**self.study.settings, **layout.settings}, self.file, f"{path}.settings"
        )
        if layout.release and settings.libver in RELEASES[layout.release].unknown_libvers:
            message = f"HDF5 {layout.release} does not know {settings.libver}"
            raise self._fail(f"{path}.settings.libver", message)
        optional = {"storage": layout.storage, "release": layout.release}
        return {
            "format": layout.format,
            "chunks": resolved,
            "order": list(order),
            "filters": filters,
            # What is not given stays out of specifications, and with it out of their hashes.
            "settings": settings.model_dump(exclude_none=True),
            "label": layout.label,
            **{key: value for key, value in optional.items() if value is not None},
        }

    # Cases

    def _expand_cases(self) -> dict[str, dict[str, Any]]:
        """Every case resolved; one of several counts of workers becomes one a count, of one family."""
        cases: dict[str, dict[str, Any]] = {}
        for given, case in self.study.cases.items():
            try:
                expanded = list(variants(given, case, self.dataset))
            except ValueError as error:
                raise self._fail(f"cases.{given}", str(error)) from None
            for name, one in expanded:
                if name in cases or (name != given and name in self.study.cases):
                    raise self._fail(f"cases.{given}", f"there is another case {name!r}")
                cases[name] = self._resolve_case(given, one)
                if name != given:
                    cases[name]["family"] = given
        return cases

    def _resolve_case(self, name: str, case: Case) -> dict[str, Any]:
        path = f"cases.{name}"
        axes = self.dataset.axes
        shape = dict(zip(axes, self.dataset.shape, strict=True))
        for axis, extent in case.shape.items():
            if axis not in shape or extent > shape[axis]:
                raise self._fail(f"{path}.shape.{axis}", f"not an axis, or longer than the array's {shape}")
            shape[axis] = extent
        for pattern in case.layouts:
            if not fnmatch.filter(self.layouts, pattern):
                raise self._fail(f"{path}.layouts", f"{pattern!r} matches no layout of this study")
        repeats: Mapping[Any, int] = REPEATS | self.study.repeats | case.repeats
        try:
            specified = RESOLVERS[case.kind](case, shape)
        except CaseMistake as mistake:
            raise self._fail(f"{path}.{mistake.path}", str(mistake)) from None
        resolved: dict[str, Any] = {
            "kind": case.kind,
            "shape": [shape[axis] for axis in axes],
            "layouts": [n for n in self.layouts if any(fnmatch.fnmatchcase(n, p) for p in case.layouts)],
            "sites": list(case.sites),
            "title": case.title or name,
            **specified,
            "repeats": {state: repeats[state] for state in specified["states"]},
        }
        for layout_name in resolved["layouts"]:
            try:
                check_layout(case, resolved, self.dataset, self.layouts[layout_name])
            except CaseMistake as mistake:
                raise self._fail(f"{path}.{mistake.path}", f"{mistake} (layout {layout_name})") from None
            chunk = self.layouts[layout_name]["chunks"]
            if case.shape and chunk and any(c > s for c, s in zip(chunk, resolved["shape"], strict=True)):
                raise self._fail(
                    f"{path}.shape", f"the chunks {chunk} of {layout_name} do not fit {resolved['shape']}"
                )
        return resolved

    def _check_criteria(self) -> None:
        score = self.study.score
        for position, criterion in enumerate(score.criteria if score else []):
            path = f"score.criteria.{position}.case"
            if criterion.statistic == "file_bytes":
                continue
            if criterion.case not in self.cases:
                raise self._fail(path, f"no case {criterion.case!r}; the study has {', '.join(self.cases)}")
            if criterion.state not in self.cases[criterion.case]["states"]:
                raise self._fail(
                    path, f"case {criterion.case!r} is not measured in state {criterion.state!r}"
                )
        for case, layouts in self.study.published.items():
            for layout in layouts:
                if case not in self.cases or layout not in self.cases[case]["layouts"]:
                    raise self._fail(f"published.{case}.{layout}", "no such case of such a layout here")
        self._check_recommendation()
        if len(self.study.tradeoff) not in (0, 2):
            raise self._fail("tradeoff", "names two read cases, one for each axis of its figure")
        for name in self.study.tradeoff:
            if name not in self.cases or self.cases[name]["kind"] != "read":
                raise self._fail("tradeoff", f"{name!r} is not a read case of this study")

    def _check_recommendation(self) -> None:
        given, path = self.study.recommendation, "recommendation"
        for name in given.weights:
            if name not in self.cases:
                raise self._fail(
                    f"{path}.weights", f"no case {name!r}; the study has {', '.join(self.cases)}"
                )
        if given.weights and not any(given.weights.values()):
            raise self._fail(f"{path}.weights", "all are zero: nothing is left to judge by")
        measured = {state for case in self.cases.values() for state in case["states"]}
        # The default, cold, may be what no case of a study has.
        for state in given.states if "states" in given.model_fields_set else ():
            if state not in measured:
                raise self._fail(f"{path}.states", f"no case is measured in state {state!r}")
