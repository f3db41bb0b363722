"""A study as rules use it: checked, what it extends merged, grids expanded, defaults filled in."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from hyperslab.data.models import TITLES, serves
from hyperslab.layouts import layout_of
from hyperslab.studies import criteria
from hyperslab.studies.case_kinds import KINDS, kind_of
from hyperslab.studies.case_kinds.kind import REPEATS, CaseMistake
from hyperslab.studies.extending import extended, naming_source
from hyperslab.studies.layout_expansion import expand
from hyperslab.studies.schema import Case, Study
from hyperslab.validation.errors import ConfigurationError, name_mistake, validate
from hyperslab.validation.nearest import choices

# Cells that a run can plan in bearable time.
MOST_CELLS = 200_000


class LoadedStudy:
    """A valid study with its grids expanded and every default filled in.

    `layouts` and `cases` map names to plain dictionaries, ready for specifications; `given` has the layouts
    as they are written, grids expanded.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.name = file.stem
        if wrong := name_mistake(self.name):
            raise self._fail("", f"the name of a study, which is that of its file, {wrong}")
        with naming_source(file):
            self.study = validate(Study, extended(file), file)
            self.dataset = self.study.dataset
            expanded = expand(self.study, file)
            self.given, self.layouts = expanded.given, expanded.resolved
            self.grid_values = expanded.grid_values
            self.cases = self._expand_cases()
            self._check_named_cases()
            self._check_size()
            for path, message in criteria.mistakes(self):
                raise self._fail(path, message)

    @property
    def tradeoff(self) -> list[str]:
        """The two read cases of the opening picture: those named, else the first two; none for fewer."""
        if self.study.tradeoff is not None:
            return list(self.study.tradeoff)
        reads = [name for name, case in self.cases.items() if kind_of(case).reads_selections]
        return reads[:2] if len(reads) > 1 else []

    @cached_property
    def kept_in_stores(self) -> dict[str, set[bool]]:
        """Whether the layouts of each case lie in object stores; some may, and others not."""
        return {
            name: {not layout_of(self.layouts[layout]).abilities.pages for layout in case["layouts"]}
            for name, case in self.cases.items()
        }

    def _fail(self, path: str, message: str) -> ConfigurationError:
        return ConfigurationError(self.file, path, message)

    def _check_named_cases(self) -> None:
        """Refuse a layout of copies for cases that read none; raises ConfigurationError."""
        for name, layout in self.layouts.items():
            for case in layout_of(layout).named_cases():
                if case not in self.cases or not kind_of(self.cases[case]).reads_selections:
                    reads = [one for one, found in self.cases.items() if kind_of(found).reads_selections]
                    message = f"no read case {case!r} in this study; there are {choices(case, reads)}"
                    raise self._fail(f"layouts.{name}.second.cases", message)

    def _check_size(self) -> None:
        """Refuse more cells than can be planned; raises ConfigurationError."""
        count = self.study.most_rounds * sum(len(case["layouts"]) for case in self.cases.values())
        if count > MOST_CELLS:
            cells = f"{count:,} cells at each site (layouts x cases x rounds)"
            raise self._fail("rounds", f"{cells}; at most {MOST_CELLS:,} can be planned")

    # Cases

    def _expand_cases(self) -> dict[str, dict[str, Any]]:
        """Return every case resolved; one of several counts of workers becomes one a count, of one family."""
        cases: dict[str, dict[str, Any]] = {}
        for given, case in self.study.cases.items():
            if not serves(case.kind.data_model, self.dataset.model):
                fits = [kind.name for kind in KINDS.values() if serves(kind.data_model, self.dataset.model)]
                message = (
                    f"is for {TITLES[case.kind.data_model]}, and the dataset is {TITLES[self.dataset.model]}"
                )
                raise self._fail(f"cases.{given}.{case.kind.name}", f"{message}; there are {', '.join(fits)}")
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

    def _check_states(self, path: str, case: Case, measured: Sequence[str]) -> None:
        """Refuse states that a case gives and is never measured in; raises ConfigurationError."""
        for state in case.states if "states" in case.model_fields_set else ():
            if state not in measured:
                message = f"a `{case.kind.name}` case is never measured in state {state!r}; leave it out"
                raise self._fail(f"{path}.states", message)

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
                known = choices(pattern, self.layouts)
                message = f"{pattern!r} matches no layout of this study; there are {known}"
                raise self._fail(f"{path}.layouts", message)
        given: Mapping[Any, int] = self.study.repeats | case.repeats
        repeats = {**REPEATS, **given}
        try:
            specified = case.kind.resolve(case, shape)
        except CaseMistake as mistake:
            raise self._fail(f"{path}.{mistake.path}", str(mistake)) from None
        self._check_states(path, case, specified["states"])
        resolved: dict[str, Any] = {
            "kind": case.kind.name,
            "shape": [shape[axis] for axis in axes],
            "layouts": [n for n in self.layouts if any(fnmatch.fnmatchcase(n, p) for p in case.layouts)],
            "sites": list(case.sites),
            "title": case.title or name,
            **specified,
            "repeats": {state: repeats[state] for state in specified["states"]},
        }
        most = {
            state: count
            for state, count in case.kind.most_repeats.items()
            if state in specified["states"] and state not in given
        }
        if most:
            resolved["most_repeats"] = most
        for layout_name in resolved["layouts"]:
            try:
                case.kind.check(case, resolved, self.dataset, layout_of(self.layouts[layout_name]))
            except CaseMistake as mistake:
                raise self._fail(f"{path}.{mistake.path}", f"{mistake} (layout {layout_name})") from None
            layout = layout_of(self.layouts[layout_name])
            if case.shape and not layout.fits(resolved["shape"]):
                raise self._fail(
                    f"{path}.shape",
                    f"the chunks {layout.chunks} of {layout_name} do not fit {resolved['shape']}",
                )
        return resolved
