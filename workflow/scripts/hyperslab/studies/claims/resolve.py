"""Claims of a study as evaluation takes them: patterns matched, defaults filled in, every name checked.

The result is plain data, so that a rule can hold it as a parameter: evaluation needs no study file.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hyperslab.studies import figures
from hyperslab.studies.claims.patterns import fill, variables
from hyperslab.studies.claims.quantities import QUANTITIES
from hyperslab.studies.claims.schema import Claim, Comparison
from hyperslab.studies.claims.sides import Cell, Known, Mistake, Sides, over, paired
from hyperslab.validation.errors import ConfigurationError
from hyperslab.validation.nearest import choices

if TYPE_CHECKING:
    from hyperslab.studies.study import LoadedStudy

# kind -> keys that it needs beside `a`, and keys that it may have.
NEEDS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "value": (frozenset(), frozenset()),
    "ratio": (frozenset({"b"}), frozenset()),
    "fastest": (frozenset(), frozenset({"b"})),
    "slope": (frozenset({"over"}), frozenset()),
    "count": (frozenset({"counting"}), frozenset({"b"})),
    "crossover": (frozenset({"b", "over"}), frozenset()),
    "optimum": (frozenset({"over"}), frozenset()),
    "full_marks": (frozenset(), frozenset()),
    "matched_marks": (frozenset(), frozenset()),
}
MARKS = ("full_marks", "matched_marks")
# Kinds that compare layout by layout, or read a variable off each layout.
PAIRED = ("count", "crossover")


def resolve_claims(study: LoadedStudy) -> list[dict[str, Any]]:
    """Return every claim of a study as plain data; raises ConfigurationError for the first mistake.

    A study without claims costs nothing.
    """
    claims = study.study.claims
    drawn = figures.names(figures.describe(study)) if claims else []
    return [_resolve_claim(study, name, claim, drawn) for name, claim in claims.items()]


def _resolve_claim(study: LoadedStudy, name: str, claim: Claim, drawn: Sequence[str]) -> dict[str, Any]:
    path = f"claims.{name}"
    if claim.figure is not None and claim.figure not in drawn:
        known = choices(claim.figure, drawn)
        raise ConfigurationError(
            study.file, f"{path}.figure", f"no figure {claim.figure!r} in this study; there are {known}"
        )
    if claim.explains is not None and claim.explains == name:
        raise ConfigurationError(study.file, f"{path}.explains", "a claim does not explain itself")
    comparisons = []
    for position, comparison in enumerate(claim.comparisons):
        where = f"{path}.comparisons.{position}"
        try:
            comparisons.append(_Resolver(study, comparison, bool(claim.across)).resolved())
        except Mistake as mistake:
            inside = f"{where}.{mistake.path}" if mistake.path else where
            raise ConfigurationError(study.file, inside, str(mistake)) from None
    content = claim.model_dump(exclude={"comparisons"}, exclude_none=True)
    told: dict[str, Any] = {"id": name, **content}
    if donor := study.dataset.donor:
        told["donor"] = donor.path
    if sites_file := study.study.sites_file:
        told["sites_file"] = sites_file.model_dump(exclude_none=True)
    if study.study.adaptive:
        told["adaptive"] = {"first": study.study.first_rounds, "most": study.study.most_rounds}
    return {**told, "comparisons": comparisons}


def _word(value: int | str) -> str:
    return str(value).replace("_", " ")


def _together(name: str, values: Sequence[int | str]) -> str:
    """Return what stands for all values of a variable at once: the words themselves,
    the name of one of numbers.
    """
    return name if all(isinstance(value, int) for value in values) else " / ".join(map(_word, values))


class _Resolver:
    """One comparison of a claim against the layouts and cases of its study."""

    def __init__(self, study: LoadedStudy, comparison: Comparison, across: bool) -> None:
        self.study = study
        self.comparison = comparison
        self.across = across
        self._sides = Sides(study)
        self.kind = comparison.kind or ("ratio" if comparison.b else "value")

    def resolved(self) -> dict[str, Any]:
        """Return the comparison as plain data, one instance for each combination of `for_all`."""
        comparison = self.comparison
        self._check_keys()
        loops = comparison.for_all
        instances = [
            self._instance(dict(zip(loops, combination, strict=True)))
            for combination in itertools.product(*loops.values())
        ]
        units = {instance.pop("unit") for instance in instances}
        exact = {instance.pop("exact") for instance in instances}
        if len(units) > 1 or len(exact) > 1:
            raise Mistake("for_all", "every value must look at the same kind of number")
        bound = comparison.model_dump(
            include={"above", "at_least", "below", "at_most", "equals", "similar", "margin"},
            exclude_none=True,
            exclude_unset=True,
        )
        if exact == {False} and comparison.equals is not None and self.kind in ("value", "ratio", "slope"):
            raise Mistake("equals", "no time equals a number; use `similar` with a margin")
        optional = {
            "over": comparison.over,
            "counting": comparison.counting and comparison.counting.model_dump(exclude_unset=True),
            "published": comparison.published,
            "why": comparison.why,
            "score": self._score() if self.kind in MARKS else None,
        }
        return {
            "says": fill(comparison.says, {name: _together(name, loops[name]) for name in loops}),
            "kind": self.kind,
            "judged": comparison.judged,
            "bound": bound,
            "unit": units.pop(),
            "exact": exact.pop(),
            **{key: value for key, value in optional.items() if value is not None},
            "instances": instances,
        }

    def _check_keys(self) -> None:
        needed, allowed = NEEDS[self.kind]
        given = {key for key in ("b", "over", "counting") if getattr(self.comparison, key) is not None}
        for key in sorted(needed - given):
            raise Mistake(key, f"this key is required by kind {self.kind}")
        for key in sorted(given - needed - allowed):
            raise Mistake(key, f"kind {self.kind} has no {key}")
        if self.across and self.kind != "ratio":
            raise Mistake("kind", "a claim across sites compares by ratio")

    def _score(self) -> dict[str, Any]:
        score = self.study.study.score
        if score is None:
            raise Mistake("kind", f"kind {self.kind} needs a `score` in the study")
        return score.model_dump(exclude_none=True)

    def _instance(self, known: Known) -> dict[str, Any]:
        """Return one atomic comparison: its words, the cells of both sides, their unit,
        whether they are counts.
        """
        comparison = self.comparison
        words = {key: _word(value) for key, value in known.items()}
        unknown = [name for name in variables(comparison.says) if name not in known]
        if unknown:
            raise Mistake(
                "says", f"no value for {{{unknown[0]}}}; `for_all` fills in {', '.join(known) or 'nothing'}"
            )
        says = fill(comparison.says, words)
        if self.kind in MARKS:
            return {"says": says, **self._marks(known), "unit": "layouts", "exact": False}
        a = self._sides.cells("a", comparison.a, known)
        b: list[Cell] | None = None
        if comparison.b is not None:
            merged = over(comparison.b, comparison.a)
            b = self._sides.cells("b", merged, known)
        elif self.kind == "fastest":
            b = self._rest(a, known)
        quantities = {term[4] for cell in [*a, *(b or [])] for term in cell["terms"]}
        exact = {QUANTITIES[name].exact for name in quantities}
        if len(exact) > 1:
            raise Mistake("b", "a time and a count cannot be compared")
        if self.kind in PAIRED and b is not None:
            b = paired(a, b, "b")
        for cell in a if comparison.over else []:
            if comparison.over not in cell["values"]:
                raise Mistake("over", f"no variable {{{comparison.over}}} in the layouts or case of a")
        if self.kind in ("value", "ratio") and not self.across and b is not None and a == b:
            raise Mistake("b", "the same rows as a")
        return {"says": says, "a": a, **({"b": b} if b else {}), "unit": self._unit(a), "exact": exact.pop()}

    def _unit(self, a: Sequence[Cell]) -> str:
        """Return the unit of the estimate: that of side a for a plain value, else a ratio,
        an exponent, layouts.
        """
        if self.kind == "value" and len(a[0]["terms"]) == 1:
            return QUANTITIES[a[0]["terms"][0][4]].unit
        return {"slope": "exponent", "count": "layouts", "crossover": "position", "optimum": "position",
                "value": "ratio"}.get(self.kind, "ratio")  # fmt: skip

    def _marks(self, known: Known) -> dict[str, Any]:
        """Return the layouts whose marks count, and the pool in which they are ranked: the grid, or all."""
        counted = [
            cell for _, cell in self._sides.layouts("a", self.comparison.a, known, list(self.study.layouts))
        ]
        pool = list(self.study.grid_values) or list(self.study.layouts)
        for name in counted if self.kind == "matched_marks" else ():
            # It would be counted as one whose file is too large.
            if name not in pool:
                raise Mistake("a.layouts", f"{name!r} is not of the grid, whose layouts are ranked")
        return {"layouts": counted, "pool": pool}

    def _rest(self, a: Sequence[Cell], known: Known) -> list[Cell]:
        """Return what the patterns of side a match beyond its `where`."""
        everything = self._sides.cells("a", self.comparison.a.model_copy(update={"where": {}}), known)
        rest = [cell for cell in everything if cell not in a]
        if not rest:
            raise Mistake("b", "this key is required where `where` leaves nothing out")
        return rest
