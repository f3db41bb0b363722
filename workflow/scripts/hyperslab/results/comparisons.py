"""Which test says how sure a comparison is, and when: the only place where intervals and p values are made.

A round is a block: every cell once, with new files in new processes. What slows a whole round down hits both
sides of a comparison, so a comparison is formed within each round first, as a difference of logs, and its
differences over the rounds have a deviation of their own. Three cases:

- Under three rounds there is no interval.
- With three or four: the paired t test (Student, Biometrika 6, 1908), each comparison with its own deviation.
- From five on: the moderated t test (Smyth, Statistical Applications in Genetics and Molecular Biology 3(1),
  2004, sections 3 and 6.2). The variances of comparisons that are made together are drawn towards what they
  have in common, as far as they have it, which adds degrees of freedom, here at most twice as many as a
  comparison has itself. With fewer rounds the common part
  would have to be estimated from what is hardly known, and equal layouts are called different too often.

One variance pooled over all comparisons is not among them: cells differ in how much they vary, and a pooled
variance calls noisy pairs different and hides quiet ones' differences (`simulate_comparisons.py`).

Whether one time is less than another is a question with two answers and a margin between them. It is, where
the ratio surely lies below 1. It is not, where it surely lies above 1/`MATTERS`: whatever the truth is, no
difference that matters lies on that side. That is a test against a margin, as of non-inferiority
(Blackwelder, Controlled Clinical Trials 3, 1982); where the ratio surely lies below `MATTERS`, too, these are
two one-sided tests of equivalence (Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15, 1987).
Were both answers asked of 1, no number of rounds would ever give one where the truth is 1. A ratio of 1 or
more is called less with probability alpha at most, one of 1/`MATTERS` or less is called not less with
probability alpha at most (`simulate_comparisons.py`); between the two neither answer is wrong.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import special

from hyperslab.results import student
from hyperslab.results.adjusted import adjusted_means, effects

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]

MIN_ROUNDS = 3
MODERATED_ROUNDS = 5
ALPHA = 0.05
# A common variance is not estimated from fewer comparisons than these.
FAMILY = 4
# It counts for at most so many times the degrees of freedom that a comparison has itself: comparisons with
# one reference share that one's deviation, and seem to agree more than they do. What that limit does to
# errors and to power, in simulated studies, stands in docs/measured.md.
WEIGHT = 2.0
# Times whose ratio lies within x/÷ this of 1 differ by nothing that matters.
MATTERS = 1.05
# A bound this near to 1 is one at 1: less than 1 is the nearest number below it.
AT_ONE = 1e-8
# Deviations of a log below this are rounding of floating-point numbers, not agreement between rounds.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Contrasts:
    """Comparisons that are made together, on the log scale; every field has shape (K,).

    `value` is the mean over rounds, `deviation` that between rounds (each comparison's own; NaN under two
    rounds), `rounds` their number, `error` the standard error that tests use on `freedom` degrees of freedom,
    both NaN under three rounds.
    """

    value: Floats
    deviation: Floats
    rounds: Integers
    error: Floats
    freedom: Floats

    def interval(self, alpha: float | Floats = ALPHA) -> tuple[Floats, Floats]:
        """Return both ends of the two-sided t intervals at level 1 - alpha; NaN under three rounds."""
        half = student.critical(np.asarray(alpha) / 2, self.freedom) * self.error
        return self.value - half, self.value + half

    def p_above(self, bound: ArrayLike = 0.0) -> Floats:
        """Return the p values against "not above the bound" (a log): small where it surely lies above."""
        p: Floats = student.above((self.value - np.asarray(bound)) / self.error, self.freedom)
        return p

    def p_below(self, bound: ArrayLike = 0.0) -> Floats:
        """Return the p values against "not below the bound" (a log): small where it surely lies below."""
        p: Floats = student.above((np.asarray(bound) - self.value) / self.error, self.freedom)
        return p

    def p_different(self) -> Floats:
        """Return the two-sided p values against "equal"."""
        p: Floats = 2 * student.above(np.abs(self.value) / self.error, self.freedom)
        return p


def of_rounds(differences: ArrayLike) -> Contrasts:
    """Return K contrasts from K x R logs, one number a round; NaN where a round lacks one.

    Those that are passed together are one family for the moderated test.
    """
    values = np.atleast_2d(np.asarray(differences, dtype=float))
    here = np.isfinite(values)
    rounds = here.sum(axis=1)
    safe = np.where(here, values, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(rounds > 0, safe.sum(axis=1) / rounds, math.nan)
        squares = np.where(here, (safe - mean[:, None]) ** 2, 0.0).sum(axis=1)
        freedom = np.where(rounds > 1, rounds - 1.0, math.nan)
        variance = squares / freedom
    deviation = np.sqrt(variance)
    moderated = rounds >= MODERATED_ROUNDS
    variance[moderated], freedom[moderated] = moderate(variance[moderated], freedom[moderated])
    enough = rounds >= MIN_ROUNDS
    error = np.where(enough, np.maximum(np.sqrt(variance / np.maximum(rounds, 1)), ROUNDING), math.nan)
    return Contrasts(mean, deviation, rounds, error, np.where(enough, freedom, math.nan))


def of_average_round(found: Contrasts, logs: pd.DataFrame) -> tuple[Floats, Floats, Floats]:
    """Return the mean of each row in an average round, and both ends of its 95 % interval; all of shape (K,).

    `logs` are layouts x rounds, `found` is `of_rounds` of them. Where a layout lacks rounds its interval is
    moved from the mean over its own to that of an average round, as in every table.
    """
    middle = adjusted_means(logs).to_numpy()
    low, high = (end + middle - found.value for end in found.interval())
    return middle, low, high


def prior(variance: Floats, freedom: Floats) -> tuple[float, float]:
    """Return what variances have in common: degrees of freedom (maybe endless) and the variance itself.

    Both arguments have shape (K,). The moments of the log variances are fitted (Smyth 2004, section 6.2);
    where these scatter no more than chance lets those of equal variances, the degrees are endless.
    """
    # A variance of nothing has no log; what counts is that it is far below the others.
    known = np.maximum(variance, max(1e-5 * float(np.median(variance)), ROUNDING**2))
    half = freedom / 2
    centred = np.log(known) - special.digamma(half) + np.log(half)
    scatter = float(np.var(centred, ddof=1) - special.polygamma(1, half).mean())
    if scatter <= 0:
        return math.inf, math.exp(float(centred.mean()))
    degrees = 2 * _inverse_trigamma(scatter)
    level = float(centred.mean()) + float(special.digamma(degrees / 2)) - math.log(degrees / 2)
    return degrees, math.exp(level)


def in_common(variance: Floats, freedom: Floats) -> tuple[Floats, float]:
    """Return the degrees of freedom that what variances have in common adds to each, and that variance.

    Both arguments have shape (K,), as the degrees have. These are 0 for all where fewer are different than a
    family has, and always for a variance of nothing: that of a layout beside itself.
    """
    noisy = variance > ROUNDING**2
    # A contrast that is another one turned round says nothing new of how variances scatter.
    distinct: Floats = np.unique(np.stack([variance, freedom])[:, noisy], axis=1)
    if distinct.shape[1] < FAMILY:
        return np.zeros_like(variance), 0.0
    degrees, common = prior(*distinct)
    return np.where(noisy, degrees, 0.0), common


def moderate(variance: Floats, freedom: Floats) -> tuple[Floats, Floats]:
    """Return variances drawn towards what they have in common, and their degrees of freedom.

    Both have shape (K,). Those that have nothing in common with the others stay as they are.
    """
    degrees, common = in_common(variance, freedom)
    added = np.minimum(degrees, WEIGHT * freedom)
    return (added * common + freedom * variance) / (added + freedom), added + freedom


def _inverse_trigamma(value: float) -> float:
    """Return the x whose trigamma is `value` > 0, by Newton's steps on 1/trigamma (Smyth 2004, appendix)."""
    if value > 1e7:
        return 1 / math.sqrt(value)
    if value < 1e-6:
        return 1 / value
    x = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(special.polygamma(1, x))
        step = trigamma * (1 - trigamma / value) / float(special.polygamma(2, x))
        x += step
        if -step / x < 1e-8:
            break
    return x


