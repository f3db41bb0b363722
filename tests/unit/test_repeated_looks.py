"""Looking at comparisons again and again until they are decided is paid for."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from hyperslab.results.comparisons import ALPHA, FAMILY, holm, of_rounds
from hyperslab.results.looks import as_if_stopped, level, looks

FIRST, MOST = 3, 12


@pytest.mark.parametrize(
    ("first", "most", "expected"),
    [
        (3, 12, (3, 5, 8, 12)),
        (3, 28, (3, 5, 7, 11, 18, 28)),
        (5, 20, (5, 8, 13, 20)),
        (3, 4, (3, 4)),
        (7, 7, (7,)),
    ],
)
def test_looks_are_few_and_end_with_the_most(first: int, most: int, expected: tuple[int, ...]) -> None:
    assert looks(first, most) == expected


def test_looks_grow_by_a_share_and_never_stand_still() -> None:
    for first in range(3, 12):
        for most in range(first + 1, 150):
            found = looks(first, most)
            assert (found[0], found[-1]) == (first, most)
            assert all(1 <= after - before <= before for before, after in itertools.pairwise(found))


@pytest.mark.parametrize(("first", "most"), [(0, 3), (4, 3)])
def test_no_looks_are_refused(first: int, most: int) -> None:
    with pytest.raises(ValueError, match="no looks"):
        looks(first, most)


def test_the_levels_add_up() -> None:
    assert level(FIRST, MOST, ALPHA) == pytest.approx(0.0125)
    assert level(FIRST, MOST, ALPHA) * len(looks(FIRST, MOST)) == pytest.approx(ALPHA)
    assert level(3, 3, ALPHA) == ALPHA


def studies(rng: np.random.Generator, number: int, comparisons: int, effect: float = 0.0) -> list[np.ndarray]:
    """Comparisons x rounds of differences of logs; deviations differ about as those of real studies."""
    return [
        effect + 0.03 * np.exp(rng.normal(0, 0.35, (comparisons, 1))) * rng.normal(0, 1, (comparisons, MOST))
        for _ in range(number)
    ]


def stopped(differences: np.ndarray, alpha: float, family: bool) -> tuple[np.ndarray, np.ndarray]:
    """Which comparisons are called different when rounds end at `alpha` (all looks together), and the rounds
    that each had. `family`: adjusted over all of them.
    """
    adjust = holm if family else np.asarray
    seen = as_if_stopped(differences, FIRST, alpha, adjust)
    found = of_rounds(seen)
    return adjust(found.p_different()) <= level(FIRST, MOST, alpha), found.rounds


# At this all looks together, each would test at 5 %.
UNPAID = ALPHA * len(looks(FIRST, MOST))


@pytest.mark.parametrize("comparisons", [1, 20], ids=["alone", "many, moderated"])
def test_stopping_when_decided_keeps_the_error(comparisons: int) -> None:
    """Each comparison by itself, with what looking costs paid and, to show that it has to be, not paid."""
    rng = np.random.default_rng(21)
    # With this many, what is wrong in 5 and in 8 of 100 lies five standard errors apart.
    simulated = studies(rng, 2000 // comparisons, comparisons)
    if comparisons == 1:
        # As many as are no family yet have nothing in common, and are tested at once as each is by itself.
        together = range(0, len(simulated), FAMILY - 1)
        simulated = [np.concatenate(simulated[first : first + FAMILY - 1]) for first in together]
    wrong = {
        paid: np.concatenate([stopped(one, alpha, family=False)[0] for one in simulated]).mean()
        for paid, alpha in ((True, ALPHA), (False, UNPAID))
    }
    assert wrong[True] <= 0.05
    assert wrong[True] >= 0.02, "a test that never calls anything different keeps every error rate"
    assert wrong[False] >= 0.08


def test_stopping_when_decided_keeps_the_error_of_a_family() -> None:
    rng = np.random.default_rng(22)
    simulated = studies(rng, 600, 20)
    wrong = np.mean([stopped(one, ALPHA, family=True)[0].any() for one in simulated])
    # Three standard errors of 600 families above 5 %.
    assert wrong <= 0.077


def test_what_is_plain_is_decided_early_and_what_is_not_gets_more_rounds() -> None:
    rng = np.random.default_rng(23)
    plain, hard = (studies(rng, 50, 20, math.log(ratio)) for ratio in (3.0, 1.03))
    found, rounds = zip(*(stopped(one, ALPHA, family=True) for one in plain), strict=True)
    assert np.mean(found) > 0.99
    assert np.mean(rounds) < 4
    _, rounds = zip(*(stopped(one, ALPHA, family=True) for one in hard), strict=True)
    assert np.mean(rounds) > 8


def test_intervals_of_the_last_look_hold_whatever_ended_the_rounds() -> None:
    """Repeated intervals: they contain the truth at the look at which rounds ended, for any reason."""
    rng = np.random.default_rng(24)
    truth, missed = 0.05, []
    for one in studies(rng, 200, 20, truth):
        seen = as_if_stopped(one, FIRST, adjust=np.asarray)
        low, high = of_rounds(seen).interval(level(FIRST, MOST, ALPHA))
        missed.append((truth < low) | (high < truth))
    assert np.mean(missed) <= 0.05
