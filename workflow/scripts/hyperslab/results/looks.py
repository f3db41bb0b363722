"""Adaptive rounds: after how many rounds a study looks at its comparisons, and what looking often costs.

A comparison that is tested again and again until it is decided is wrong more often than its level says. The
looks therefore share the level alpha: each of K looks tests at the same alpha / K (Pocock's constant level,
Biometrika 64, 1977, with Bonferroni's bound in place of the joint distribution of the looks, which small
numbers of rounds, deviations of their own and moderated variances make unknown). Whatever ends the rounds,
the tests of all looks together are wrong with probability alpha at most, and the interval of level
1 - alpha / K that is shown at the end holds with probability 1 - alpha (repeated confidence intervals:
Jennison and Turnbull, Journal of the Royal Statistical Society B 51, 1989).

That holds for looks whose numbers were fixed before the first. Who raises `first` or `most` after a look has
looked more often than the level was shared for, and is not covered; nor is who asks another question of
rounds whose results were seen.

The looks are few and geometrically spaced, which is what makes the bound cheap: from 3 to 12 rounds four
looks of 0.0125 each, where Pocock's level for four looks as far apart as they can be is 0.018. A comparison
that needs n rounds gets at most `GROWTH` times as many.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hyperslab.results.comparisons import ALPHA, Floats, holm, of_rounds

# The rounds of a look over those of the one before, about.
GROWTH = 1.6


def looks(first: int, most: int) -> tuple[int, ...]:
    """Return the numbers of rounds after which comparisons are looked at: `first` to `most`, both included.

    Raises ValueError unless 0 < first <= most.
    """
    if not 0 < first <= most:
        raise ValueError(f"there are no looks from {first} to {most} rounds")
    if first == most:
        return (first,)
    steps = max(1, round(math.log(most / first) / math.log(GROWTH)))
    return tuple(dict.fromkeys(round(first * (most / first) ** (step / steps)) for step in range(steps + 1)))


def level(first: int, most: int, alpha: float) -> float:
    """Return the level at which each look tests, so that all of them together are wrong at `alpha`."""
    return alpha / len(looks(first, most))


def grown(differences: Floats, first: int, undecided: Callable[[Floats], NDArray[np.bool_]]) -> Floats:
    """Return differences (K, R) with NaN where a study of adaptive rounds would not have measured them.

    A row gets rounds beyond the `first` at each look at which `undecided`, asked with what has been seen so
    far, says so of it; at most R. With this what was measured in full tells how often stopping errs.
    """
    most = differences.shape[1]
    seen = np.where(np.arange(most) < first, differences, math.nan)
    for here, after in itertools.pairwise(looks(first, most)):
        open_ = undecided(seen)
        seen[open_, here:after] = differences[open_, here:after]
    return seen


def as_if_stopped(
    differences: Floats, first: int, alpha: float = ALPHA, adjust: Callable[[Floats], Floats] = holm
) -> Floats:
    """Return `grown` differences where a row is decided once it is told from zero; p values are adjusted over
    the rows.
    """
    own = level(first, differences.shape[1], alpha)
    return grown(differences, first, lambda seen: ~(adjust(of_rounds(seen).p_different()) <= own))
