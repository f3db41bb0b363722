"""From p values to verdicts: of one comparison, and of a claim that is split into several.

A claim *holds* by an intersection-union test (Berger, Technometrics 24, 1982): every comparison's one-sided
95 % limit lies within its bound, without adjustment, for all of them have to. "Similar" is two one-sided
tests (Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15, 1987). It *fails* if one comparison
lies outside, which with many is more easily so by chance: there Holm's procedure over the claim's comparisons
applies. That one time is less than another lies outside where it surely is not so by what matters
(results/comparisons.py). What only *could* be so holds if one of several holds, and fails if all of them do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import numpy as np

from hyperslab.claims.evidence import all_of, any_of
from hyperslab.results.comparisons import ALPHA, holm

Verdict = Literal["holds", "fails", "cannot tell", "cannot be tested", "not measured"]
# How a reader sees them; the first that a comparison of a claim has decides for the claim.
VERDICTS: tuple[Verdict, ...] = ("fails", "cannot be tested", "not measured", "cannot tell", "holds")
# Those that say nothing of the claim.
NO_VERDICTS: tuple[Verdict, ...] = ("cannot be tested", "not measured")
# More rounds than anyone runs: an estimate that takes them lies at its bound.
MOST_ROUNDS = 1000
# p values against lying outside, and against lying inside.
Pair = tuple[float, float]


def decided(pairs: Sequence[Pair], exact: Sequence[bool], alpha: float = ALPHA) -> list[Verdict]:
    """Return the verdict on each of a claim's comparisons; no chance makes `exact` ones, counts, fail."""
    outside = np.array([pair[1] for pair in pairs])
    adjusted = np.where(exact, outside, holm(np.where(exact, math.nan, outside)))
    return [
        "holds" if inside <= alpha else "fails" if failing <= alpha else "cannot tell"
        for (inside, _), failing in zip(pairs, adjusted, strict=True)
    ]


def either(pairs: Sequence[Pair]) -> Pair:
    """Return the pair of what could be: one that holds is enough, and all have to fail."""
    return float(any_of([inside for inside, _ in pairs])), float(all_of([outside for _, outside in pairs]))


def overall(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict on a claim: it holds only if all comparisons hold, and fails if any fails."""
    found = set(verdicts)
    return next((verdict for verdict in VERDICTS if verdict in found), "cannot be tested")


def rounds_that_tell(now: int, tells: Callable[[int], bool]) -> int | None:
    """Return the least number of rounds in all that `tells`; None where even MOST_ROUNDS do not."""
    high = now + 1
    while not tells(high):
        if high >= MOST_ROUNDS:
            return None
        high = min(2 * high, MOST_ROUNDS)
    low = max(now + 1, high // 2)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if tells(middle) else (middle + 1, high)
    return high
