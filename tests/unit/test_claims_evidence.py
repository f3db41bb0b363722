"""What several p values say together, on simulated data: how often that is wrong, how many rounds tell."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.claims.evidence import all_of, any_of, at_least, counted, enough, most_shown, timed
from hyperslab.claims.verdicts import MOST_ROUNDS, rounds_that_tell
from hyperslab.results.comparisons import ALPHA, FAMILY

TRIALS = 2000
# Five in a hundred, and what chance adds to so many trials (3 deviations).
ALLOWED = ALPHA + 3 * (ALPHA * (1 - ALPHA) / TRIALS) ** 0.5


def p_values(true: int, of: int, together: bool, rng: np.random.Generator) -> np.ndarray:
    """P values of statements, the first `true` of which are true by far; the others lie at the bound."""
    found = (
        np.repeat(rng.uniform(size=(TRIALS, 1)), of, axis=1) if together else rng.uniform(size=(TRIALS, of))
    )
    found[:, :true] = 1e-9
    return found


@pytest.mark.parametrize("together", [False, True], ids=["independent", "all alike"])
@pytest.mark.parametrize("true", [0, 4, 9])
def test_no_more_are_shown_than_are_true(true: int, together: bool) -> None:
    found = p_values(true, 10, together, np.random.default_rng(true))
    shown = np.array([most_shown(row, ALPHA) for row in found])
    assert (shown > true).mean() <= ALLOWED
    assert (shown >= true).all()


def test_a_plain_count_would_show_too_many() -> None:
    """What the bound is for: counting what is significant by itself is wrong far more often."""
    found = p_values(4, 30, False, np.random.default_rng(1))
    assert ((found <= ALPHA).sum(axis=1) > 4).mean() > 0.5
    assert (np.array([at_least(row, 5) for row in found]) <= ALPHA).mean() <= ALLOWED


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_at_least_grows_with_the_number_and_has_its_ends(p: list[float]) -> None:
    found = [at_least(p, number) for number in range(len(p) + 2)]
    assert found == sorted(found)
    assert (found[0], found[-1]) == (0.0, 1.0)
    # One of all is Bonferroni's, and all of them need Holm's smallest steps before the largest.
    assert found[1] == pytest.approx(float(any_of(p)))
    assert found[-2] >= float(all_of(p))


@pytest.mark.parametrize("rounds", [3, 5])
@pytest.mark.parametrize("size", [1, 20])
def test_at_the_bound_either_side_is_shown_once_in_twenty(rounds: int, size: int) -> None:
    """Ratios of 0.8 exactly, with unequal deviations: "below 0.8" and "similar" are wrong 5 % at most."""
    rng = np.random.default_rng(rounds + size)
    deviations = np.exp(rng.normal(-3, 0.7, (TRIALS // size, size, 1)))
    logs = math.log(0.8) + deviations * rng.normal(size=(TRIALS // size, size, rounds))
    # As many as are no family yet have nothing in common, and are tested at once as each is by itself.
    at_once = FAMILY - 1 if size == 1 else 1
    families = [timed(np.concatenate(logs[at : at + at_once])) for at in range(0, len(logs), at_once)]
    for low, high in ((-math.inf, math.log(0.8)), (math.log(0.8), -math.log(0.8))):
        inside = np.concatenate([one.inside(low, high) for one in families])
        outside = np.concatenate([one.outside(low, high) for one in families])
        # Moderated variances of so unequal ones are a little too sure of the noisiest.
        allowed = ALLOWED if size == 1 else ALLOWED + 0.015
        assert (inside <= ALPHA).mean() <= allowed
        assert (outside <= ALPHA).mean() <= allowed
        assert (inside <= ALPHA).mean() >= 0.03


def test_limits_are_those_of_the_tests() -> None:
    found = timed(np.random.default_rng(3).normal(0.1, 0.2, (6, 8)))
    low, high = found.limits(ALPHA)
    for number in range(6):
        one = found.part(number, number + 1)
        assert one.inside(float(low[number]), math.inf)[0] == pytest.approx(ALPHA)
        assert one.inside(-math.inf, float(high[number]))[0] == pytest.approx(ALPHA)


def test_under_three_rounds_nothing_is_shown() -> None:
    found = timed(np.array([[5.0, 5.0]]))
    assert not enough(found)
    assert (found.inside(0, math.inf)[0], found.outside(9, math.inf)[0]) == (1, 1)


def test_counts_are_sure_or_not() -> None:
    found = counted(np.log(np.array([[16.0, 16.0], [7.0, 9.0]])))
    bound = (math.log(16), math.inf)
    assert list(found.inside(*bound)) == [0, 1]
    assert list(found.outside(*bound)) == [1, 0]
    assert list(found.inside(math.log(8), math.inf)) == [0, 1]
    nothing = counted(np.array([[-math.inf, -math.inf]]))
    assert nothing.inside(-math.inf, -math.inf)[0] == 0


@pytest.mark.parametrize(("size", "ends"), [(1, 1), (12, 1), (1, 2)])
def test_so_many_rounds_tell_four_times_of_five(size: int, ends: int) -> None:
    """Foreseen from three rounds with the true mean and deviation, then simulated with that many."""
    rng = np.random.default_rng(size)
    mean, deviation = (0.0 if ends == 2 else -0.1), 0.15
    bound = (math.log(0.8), math.log(1.25)) if ends == 2 else (-math.inf, 0.0)
    # Three rounds of just this mean; their deviations scatter as those of three rounds do.
    scatter = np.sqrt(-np.log1p(-(np.arange(size) + 0.5) / size)) if size > 1 else np.ones(1)
    row = int(np.abs(scatter - 1).argmin())
    now = timed(mean + deviation * scatter[:, None] * np.array([[-1.0, 0.0, 1.0]]))
    needed = rounds_that_tell(3, lambda rounds: bool(now.foreseen(rounds).inside(*bound)[row] <= ALPHA))
    assert needed is not None

    def told(rounds: int) -> float:
        found = [timed(rng.normal(mean, deviation, (size, rounds))).inside(*bound)[row] for _ in range(600)]
        return float((np.array(found) <= ALPHA).mean())

    assert 0.74 <= told(needed) <= 0.96
    assert told(needed // 2) < 0.7


@pytest.mark.parametrize("others", [3, 6])
def test_a_layout_beside_itself_foresees_nothing_for_the_others(others: int) -> None:
    """What is foreseen is tested as it will be: three others are no family with it, six are one."""
    logs = np.random.default_rng(7).normal(0.1, 0.2, (others, 4))
    alone, beside = timed(logs).foreseen(9), timed(np.vstack([logs, np.zeros((1, 4))])).foreseen(9)
    assert beside.contrasts.freedom[:others] == pytest.approx(alone.contrasts.freedom)
    assert beside.contrasts.error[:others] == pytest.approx(alone.contrasts.error)
    assert beside.contrasts.freedom[others] == 8
    assert (alone.contrasts.freedom > 8).all() == (others == 6)


def test_no_number_of_rounds_tells_what_lies_at_its_bound() -> None:
    now = timed(np.array([[-0.1, 0.0, 0.1]]))
    assert (
        rounds_that_tell(3, lambda rounds: bool(now.foreseen(rounds).inside(0, math.inf)[0] <= ALPHA)) is None
    )
    assert rounds_that_tell(3, lambda rounds: rounds >= 4) == 4
    assert rounds_that_tell(3, lambda rounds: rounds >= MOST_ROUNDS) == MOST_ROUNDS
    assert rounds_that_tell(5, lambda rounds: rounds >= 77) == 77
