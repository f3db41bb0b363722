"""Weighted sums of log values over layouts, cases and sites, with intervals from rounds.

All layouts of one site, case, state and quantity form a family: log value = layout + round + residual
(`results.block_model`). In a sum whose weights cancel within a family, what moves a whole round cancels
too, and the error is the pooled residual. Where they do not cancel (a time by itself, or one case against
another) the family's average has an error of its own, which only the rounds can tell, two degrees of freedom
with three of them; families are taken as independent, which is on the safe side where a round slows all of
them alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from hyperslab.results import student
from hyperslab.results.block_model import MIN_ROUNDS, ROUNDING, BlockFit, Floats, fit_blocks, weighted_factor

# Below this part of the largest weight a sum of weights is rounding, not a level.
CANCELS = 1e-9


@dataclass(frozen=True)
class Interval:
    """An estimate on the log scale; no ends where rounds are too few for an interval."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def known(self) -> bool:
        """Whether it has ends."""
        return self.low is not None and self.high is not None

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends, infinite where there are none."""
        return (-math.inf if self.low is None else self.low, math.inf if self.high is None else self.high)


# A variance and its degrees of freedom.
Part = tuple[float, float]


@dataclass(frozen=True)
class Share:
    """What one family adds to a sum: its value, the error of its average, and that of the layouts against it.

    `total` is the sum of the weights: the average's error is the same in all sums with that total.
    """

    value: float
    usable: bool = False
    total: float = 0.0
    average: Part | None = None
    own: Part | None = None


class Family:
    """Log values of one case, state and quantity at one site: layouts x rounds."""

    def __init__(self, values: pd.DataFrame) -> None:
        self.values = values

    @cached_property
    def logs(self) -> pd.DataFrame:
        """Natural logarithms; a count of zero is minus infinity."""
        with np.errstate(divide="ignore"):
            return np.log(self.values)

    @cached_property
    def fit(self) -> BlockFit:
        """The block model of the logs."""
        return fit_blocks(self.logs)

    @cached_property
    def position(self) -> dict[str, int]:
        """Layout -> row."""
        return {name: index for index, name in enumerate(self.fit.layouts)}

    @cached_property
    def between(self) -> tuple[float, int]:
        """Mean square between rounds and its freedom, not below the residual's."""
        values, fit = self.logs.to_numpy(), self.fit
        within = float(np.nansum((values - np.nanmean(values, axis=1)[:, None]) ** 2))
        freedom = int(fit.rounds.sum()) - len(fit.layouts) - fit.freedom
        residual = fit.variance if fit.freedom else 0.0
        square = (within - residual * fit.freedom) / freedom if freedom else math.nan
        return max(square, residual), freedom

    def share(self, weights: Mapping[str, float], these_rounds: bool) -> Share:
        """Return the part of a weighted sum that lies in this family.

        With `these_rounds` the rounds are taken as they were: the error is that against the family's
        average, which is what a ranking within the family needs.
        """
        fit = self.fit
        vector: Floats = np.zeros(len(fit.layouts))
        for name, weight in weights.items():
            vector[self.position[name]] = weight
        used = vector != 0
        value, total = float(vector @ fit.effect), float(vector.sum())
        if abs(total) < CANCELS * np.abs(vector).max():
            total = 0.0
        if fit.rounds[used].min() < MIN_ROUNDS or (not total and len(set(fit.part[used])) > 1):
            return Share(value)
        if not total or these_rounds:
            centred = vector - total / len(vector)
            factor = float(weighted_factor(fit, centred[None])[0])
            return Share(value, fit.freedom > 0, 0.0, None, (fit.variance * factor, fit.freedom))
        # Two-way layout: the average's variance is that of its rounds, the rest is the layouts' own.
        cells = fit.rounds.sum() / fit.share.shape[1]
        factor = total**2 / (float(fit.rounds[used].min()) * cells)
        rest = max(0.0, float((vector[used] ** 2 / fit.rounds[used]).sum()) - factor)
        square, freedom = self.between
        own = (fit.variance * rest, float(fit.freedom)) if rest > CANCELS else None
        usable = freedom > 0 and (own is None or fit.freedom > 0)
        return Share(value, usable, total, (square * factor, float(freedom)), own)


Weights = Mapping[Family, Mapping[str, float]]


def _half(parts: Sequence[Part], alpha: float) -> float:
    """Return half the width of a t interval for a sum of independent errors.

    Cochran and Cox's approximation, the mean of the parts' own t values weighted by their variances
    (Experimental Designs, 2nd edition, section 4.14), is on the safe side (Mickey and Brown, Annals of
    Mathematical Statistics 37, 1966).
    """
    variance = sum(square for square, _ in parts)
    if variance <= 0:
        return 0.0
    critical = (
        sum(square * float(student.critical(alpha / 2, freedom)) for square, freedom in parts) / variance
    )
    return critical * math.sqrt(variance)


def combine(sums: Sequence[Weights], alpha: float, these_rounds: bool = False) -> list[Interval]:
    """Return the weighted sums of log values, with t intervals that hold together with probability 1 - alpha
    at least.

    Several sums share alpha (Bonferroni): half of it goes to the errors of families' averages, of which there
    are as many as there are different ones, the other half to the layouts' own. No interval where a layout
    has under three rounds or no degree of freedom is left.
    """
    shares = [
        {family: family.share(own, these_rounds) for family, own in weights.items()} for weights in sums
    ]
    averages = {_averages(found) for found in shares} - {frozenset()}
    result = []
    for found in shares:
        value = sum(share.value for share in found.values())
        if not math.isfinite(value) or not all(share.usable for share in found.values()):
            result.append(Interval(value))
            continue
        common = [share.average for share in found.values() if share.average is not None]
        own = [share.own for share in found.values() if share.own is not None]
        if len(sums) == 1 or not averages:
            half = _half([*common, *own], alpha / len(sums))
        else:
            half = _half(common, alpha / 2 / len(averages)) + _half(own, alpha / 2 / len(sums))
        half = max(half, ROUNDING)
        result.append(Interval(value, value - half, value + half))
    return result


def _averages(found: Mapping[Family, Share]) -> frozenset[tuple[int, float]]:
    """Return which families' averages a sum contains, and how often."""
    return frozenset((id(family), share.total) for family, share in found.items() if share.total)


def spread_over_rounds(weights: Weights) -> Interval:
    """Return the weighted sum of the logs of counts: its mean over rounds,
    and its least and greatest value.
    """
    total: pd.Series | None = None
    for family, own in weights.items():
        with np.errstate(invalid="ignore"):
            part = sum(weight * family.logs.loc[name] for name, weight in own.items())
            total = part if total is None else total + part
    assert total is not None
    rounds = total.dropna()
    if rounds.empty:
        return Interval(math.nan)
    low, high = float(rounds.min()), float(rounds.max())
    middle = low if low == high else float(rounds.mean())
    return Interval(middle, low, high)
