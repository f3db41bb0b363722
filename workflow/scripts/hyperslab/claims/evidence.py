"""What rounds say of several ratios at once: p values against either side of a bound, and how they combine.

Ratios of times are tested by their differences within rounds (`results.comparisons`). Counts have no chance
in them: their p values are 0 or 1. A p value is that of the statement being wrong: `inside` is small where a
ratio surely lies inside its bound, `outside` where it surely lies outside. Everything is on the log scale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hyperslab.results import student
from hyperslab.results.comparisons import (
    MIN_ROUNDS,
    MODERATED_ROUNDS,
    WEIGHT,
    Contrasts,
    Floats,
    holm,
    in_common,
    moderate,
    of_rounds,
)
from hyperslab.results.comparisons import ROUNDING as EXACT

# What a logarithm and back does to a number.
ROUNDING = 1e-12
# How often as many rounds as are said to tell do tell.
POWER = 0.8


class Evidence(Protocol):
    """K numbers of which rounds say how sure they are."""

    @property
    def value(self) -> Floats:
        """The estimates, of shape (K,)."""

    @property
    def deviation(self) -> Floats:
        """The deviations between rounds, of shape (K,)."""

    @property
    def rounds(self) -> NDArray[np.intp]:
        """The numbers of rounds, of shape (K,)."""

    def inside(self, low: float, high: float) -> Floats:
        """Return the p values (K,) against lying outside of low to high."""

    def outside(self, low: float, high: float) -> Floats:
        """Return the p values (K,) against lying inside of low to high."""

    def limits(self, alpha: float) -> tuple[Floats, Floats]:
        """Return the one-sided lower and upper limits (K,), each at level 1 - alpha; NaN where unknown."""

    def part(self, start: int, end: int) -> Evidence:
        """Return those from `start` to before `end`."""


@dataclass(frozen=True)
class Timed:
    """Ratios of times. `luck` is the power with which tests are foreseen, 0 for what was measured.

    `drawn` are the variances drawn towards what they have in common, as they are from five rounds on, and
    `degrees` the degrees of freedom of the latter; NaN and 0 where too few ratios have rounds enough.
    """

    contrasts: Contrasts
    drawn: Floats
    degrees: Floats
    luck: float = 0.0

    @property
    def value(self) -> Floats:
        """The means over rounds."""
        return self.contrasts.value

    @property
    def deviation(self) -> Floats:
        """The deviations between rounds."""
        return self.contrasts.deviation

    @property
    def rounds(self) -> NDArray[np.intp]:
        """The numbers of rounds."""
        return self.contrasts.rounds

    def _beyond(self, bound: float, sign: int, ends: int) -> Floats:
        """Return the p values for sign * (value - bound) > 0; 1 where rounds are too few."""
        own = self.contrasts
        with np.errstate(invalid="ignore"):
            t = sign * (own.value - bound) / own.error
            if self.luck:
                # In all but 1 - luck of runs t comes out higher; of two ends each may take half of that.
                t = t - student.quantile(1 - (1 - self.luck) / ends, own.freedom)
            p = student.above(t, own.freedom)
        known: Floats = np.where(np.isfinite(p), p, 1.0)
        return known

    def inside(self, low: float, high: float) -> Floats:
        """Return the larger of both one-sided p values: two one-sided tests where there are two ends."""
        ends = [(bound, sign) for bound, sign in ((low, 1), (high, -1)) if math.isfinite(bound)]
        return _largest([self._beyond(bound, sign, len(ends)) for bound, sign in ends], self.value)

    def outside(self, low: float, high: float) -> Floats:
        """Return the smaller of both one-sided p values, times two where there are two ends."""
        ends = [(bound, sign) for bound, sign in ((low, -1), (high, 1)) if math.isfinite(bound)]
        found = [self._beyond(bound, sign, 1) for bound, sign in ends]
        return any_of(np.array(found)) if found else np.ones_like(self.value)

    def limits(self, alpha: float) -> tuple[Floats, Floats]:
        """Return the ends of the two-sided t interval at level 1 - 2 alpha."""
        return self.contrasts.interval(min(2 * alpha, 1.0))

    def part(self, start: int, end: int) -> Timed:
        """Return those from `start` to before `end`."""
        own = self.contrasts
        chosen = slice(start, end)
        cut = Contrasts(
            own.value[chosen], own.deviation[chosen], own.rounds[chosen], own.error[chosen],
            own.freedom[chosen],
        )  # fmt: skip
        return Timed(cut, self.drawn[chosen], self.degrees[chosen], self.luck)

    def foreseen(self, rounds: int) -> Timed:
        """Return what that many rounds in all would say, at today's estimates and deviations, four times of
        five.
        """
        own = self.contrasts
        total = np.maximum(rounds, own.rounds)
        together = (total >= MODERATED_ROUNDS) & (self.degrees > 0)
        variance = np.where(together, self.drawn, own.deviation**2)
        error = np.where(np.isfinite(own.error), np.maximum(np.sqrt(variance / total), EXACT), math.nan)
        freedom = total - 1 + np.where(together, np.minimum(self.degrees, WEIGHT * (total - 1)), 0.0)
        return replace(self, contrasts=replace(own, rounds=total, error=error, freedom=freedom), luck=POWER)


@dataclass(frozen=True)
class Counted:
    """Numbers that are counted: the least and the greatest over the rounds, each of shape (K,)."""

    low: Floats
    high: Floats
    value: Floats
    rounds: NDArray[np.intp]

    @property
    def deviation(self) -> Floats:
        """No deviation: a count has the value that it has."""
        return np.full_like(self.value, math.nan)

    def inside(self, low: float, high: float) -> Floats:
        """Return 0 where every round's count lies inside, else 1."""
        return np.where((self.low >= low - ROUNDING) & (self.high <= high + ROUNDING), 0.0, 1.0)

    def outside(self, low: float, high: float) -> Floats:
        """Return 0 where every round's count lies outside on one side, else 1."""
        return np.where((self.high < low - ROUNDING) | (self.low > high + ROUNDING), 0.0, 1.0)

    def limits(self, alpha: float) -> tuple[Floats, Floats]:
        """Return the least and the greatest."""
        return self.low, self.high

    def part(self, start: int, end: int) -> Counted:
        """Return those from `start` to before `end`."""
        chosen = slice(start, end)
        return Counted(self.low[chosen], self.high[chosen], self.value[chosen], self.rounds[chosen])


