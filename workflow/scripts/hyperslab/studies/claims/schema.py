"""What a study may say of a claim: its sentence, the published number, and comparisons with their bounds.

A bound comes from the document and never follows a result.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from hyperslab.validation.models import Count, Name, Strict, Whole

Number = Annotated[float, Field(allow_inf_nan=False)]
Kind = Literal[
    "value", "ratio", "fastest", "slope", "count", "crossover", "optimum", "full_marks", "matched_marks"
]
BOUNDS = ("above", "at_least", "below", "at_most", "equals", "similar")
# Two times that differ by less count as similar (measurement.md's default).
SIMILAR_MARGIN = 1.25
# Under this name stand claims that no study tests.
NO_STUDY = ""
# What is meant by one number, up to rounding in floating point.
EQUAL = 1e-9


class Bound(Strict):
    """A range of values: where the whole interval lies inside a comparison holds, outside it fails."""

    above: Number | None = None
    at_least: Number | None = None
    below: Number | None = None
    at_most: Number | None = None
    equals: Number | None = None
    similar: Annotated[Number, Field(gt=0)] | None = None
    margin: Annotated[Number, Field(gt=1)] = SIMILAR_MARGIN

    @model_validator(mode="after")
    def _one_range(self) -> Bound:
        lower = [
            name for name in ("above", "at_least", "equals", "similar") if getattr(self, name) is not None
        ]
        upper = [
            name for name in ("below", "at_most", "equals", "similar") if getattr(self, name) is not None
        ]
        if not lower and not upper:
            raise ValueError("a bound is needed: above, at_least, below, at_most, equals or similar")
        for both in (lower, upper):
            if len(both) > 1:
                raise ValueError(f"{both[0]} and {both[1]} cannot both bound one number")
        if "margin" in self.model_fields_set and self.similar is None:
            raise ValueError("only `similar` has a margin")
        low, high = self.ends
        if low > high:
            raise ValueError(f"nothing lies above {low:g} and below {high:g}")
        return self

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and highest value inside; strict bounds as the nearest number that is inside."""
        low, high = -math.inf, math.inf
        if self.equals is not None:
            low, high = sorted((self.equals * (1 - EQUAL), self.equals * (1 + EQUAL)))
        if self.similar is not None:
            low, high = self.similar / self.margin, self.similar * self.margin
        if self.above is not None:
            low = math.nextafter(self.above, math.inf)
        if self.at_least is not None:
            low = self.at_least
        if self.below is not None:
            high = math.nextafter(self.below, -math.inf)
        if self.at_most is not None:
            high = self.at_most
        return low, high


class Side(Strict):
    """Which rows: layouts by name, glob or with variables in braces; a case; a state; and what is looked at.

    Several layouts count with their geometric mean. `where` keeps the values of variables in braces that it
    lists. `per` divides by other rows, which are those of this side in all that it does not say.
    """

    layouts: str | list[str] | None = None
    where: dict[Name, list[Whole]] = {}
    case: str | None = None
    state: str | None = None
    of: str | None = None
    per: Side | None = None


class Comparison(Bound):
    """One atomic comparison, or one for each value of `for_all`; claims.kinds says what a kind compares."""

    says: str
    kind: Kind | None = None
    a: Side
    b: Side | None = None
    for_all: dict[Name, Annotated[list[Whole | str], Field(min_length=1)]] = {}
    over: Name | None = None
    counting: Bound | None = None
    published: str | None = None
    judged: bool = True


class SiteKind(Strict):
    """Which sites: by name, type of file system, whether they are throttled, and least physical cores.

    Sites whose file systems lie in memory have nothing to be cold, and are left out unless named.
    """

    sites: list[str] = ["*"]
    file_system: list[str] = []
    throttled: bool | None = None
    cores: Count | None = None
    in_memory: bool = False
    words: str | None = None


class Across(Strict):
    """A claim that compares two kinds of site: side `a` lies on one, side `b` on the other."""

    a: SiteKind
    b: SiteKind


class Claim(Strict):
    """A sentence of a source document, and what would show whether it holds.

    `testability` is V (reproducible), D (its direction), S (at a smaller scale) or X (not without the
    original machines); `untestable` says why nothing is compared.
    """

    sentence: str
    source: str
    section: str
    testability: Annotated[str, Field(pattern=r"^[VDSX](/[VDSX])?$")]
    published: str | None = None
    comparisons: list[Comparison] = []
    untestable: str | None = None
    figure: str | None = None
    at: SiteKind = SiteKind()
    across: Across | None = None
    # A claim that this one may explain, and the explanation in a few words.
    explains: str | None = None
    explanation: str | None = None

    @model_validator(mode="after")
    def _tested_or_not(self) -> Claim:
        if bool(self.comparisons) == bool(self.untestable):
            raise ValueError("needs either comparisons, or the reason why it is `untestable`")
        if (self.explains is None) != (self.explanation is None):
            raise ValueError("`explains` and `explanation` come together")
        if self.across and "at" in self.model_fields_set:
            raise ValueError("`at` and `across` cannot both say where")
        if self.comparisons and not any(comparison.judged for comparison in self.comparisons):
            raise ValueError("at least one comparison must be judged")
        return self
