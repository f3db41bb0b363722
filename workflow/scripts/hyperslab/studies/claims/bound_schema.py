"""A bound of a comparison: the range of values in which what is measured should lie."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field, model_validator

from hyperslab.validation.models import Strict

Number = Annotated[float, Field(allow_inf_nan=False)]
BOUNDS = ("above", "at_least", "below", "at_most", "equals", "similar")
# Two times that differ by less count as similar (measurement.md's default).
SIMILAR_MARGIN = 1.25
# What is meant by one number, up to rounding in floating point.
EQUAL = 1e-9


class Bound(Strict):
    """A range of values: a comparison that surely lies inside holds, one that surely lies outside fails."""

    above: Number | None = Field(default=None, description="more than this")
    at_least: Number | None = Field(default=None, description="this or more")
    below: Number | None = Field(default=None, description="less than this")
    at_most: Number | None = Field(default=None, description="this or less")
    equals: Number | None = Field(default=None, description="exactly this")
    similar: Annotated[Number, Field(gt=0)] | None = Field(
        default=None, description="within the margin of this"
    )
    margin: Annotated[Number, Field(gt=1)] = Field(
        default=SIMILAR_MARGIN, description="the factor within which numbers are similar"
    )

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
            low = math.nextafter(self.above + EQUAL * abs(self.above), math.inf)
        if self.at_least is not None:
            low = self.at_least
        if self.below is not None:
            high = math.nextafter(self.below - EQUAL * abs(self.below), -math.inf)
        if self.at_most is not None:
            high = self.at_most
        return low, high