def table(found: Contrasts, alpha: float = ALPHA) -> pd.DataFrame:
    """Return the contrasts as ratios, one row each, adjusted for their number.

    Columns: `ratio`; `low`, `high`, the t interval at the level at which Holm's procedure tests the ratio,
    so that it leaves 1 out exactly where `different`; `low_joint`, `high_joint`, Bonferroni's; `p`
    (two-sided), `p_holm`, `different` (p_holm <= alpha), `rounds` and `sd_log`, its own deviation between
    rounds. No interval, p or difference under three rounds.

    `different` is wrong for any row with probability alpha at most. The Holm intervals answer that one
    question; the joint ones hold together with probability 1 - alpha and are those to set against any other
    bound.
    """
    p = found.p_different()
    p_holm = holm(p)
    low, high = found.interval(holm_levels(p, alpha))
    low_joint, high_joint = found.interval(alpha / max(1, int(np.isfinite(p).sum())))
    logs = {"ratio": found.value, "low": low, "high": high, "low_joint": low_joint, "high_joint": high_joint}
    tests = {"p": p, "p_holm": p_holm, "different": p_holm <= alpha}
    own = {"rounds": found.rounds, "sd_log": found.deviation}
    return pd.DataFrame({name: np.exp(value) for name, value in logs.items()} | tests | own)


