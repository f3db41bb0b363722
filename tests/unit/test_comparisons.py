"""The tests behind every interval: against scipy, by hand, and by simulation; Holm's adjustment."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hyperslab.results.comparisons import (
    MODERATED_ROUNDS,
    WEIGHT,
    equivalent,
    holm,
    holm_levels,
    moderate,
    not_worse_than_best,
    of_rounds,
    prior,
    table,
)


def test_under_five_rounds_it_is_the_paired_t_test() -> None:
    rng = np.random.default_rng(1)
    logs = rng.normal(0, 0.1, (8, 2, 4))
    found = of_rounds(logs[:, 0] - logs[:, 1])
    for pair, p, value in zip(logs, found.p_different(), found.value, strict=True):
        direct = scipy.stats.ttest_rel(*pair)
        assert p == pytest.approx(direct.pvalue)
        low, high = direct.confidence_interval(0.9)
        (at,) = np.flatnonzero(found.value == value)
        assert [end[at] for end in found.interval(0.1)] == pytest.approx([low, high])
    above = [scipy.stats.ttest_rel(*pair, alternative="greater").pvalue for pair in logs]
    assert found.p_above().tolist() == pytest.approx(above)
    assert found.p_below().tolist() == pytest.approx([1 - p for p in above])
    assert found.p_above(0.05).tolist() == pytest.approx(of_rounds(logs[:, 0] - logs[:, 1] - 0.05).p_above())


def test_a_round_that_lacks_one_side_does_not_count_and_two_rounds_are_too_few() -> None:
    found = of_rounds(
        [[0.1, 0.2, np.nan, 0.3], [0.1, np.nan, np.nan, 0.3], [np.nan] * 4, [0.5] + [np.nan] * 3]
    )
    assert found.rounds.tolist() == [3, 2, 0, 1]
    assert found.value[[0, 1, 3]].tolist() == pytest.approx([0.2, 0.2, 0.5])
    assert np.isnan(found.value[2])
    assert found.deviation[0] == pytest.approx(0.1)
    assert np.isfinite(found.interval()[0]).tolist() == [True, False, False, False]
    assert np.isfinite(found.p_different()).tolist() == [True, False, False, False]


def test_from_five_rounds_on_variances_are_drawn_together_but_keep_their_own_deviation() -> None:
    rng = np.random.default_rng(2)
    values = rng.normal(0, 0.1, (12, MODERATED_ROUNDS))
    found = of_rounds(values)
    assert found.deviation.tolist() == pytest.approx(values.std(axis=1, ddof=1))
    error = values.std(axis=1, ddof=1) / np.sqrt(MODERATED_ROUNDS)
    assert found.error.std() < 0.8 * error.std()
    assert (found.freedom > MODERATED_ROUNDS - 1).all()
    assert (found.freedom <= (1 + WEIGHT) * (MODERATED_ROUNDS - 1) + 1e-9).all()
    # Too few to have anything in common.
    assert of_rounds(values[:3]).error.tolist() == pytest.approx(error[:3])


def test_a_contrast_that_is_another_one_turned_round_says_nothing_new_of_scatter() -> None:
    values = np.random.default_rng(8).normal(0, 0.1, (6, MODERATED_ROUNDS))
    once, twice = of_rounds(values), of_rounds(np.concatenate([values, -values]))
    assert twice.error.tolist() == pytest.approx([*once.error] * 2)
    assert twice.freedom.tolist() == pytest.approx([*once.freedom] * 2)
    # Three comparisons are no family, however often they are made.
    few = of_rounds(np.concatenate([values[:3], -values[:3]]))
    assert few.freedom.tolist() == [MODERATED_ROUNDS - 1] * 6


def test_a_layout_beside_itself_says_nothing_of_how_others_scatter() -> None:
    values = np.random.default_rng(8).normal(0, 0.1, (6, MODERATED_ROUNDS))
    alone, beside = of_rounds(values), of_rounds(np.vstack([values, np.zeros(MODERATED_ROUNDS)]))
    assert beside.error[:-1].tolist() == pytest.approx([*alone.error])
    assert beside.freedom[:-1].tolist() == pytest.approx([*alone.freedom])
    # It is surely equal.
    assert beside.error[-1] < 1e-8
    # Three comparisons are no family with it either.
    few = of_rounds(np.vstack([values[:3], np.zeros(MODERATED_ROUNDS)]))
    assert few.freedom.tolist() == [MODERATED_ROUNDS - 1] * 4


def test_the_common_variance_is_that_of_which_variances_were_drawn() -> None:
    rng = np.random.default_rng(3)
    true = 0.04 * 6 / rng.chisquare(6, 20_000)
    variance = true * rng.chisquare(4, 20_000) / 4
    degrees, common = prior(variance, np.full(20_000, 4.0))
    assert degrees == pytest.approx(6, rel=0.1)
    assert common == pytest.approx(0.04, rel=0.05)
    # Each is drawn so far towards it as its own degrees of freedom are fewer.
    drawn, freedom = moderate(variance, np.full(20_000, 4.0))
    assert drawn == pytest.approx((degrees * common + 4 * variance) / (degrees + 4))
    assert freedom == pytest.approx(degrees + 4)
    equal, _ = prior(np.full(50, 0.01), np.full(50, 4.0))
    assert np.isinf(equal)


def test_a_comparison_without_any_scatter_has_an_interval_without_width() -> None:
    found = of_rounds(np.full((6, 6), 0.2))
    low, high = found.interval()
    assert low.tolist() == pytest.approx([0.2] * 6)
    assert high.tolist() == pytest.approx([0.2] * 6)
    assert (found.p_different() < 1e-9).all()


def test_equivalent_needs_both_sides() -> None:
    rng = np.random.default_rng(4)
    noise = rng.normal(0, 0.01, (3, 4))
    noise -= noise.mean(axis=1, keepdims=True)
    found = of_rounds(noise + np.array([[0.0], [0.045], [-0.06]]))
    assert equivalent(found, 1.05).tolist() == [True, False, False]
    by_hand = [
        max(
            scipy.stats.ttest_1samp(row, np.log(1.05), alternative="less").pvalue,
            scipy.stats.ttest_1samp(row, -np.log(1.05), alternative="greater").pvalue,
        )
        for row in noise
    ]
    assert equivalent(of_rounds(noise), 1.05).tolist() == [p <= 0.05 for p in by_hand]


def test_the_best_is_found_over_the_rounds_that_all_share() -> None:
    rng = np.random.default_rng(5)
    logs = np.array([[0.0], [0.2], [0.6]]) + rng.normal(0, 0.01, (3, 8))
    # A slow round of its own does not make the fastest layout the second.
    logs[:, 6:] += 5
    logs[1:, 6:] = np.nan
    best, found, stays = not_worse_than_best(pd.DataFrame(logs))
    assert best == 0 and stays.tolist() == [True, False, False]
    assert np.exp(found.value).tolist() == pytest.approx(np.exp([0, 0.2, 0.6]), rel=0.02)


# ---- many comparisons

P_VALUES = hnp.arrays(float, st.integers(1, 30), elements=st.floats(0, 1))


def test_holm_by_hand() -> None:
    adjusted = holm([0.01, 0.04, np.nan, 0.03, 0.005])
    assert adjusted[[0, 1, 3, 4]].tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert np.isnan(adjusted[2])
    levels = holm_levels([0.01, 0.04, np.nan, 0.03, 0.005], 0.05)
    assert levels[[0, 1, 3, 4]].tolist() == pytest.approx([0.05 / 3, 0.05 / 2, 0.05 / 2, 0.05 / 4])


@settings(deadline=None)
@given(P_VALUES, st.integers(0, 29), st.floats(0, 1))
def test_holm_is_monotone(p: np.ndarray, position: int, other: float) -> None:
    adjusted = holm(p)
    assert (adjusted >= p).all()
    assert (adjusted <= np.minimum(1, p * len(p)) + 1e-12).all()
    assert (np.diff(adjusted[np.argsort(p, kind="stable")]) >= 0).all()
    raised = p.copy()
    raised[position % len(p)] = max(other, raised[position % len(p)])
    assert (holm(raised) >= adjusted - 1e-12).all()


@settings(deadline=None)
@given(P_VALUES, st.floats(0.001, 0.2))
def test_holm_levels_decide_as_holm_does(p: np.ndarray, alpha: float) -> None:
    clear = np.abs(holm(p) - alpha) > 1e-12
    assert ((p <= holm_levels(p, alpha)) == (holm(p) <= alpha))[clear].all()


@settings(deadline=None)
@given(hnp.arrays(float, 5, elements=st.floats(-0.2, 0.2)), st.integers(0, 1 << 30), st.integers(3, 9))
def test_an_interval_leaves_one_out_exactly_where_different(
    truth: np.ndarray, seed: int, rounds: int
) -> None:
    logs = truth[:, None] + np.random.default_rng(seed).normal(0, 0.05, (5, rounds))
    found = table(of_rounds(logs))
    clear = (found.p_holm - 0.05).abs() > 1e-6
    outside = (found.low > 1) | (found.high < 1)
    assert (outside == found.different)[clear].all()
    assert (found.low_joint <= found.low * (1 + 1e-12)).all()
    assert (found.high_joint >= found.high * (1 - 1e-12)).all()


def test_the_best_is_surely_worse_than_no_other() -> None:
    """A layout with few rounds that a noisy one makes look good is not the best."""
    rng = np.random.default_rng(2)
    logs = rng.normal(0, 0.001, (3, 8))
    # Surely worse than the first, so that nobody measured it again.
    logs[1] += 0.03
    logs[1, 3:] = np.nan
    # At first slower than both, later faster.
    logs[2] += [-0.02, 0.06, 0.14, *[-0.045] * 5]
    best, found, stays = not_worse_than_best(pd.DataFrame(logs))
    assert stays.tolist() == [True, False, True] and best == 2
    assert found.value[2] == 0