def timed(logs: Floats) -> Timed:
    """Return the evidence of K x R logs, one family."""
    found = of_rounds(logs)
    drawn, degrees = np.full_like(found.value, math.nan), np.zeros_like(found.value)
    known = found.rounds >= MIN_ROUNDS
    freedom: Floats = np.asarray(found.rounds[known] - 1, dtype=float)
    variance = found.deviation[known] ** 2
    drawn[known], degrees[known] = moderate(variance, freedom)[0], in_common(variance, freedom)[0]
    return Timed(found, drawn, degrees)


def counted(logs: Floats) -> Counted:
    """Return the evidence of K x R logs of counts; a count of zero is minus infinity."""
    known = np.ma.masked_invalid(np.where(np.isinf(logs), np.sign(logs) * 1e300, logs))
    low, high = (_back(end) for end in (known.min(axis=1), known.max(axis=1)))
    middle = np.where(low == high, low, _back(known.mean(axis=1)))
    return Counted(low, high, middle, np.asarray((~np.isnan(logs)).sum(axis=1), dtype=np.intp))


def _back(found: NDArray[np.float64]) -> Floats:
    """Return masked numbers as NaN, and those that stand for infinity as such."""
    plain = np.asarray(np.ma.filled(found, math.nan), dtype=float)
    return np.where(np.abs(plain) > 1e200, np.copysign(math.inf, plain), plain)


def _largest(found: list[Floats], like: Floats) -> Floats:
    worst: Floats = np.max(found, axis=0) if found else np.zeros_like(like)
    return worst


def any_of(p: ArrayLike) -> Floats:
    """Return the p value of "at least one", along the first axis: the least times their number
    (Bonferroni).
    """
    values = np.asarray(p, dtype=float)
    least: Floats = np.minimum(1.0, len(values) * values.min(axis=0))
    return least


def all_of(p: ArrayLike) -> Floats:
    """Return the p value of "every one", along the first axis: the largest (intersection-union; Berger,
    Technometrics 24, 1982).
    """
    worst: Floats = np.asarray(p, dtype=float).max(axis=0)
    return worst


def at_least(p: ArrayLike, number: int) -> float:
    """Return the p value of "at least `number` of these are true", whatever their dependence.

    The partial conjunction of Benjamini and Heller (Biometrics 64, 2008) with Bonferroni's combination: the
    u-th smallest of k times k - u + 1; the largest of these up to `number`, so that all numbers can be looked
    at and the greatest that is shown is a lower bound. It is Holm's count of rejections.
    """
    values = np.sort(np.asarray(p, dtype=float))
    if number <= 0:
        return 0.0
    if number > len(values):
        return 1.0
    each = values[:number] * (len(values) - np.arange(number))
    return float(min(1.0, each.max()))


def most_shown(p: ArrayLike, alpha: float) -> int:
    """Return the greatest number of which `at_least` is shown at level alpha."""
    count = len(np.asarray(p))
    return max(number for number in range(count + 1) if at_least(p, number) <= alpha)


def open_ones(met: Floats, missed: Floats, alpha: float) -> NDArray[np.bool_]:
    """Return which of k are neither sure to meet a condition nor sure to miss it, by the steps in which a
    partial conjunction counts them (Holm's).
    """
    open_: NDArray[np.bool_] = np.minimum(holm(met), holm(missed)) > alpha
    return open_


def enough(found: Evidence) -> bool:
    """Return whether every number has the rounds that an interval needs."""
    return isinstance(found, Counted) or bool((found.rounds >= MIN_ROUNDS).all())
