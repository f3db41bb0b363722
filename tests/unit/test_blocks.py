"""The block model against least squares by hand, and Holm's adjustment."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from hyperslab.results.block_model import contrasts, fit_blocks, holm, holm_levels


def test_the_fit_is_ordinary_least_squares_where_cells_are_missing() -> None:
    rng = np.random.default_rng(7)
    logs = rng.normal(0, 1, (7, 5))
    logs[rng.random(logs.shape) < 0.3] = np.nan
    assert np.isfinite(logs).any(axis=1).all()
    fit = fit_blocks(pd.DataFrame(logs))
    i, j = np.nonzero(np.isfinite(logs))
    design = np.hstack([np.eye(7)[i], np.eye(5)[j]])
    solution, _, rank, _ = np.linalg.lstsq(design, logs[i, j], rcond=None)
    residuals = logs[i, j] - design @ solution
    assert fit.freedom == len(i) - rank
    assert fit.variance == pytest.approx(residuals @ residuals / fit.freedom)
    covariance = np.linalg.pinv(design.T @ design) * fit.variance
    pairs = [(a, b) for a, b in itertools.combinations(range(7), 2) if min(fit.rounds[[a, b]]) >= 3]
    table = contrasts(fit, [a for a, _ in pairs], [b for _, b in pairs])
    for (a, b), row in zip(pairs, table.itertuples(), strict=True):
        contrast = np.eye(12)[a] - np.eye(12)[b]
        assert np.log(row.ratio) == pytest.approx(contrast @ solution)
        error = np.sqrt(contrast @ covariance @ contrast)
        t = np.log(row.ratio) / error
        assert row.p == pytest.approx(2 * stats.t.sf(abs(t), fit.freedom))
        joint = stats.t.isf(0.025 / len(pairs), fit.freedom) * error
        assert np.log(row.high_joint / row.ratio) == pytest.approx(joint)


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
@given(hnp.arrays(float, 6, elements=st.floats(-0.2, 0.2)), st.integers(0, 1 << 30))
def test_an_interval_leaves_one_out_exactly_where_different(truth: np.ndarray, seed: int) -> None:
    logs = truth[:, None] + np.random.default_rng(seed).normal(0, 0.05, (6, 4))
    table = contrasts(fit_blocks(pd.DataFrame(logs)), np.arange(1, 6), np.zeros(5, dtype=int))
    clear = (table.p_holm - 0.05).abs() > 1e-6
    outside = (table.low > 1) | (table.high < 1)
    assert (outside == table.different)[clear].all()
    assert (table.low_joint <= table.low * (1 + 1e-12)).all()
    assert (table.high_joint >= table.high * (1 - 1e-12)).all()


@settings(deadline=None)
@given(hnp.arrays(float, (5, 3), elements=st.floats(-2, 2)), st.permutations(range(5)), st.floats(-9, 9))
def test_neither_the_unit_nor_the_order_matters(logs: np.ndarray, order: list[int], shift: float) -> None:
    fit = fit_blocks(pd.DataFrame(logs))
    assume(fit.variance > 1e-6)
    table = contrasts(fit, [1, 2, 3, 4], [0] * 4)
    permuted = fit_blocks(pd.DataFrame(logs[order] + shift))
    where = [order.index(layout) for layout in range(5)]
    again = contrasts(permuted, where[1:], where[:1] * 4)
    assert again.ratio.to_numpy() == pytest.approx(table.ratio.to_numpy(), rel=1e-9)
    assert again.p.to_numpy() == pytest.approx(table.p.to_numpy(), abs=1e-6)
