"""A study as rules use it: checked, what it extends merged, grids expanded, defaults filled in."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hyperslab.layouts import layout_of
from hyperslab.studies.case_kinds import kind_of
from hyperslab.studies.case_kinds.kind import CaseMistake
from hyperslab.studies.layout_expansion import expand
from hyperslab.studies.schema import Case, Study
from hyperslab.validation.errors import ConfigurationError, read_yaml, validate

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

    `layouts` and `cases` map names to plain dictionaries, ready for specifications; `given` has the layouts
    as they are written, grids expanded.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.name = file.stem
        self.study = validate(Study, _extended(file), file)
        self.dataset = self.study.dataset
        expanded = expand(self.study, file)
        self.given, self.layouts = expanded.given, expanded.resolved
        self.grid_values = expanded.grid_values
        self.cases = self._expand_cases()
        self._check_criteria()

    def _fail(self, path: str, message: str) -> ConfigurationError:
        return ConfigurationError(self.file, path, message)

    # Cases

    def _expand_cases(self) -> dict[str, dict[str, Any]]:
        """Every case resolved; one of several counts of workers becomes one a count, of one family."""
        cases: dict[str, dict[str, Any]] = {}
        for given, case in self.study.cases.items():
            try:
                expanded = list(case.kind.variants(given, case, self.dataset))
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
            specified = case.kind.resolve(case, shape)
        except CaseMistake as mistake:
            raise self._fail(f"{path}.{mistake.path}", str(mistake)) from None
        resolved: dict[str, Any] = {
            "kind": case.kind.name,
            "shape": [shape[axis] for axis in axes],
            "layouts": [n for n in self.layouts if any(fnmatch.fnmatchcase(n, p) for p in case.layouts)],
            "sites": list(case.sites),
            "title": case.title or name,
            **specified,
            "repeats": {state: repeats[state] for state in specified["states"]},
        }
        for layout_name in resolved["layouts"]:
            try:
                case.kind.check(case, resolved, self.dataset, layout_of(self.layouts[layout_name]))
            except CaseMistake as mistake:
                raise self._fail(f"{path}.{mistake.path}", f"{mistake} (layout {layout_name})") from None
            chunk = layout_of(self.layouts[layout_name]).chunks
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
            if name not in self.cases or not kind_of(self.cases[name]).reads_selections:
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