def not_worse_than_best(
    logs: pd.DataFrame, alpha: float = ALPHA, means: ArrayLike | None = None
) -> tuple[int, Contrasts, NDArray[np.bool_]]:
    """Compare each row with the best, the least, and tell which rows cannot be told from it.

    `logs` is layouts x rounds. A layout is left out where it is surely worse than some other: one-sided
    tests at alpha over the number of its rivals, which is Hsu's multiple comparisons with the best (Annals
    of Statistics 12, 1984) with Bonferroni's bound in place of Dunnett's, as variances differ here. The best
    layout is among those that stay with probability 1 - alpha at least. Returns which is the best: of those
    that stay, the one with the least mean (`means`, by default each row's in an average round); each layout
    against it over the rounds that they share (0 for itself); and which stay, without three rounds all.
    """
    values = logs.to_numpy(dtype=float)
    count = len(values)
    stays = np.ones(count, bool)
    if count > 1:
        first, second = np.nonzero(~np.eye(count, dtype=bool))
        worse = of_rounds(values[first] - values[second]).p_above() <= alpha / (count - 1)
        stays[first[worse]] = False
    least = effects(values)[0] if means is None else np.asarray(means, dtype=float)
    # Where rows share few rounds, each may be worse than some other.
    best = int(np.nanargmin(np.where(stays, least, np.nan) if stays.any() else least))
    return best, of_rounds(values - values[best]), stays


def equivalent(found: Contrasts, margin: float, alpha: float = ALPHA) -> NDArray[np.bool_]:
    """Return which ratios surely lie within x/÷ `margin`: two one-sided tests (Schuirmann 1987)."""
    bound = math.log(margin)
    inside: NDArray[np.bool_] = np.maximum(found.p_below(bound), found.p_above(-bound)) <= alpha
    return inside


def refuting(ends: tuple[float, float]) -> tuple[float, float]:
    """Return the ends of a bound on a ratio of times beyond which it is refuted: `ends` themselves, but for a
    ratio that has to be less or more than 1. It is refuted where it surely is not so by what matters.
    """
    low, high = ends
    if math.isfinite(low) == math.isfinite(high):
        return ends
    return (
        MATTERS if math.isclose(low, 1, rel_tol=AT_ONE) else low,
        1 / MATTERS if math.isclose(high, 1, rel_tol=AT_ONE) else high,
    )


def _holm_order(p: ArrayLike) -> tuple[Floats, Floats, Integers, Integers]:
    """Return the p values, an empty result, positions of the known ones in ascending order, and divisors m,
    m - 1, ..., 1.
    """
    values = np.asarray(p, dtype=float)
    order = np.argsort(values, kind="stable")[: int(np.isfinite(values).sum())]
    return values, np.full(values.shape, math.nan), order, np.arange(len(order), 0, -1)


def holm(p: ArrayLike) -> Floats:
    """Return Holm's adjusted p values (Scandinavian Journal of Statistics 6, 1979);
    NaN stays and is not counted.
    """
    values, adjusted, order, divisors = _holm_order(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(values[order] * divisors))
    return adjusted


def holm_levels(p: ArrayLike, alpha: float = ALPHA) -> Floats:
    """Return the level at which Holm tests each p: alpha / (m - rank + 1),
    constant from the first acceptance on.
    """
    _, levels, order, divisors = _holm_order(p)
    accepted = np.flatnonzero(holm(p)[order] > alpha)
    if len(accepted):
        divisors = np.maximum(divisors, divisors[accepted[0]])
    levels[order] = alpha / divisors
    return levels
