"""The rows that one side of a comparison names: patterns matched against a study's layouts and cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hyperslab.studies.claims.patterns import fill, matches, variables
from hyperslab.studies.claims.quantities import QUANTITIES
from hyperslab.studies.claims.schema import Side
from hyperslab.validation.nearest import choices

if TYPE_CHECKING:
    from hyperslab.studies.study import LoadedStudy

Known = Mapping[str, int | str]
# {values of variables, terms [weight, case, layout, state, quantity]}: one layout of one case.
Cell = dict[str, Any]


class Mistake(Exception):
    """What is wrong at a path inside a comparison."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


class Sides:
    """Sides of comparisons in one study."""

    def __init__(self, study: LoadedStudy) -> None:
        self.study = study

    def cells(self, path: str, side: Side, known: Known) -> list[Cell]:
        """Return the cells of a side, each with its terms; those of `per` count against it."""
        if side.case is None:
            raise Mistake(f"{path}.case", "this key is required")
        pattern = fill(side.case, known)
        cases = matches(pattern, self.study.cases)
        if not cases:
            names = choices(pattern, self.study.cases)
            raise Mistake(f"{path}.case", f"no case {pattern!r}; the study has {names}")
        cells: list[Cell] = []
        for case, values in cases.items():
            if len(cases) > 1 and not self._any_layout(side, {**known, **values}, case):
                continue
            asked = fill(side.of or "", known)
            state = self._state(f"{path}.state", side, case, asked, known)
            quantity = self._quantity(f"{path}.of", asked, state)
            for own, layout in self.layouts(path, side, known, self.study.cases[case]["layouts"], values):
                cells.append({"values": own, "terms": [[1.0, case, layout, state, quantity]]})
        if not cells:
            raise Mistake(f"{path}.layouts", "no layout fits in any of these cases")
        if side.per is not None:
            against = self.cells(f"{path}.per", over(side.per, side), known)
            for cell, other in zip(cells, paired(cells, against, f"{path}.per"), strict=True):
                cell["terms"] += [[-weight, *rest] for weight, *rest in other["terms"]]
        return cells

    def _any_layout(self, side: Side, known: Known, case: str) -> bool:
        """Return whether one of several cases has a layout that a side names."""
        patterns = [side.layouts] if isinstance(side.layouts, str) else side.layouts or []
        names = self.study.cases[case]["layouts"]
        return any(matches(fill(pattern, known), names) for pattern in patterns)

    def layouts(
        self,
        path: str,
        side: Side,
        known: Known,
        names: Sequence[str],
        given: Mapping[str, int] | None = None,
    ) -> list[tuple[dict[str, int], str]]:
        """Return (values of variables, layout) of the layouts that fit a side's patterns and its `where`."""
        if side.layouts is None:
            raise Mistake(f"{path}.layouts", "this key is required")
        patterns = [side.layouts] if isinstance(side.layouts, str) else side.layouts
        filled = [fill(pattern, {**known, **(given or {})}) for pattern in patterns]
        free = {name for pattern in filled for name in variables(pattern)} | set(given or {})
        for name in side.where:
            if name not in free:
                raise Mistake(f"{path}.where.{name}", f"no variable {{{name}}} in {', '.join(filled)}")
        found: dict[str, dict[str, int]] = {}
        for pattern in filled:
            fitting = matches(pattern, names)
            if not fitting:
                raise Mistake(
                    f"{path}.layouts",
                    f"{pattern!r} matches no layout here; there are {choices(pattern, names)}",
                )
            for name, values in fitting.items():
                found.setdefault(name, {**(given or {}), **values})
        kept = [
            (values, name)
            for name, values in found.items()
            if all(values.get(key) in allowed for key, allowed in side.where.items())
        ]
        if not kept:
            raise Mistake(f"{path}.where", "leaves no layout")
        return kept

    def _state(self, path: str, side: Side, case: str, asked: str, known: Known) -> str:
        """Return the only state of a quantity, or the one asked for, on this side or else on the other, where
        the case knows it; else that of writes for their times, the session, or the only one there is.
        """
        states: list[str] = self.study.cases[case]["states"]
        only = QUANTITIES[asked].state if asked in QUANTITIES else None
        own, given = "state" in side.model_fields_set, fill(side.state or "", known) or None
        if only and own and given != only:
            raise Mistake(path, f"{asked!r} is always of state {only!r}; leave the state out")
        # Another case may know other states: a write has no session.
        state = only or (given if own or (given in states and not _of_writes(asked)) else None)
        wanted = (
            [state] if state else ["write"] if _of_writes(asked) else ["session", *states[: len(states) == 1]]
        )
        chosen = next((one for one in wanted if one in states), None)
        if chosen is None and state is None:
            raise Mistake(path, f"this key is required; case {case!r} is measured in {', '.join(states)}")
        if chosen is None:
            raise Mistake(path, f"case {case!r} is not measured in state {state!r}")
        return chosen

    def _quantity(self, path: str, name: str, state: str) -> str:
        """Return the quantity asked for; else the durable time of writes, the geometric mean of a session,
        which is a ramp, and the median of other reads.
        """
        chosen = name or {"write": "durable", "session": "geometric_mean"}.get(state, "median")
        if chosen not in QUANTITIES:
            raise Mistake(path, f"unknown {chosen!r}; there are {choices(chosen, QUANTITIES)}")
        if QUANTITIES[chosen].writes_only and state != "write":
            raise Mistake(path, f"{chosen!r} is a time of a write, and this is a read")
        return chosen


def _of_writes(quantity: str) -> bool:
    return quantity in QUANTITIES and QUANTITIES[quantity].writes_only


def over(side: Side, base: Side) -> Side:
    """Return a side with what it does not say taken from another;
    `where` goes with the layouts it belongs to.
    """
    given = {key: getattr(side, key) for key in side.model_fields_set}
    inherited: dict[str, Any] = {key: getattr(base, key) for key in ("layouts", "case", "state", "of")}
    if "layouts" not in given:
        inherited["where"] = base.where
    return Side.model_construct(_fields_set=set(given), **{**Side().model_dump(), **inherited, **given})


def paired(cells: Sequence[Cell], others: Sequence[Cell], path: str) -> list[Cell]:
    """Return for each cell its counterpart: the only other, or the one with the same values of its variables.

    Of several, one for each case, it is that of the cell's case.
    """
    if len(others) == 1:
        return [others[0]] * len(cells)
    found = []
    for cell in cells:
        fitting = [
            other
            for other in others
            if all(other["values"].get(key, value) == value for key, value in cell["values"].items())
            and (cell["values"] or other["terms"][0][2] == cell["terms"][0][2])
        ]
        if len(fitting) > 1:
            fitting = [other for other in fitting if other["terms"][0][1] == cell["terms"][0][1]]
        if len(fitting) != 1:
            name = cell["terms"][0][2]
            raise Mistake(
                path, f"layout {name!r} has {len(fitting)} counterparts; it needs one (use variables)"
            )
        found.append(fitting[0])
    return found
