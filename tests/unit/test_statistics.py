"""Rounds, intervals and comparisons: by hand, by properties, and by simulated studies with known truth."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from hyperslab.blocks import contrasts, fit_blocks, holm, holm_levels
from hyperslab.statistics import compare, compare_pairs, noisy, overlaps, summarise

LAYOUTS = 42
ROUNDS = 3


def study(
    log_medians: np.ndarray, repeats: int = 15, repeat_sd: float = 0.1, seed: int = 0, **columns: object
) -> pd.DataFrame:
    """Measurements with one row a repeat from layouts x rounds of log medians (NaN: cell not measured)."""
    rng = np.random.default_rng(seed)
    layouts, rounds = log_medians.shape
    scatter = rng.normal(0, repeat_sd, (layouts, rounds, repeats))
    scatter -= np.median(scatter, axis=2, keepdims=True)
    frame = pd.DataFrame(
        {
            "layout": np.repeat([f"l{index:03}" for index in range(layouts)], rounds * repeats),
            "round": np.tile(np.repeat(np.arange(rounds), repeats), layouts),
            "repeat": np.tile(np.arange(repeats), layouts * rounds),
            "time_s": np.exp(log_medians[:, :, None] + scatter).ravel(),
        }
    )
    keys = {"site": "disk", "case": "slices", "kind": "read", "phase": "main", "state": "cold"}
    return frame.assign(**{**keys, **columns}).dropna(subset="time_s")


def noise(rng: np.random.Generator, sd: float = 0.03, round_sd: float = 0.05) -> np.ndarray:
    """Layouts x rounds of error: what moves a whole round, and what moves one cell of it."""
    return rng.normal(0, sd, (LAYOUTS, ROUNDS)) + rng.normal(0, round_sd, ROUNDS)


PLAIN = ("disk", "slices", "cold", "main")


# ---- summarise


def test_summarise_gives_each_rounds_own_statistics() -> None:
    times = [5.0, 1.0, 2.0, 4.0, 9.0]
    rows = study(np.zeros((1, 1)), repeats=5).assign(time_s=times, file_bytes=7, filters="gzip", grid_m=4)
    row = summarise(rows.sample(frac=1, random_state=1)).iloc[0]
    assert (row.n, row.min_s, row.q1_s, row.median_s, row.q3_s, row.max_s) == (5, 1, 2, 4, 5, 9)
    assert row.mean_s == pytest.approx(4.2)
    assert row.first_access_s == 5.0
    assert (row.file_bytes, row.filters, row.grid_m, row.site) == (7, "gzip", 4, "disk")


def test_pooled_statistics_by_hand() -> None:
    logs = np.log([[1.0, 2.0, 4.0], [3.0, 3.0, 3.0]])
    table = summarise(study(logs)).drop_duplicates("layout").set_index("layout")
    assert table.pooled_median_s.tolist() == pytest.approx([2.0, 3.0])
    # Within cells: SS 2 ln(2)^2 and 0 on 2 + 2 degrees of freedom.
    assert table.pooled_sd_log.tolist() == pytest.approx([np.log(2) / np.sqrt(2)] * 2)
    # SS_round = SS_residual = ln(2)^2 on 2 degrees each: Satterthwaite gives 4.
    half = stats.t.ppf(0.975, 4) * np.log(2) / np.sqrt(2) / np.sqrt(3)
    assert np.log(table.pooled_high_s / table.pooled_median_s).tolist() == pytest.approx([half] * 2)
    assert np.log(table.pooled_median_s / table.pooled_low_s).tolist() == pytest.approx([half] * 2)


def test_rounds_that_move_together_leave_few_degrees_of_freedom() -> None:
    rng = np.random.default_rng(1)
    together = summarise(study(np.tile(rng.normal(0, 0.1, 3), (50, 1)))).iloc[0]
    half = np.log(together.pooled_high_s / together.pooled_median_s)
    assert half == pytest.approx(stats.t.ppf(0.975, 2) * together.pooled_sd_log / np.sqrt(3))


def test_no_interval_under_three_rounds_but_for_the_cells_that_have_them() -> None:
    logs = np.random.default_rng(2).normal(0, 0.1, (3, 3))
    logs[2, 2] = np.nan
    table = summarise(study(logs)).drop_duplicates("layout").set_index("layout")
    assert table.rounds.tolist() == [3, 3, 2]
    assert table.pooled_low_s.isna().tolist() == [False, False, True]
    two = compare(summarise(study(logs[:, :2])), *PLAIN, "l000")
    assert two[["low", "high", "low_joint", "p", "p_holm"]].isna().all(axis=None)
    assert two.ratio.notna().all()
    assert not two.different.any()


def test_a_cells_interval_covers_the_truth() -> None:
    rng = np.random.default_rng(3)
    parts = []
    for round_sd, number in itertools.product((0.0, 0.03, 0.1), range(150)):
        logs = rng.normal(0, 0.03, (8, 3)) + rng.normal(0, round_sd, 3)
        parts.append(study(logs, repeats=1, repeat_sd=0, case=f"{round_sd} {number}"))
    table = summarise(pd.concat(parts)).drop_duplicates(["case", "layout"])
    covered = (table.pooled_low_s <= 1) & (table.pooled_high_s >= 1)
    assert 0.92 <= covered.mean() <= 0.98


def test_families_do_not_share_their_error() -> None:
    rng = np.random.default_rng(4)
    quiet, wild = rng.normal(0, 0.01, (4, 3)), rng.normal(0, 0.5, (4, 3))
    for key in ("site", "case", "phase", "state", "kind"):
        both = summarise(pd.concat([study(quiet), study(wild, **{key: "other"})]))
        alone = summarise(study(quiet))
        kept = both[both[key] != "other"].pooled_sd_log.tolist()
        assert kept == pytest.approx(alone.pooled_sd_log.tolist()), key


def test_summarise_refuses_what_it_cannot_summarise() -> None:
    good = study(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="lack the columns state"):
        summarise(good.drop(columns="state"))
    for bad in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="positive"):
            summarise(good.assign(time_s=[bad, *good.time_s[1:]]))
    with pytest.raises(ValueError, match="twice"):
        summarise(pd.concat([good, good.iloc[:1]]))
    assert summarise(good.iloc[:0]).columns.tolist() == summarise(good).columns.tolist()


def test_categories_as_parquet_may_give_them() -> None:
    rows = study(np.random.default_rng(5).normal(0, 0.1, (3, 3)))
    as_categories = rows.astype({"site": "category", "layout": "category", "state": "category"})
    pd.testing.assert_frame_equal(
        summarise(as_categories).astype({"site": "str", "layout": "str", "state": "str"}), summarise(rows)
    )
    assert len(compare(summarise(as_categories), *PLAIN, "l001")) == 2


def test_a_large_study_is_summarised_in_seconds() -> None:
    shape = np.random.default_rng(6).normal(0, 0.1, (400, 3))
    parts = [
        study(shape, repeats=50, case=case, state=state)
        for case, state in itertools.product("abc", ("cold", "warm", "session"))
    ]
    rows = pd.concat(parts, ignore_index=True)
    start = time.perf_counter()
    summary = summarise(rows)
    for case, state in itertools.product("abc", ("cold", "warm", "session")):
        compare(summary, "disk", case, state, "main", "l000")
    assert len(summary) == 400 * 3 * 9
    assert time.perf_counter() - start < 8


# ---- the model


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
    table = contrasts(fit, *zip(*pairs, strict=True))
    for (a, b), row in zip(pairs, table.itertuples(), strict=True):
        contrast = np.eye(12)[a] - np.eye(12)[b]
        assert np.log(row.ratio) == pytest.approx(contrast @ solution)
        error = np.sqrt(contrast @ covariance @ contrast)
        t = np.log(row.ratio) / error
        assert row.p == pytest.approx(2 * stats.t.sf(abs(t), fit.freedom))
        joint = stats.t.isf(0.025 / len(pairs), fit.freedom) * error
        assert np.log(row.high_joint / row.ratio) == pytest.approx(joint)


def test_what_slows_a_whole_round_cancels() -> None:
    logs = np.random.default_rng(8).normal(0, 0.02, (5, 3))
    calm = compare(summarise(study(logs)), *PLAIN, "l002")
    slowed = compare(summarise(study(logs + np.array([0.0, 1.0, -2.0]))), *PLAIN, "l002")
    pd.testing.assert_frame_equal(calm, slowed)


def test_layouts_that_share_no_round_are_not_compared() -> None:
    logs = np.random.default_rng(9).normal(0, 0.02, (4, 6))
    logs[:2, 3:] = np.nan
    logs[2:, :3] = np.nan
    apart = compare(summarise(study(logs)), *PLAIN, "l000").set_index("layout")
    assert np.isfinite(apart.p["l001"])
    assert apart.p_holm["l001"] == apart.p["l001"]
    assert apart.loc[["l002", "l003"], ["p", "low", "high_joint"]].isna().all(axis=None)
    bridged = np.vstack([logs, np.random.default_rng(10).normal(0, 0.02, (1, 6))])
    assert compare(summarise(study(bridged)), *PLAIN, "l000").p.notna().all()


def test_identical_times_are_not_different_and_others_are() -> None:
    logs = np.log([[0.1] * 3, [0.1] * 3, [0.2] * 3])
    table = compare(summarise(study(logs, repeat_sd=0)), *PLAIN, "l000")
    assert table.different.tolist() == [False, True]
    assert table.ratio.tolist() == pytest.approx([1, 2])


def test_compare_names_what_is_missing_and_adjusts_for_what_is_asked() -> None:
    summary = summarise(study(np.random.default_rng(11).normal(0, 0.02, (6, 3))))
    with pytest.raises(
        ValueError, match="'none' has no main round of case 'slices' \\(cold\\) at site 'disk'"
    ):
        compare(summary, *PLAIN, "none")
    every = compare(summary, *PLAIN, "l000").set_index("layout")
    some = compare(summary, *PLAIN, "l000", ["l003", "l000"]).set_index("layout")
    assert some.index.tolist() == ["l003"]
    assert some.p["l003"] == pytest.approx(every.p["l003"])
    assert some.p_holm["l003"] == some.p["l003"]
    assert some.low_joint["l003"] > every.low_joint["l003"]
    assert set(every.reference) == {"l000"}


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
@given(hnp.arrays(float, (6, 4), elements=st.floats(-2, 2)))
def test_an_interval_leaves_one_out_exactly_where_different(logs: np.ndarray) -> None:
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


# ---- studies with known truth

PAIRS = [(f"l{index + 1:03}", f"l{index:03}") for index in range(0, LAYOUTS, 2)]
FAMILIES = list(itertools.product(("slices", "spectra", "subcube"), ("cold", "warm")))


def twin_study(rng: np.random.Generator, delay: float = 1.0, sd: float = 0.03) -> pd.DataFrame:
    """Summary of 21 very different layouts, each measured twice over; every second twin slowed by `delay`.

    With 3 cases and 2 states these are 126 disjoint comparisons of a layout with itself.
    """
    parts = []
    for case, state in FAMILIES:
        truth = np.repeat(rng.uniform(np.log(1e-3), np.log(2), LAYOUTS // 2), 2)
        truth[1::2] += np.log(delay)
        logs = truth[:, None] + noise(rng, sd)
        parts.append(study(logs, case=case, state=state, seed=int(rng.integers(1 << 30))))
    return summarise(pd.concat(parts, ignore_index=True))


def called_different(summary: pd.DataFrame) -> int:
    """How many of the 126 twins are called different."""
    return sum(
        int(compare_pairs(summary, "disk", case, state, "main", PAIRS).different.sum())
        for case, state in FAMILIES
    )


def test_the_same_layout_is_seldom_called_different() -> None:
    rng = np.random.default_rng(12)
    calls = [called_different(twin_study(rng)) for _ in range(8)]
    assert max(calls) <= 6
    assert np.mean(calls) < 1.5


def test_a_delay_of_15_percent_is_found() -> None:
    rng = np.random.default_rng(13)
    for sd in (0.02, 0.03, 0.04):
        assert called_different(twin_study(rng, delay=1.15, sd=sd)) >= 0.8 * 126, sd


def test_repeats_of_one_process_would_have_called_twins_different() -> None:
    """The studies above are hard enough: within one round their twins look different far too often."""
    rng = np.random.default_rng(14)
    logs = np.zeros(LAYOUTS)[:, None] + noise(rng)
    rows = study(logs, repeats=50)
    times = rows[rows["round"] == 0].pivot(index="layout", columns="repeat", values="time_s")
    wrong = [stats.mannwhitneyu(times.loc[a], times.loc[b]).pvalue < 0.05 for a, b in PAIRS]
    assert np.mean(wrong) > 0.2


def test_one_reference_against_all_keeps_the_error_rate_of_a_family() -> None:
    rng = np.random.default_rng(15)
    wrong, found = [], []
    for _ in range(400):
        truth = np.zeros(LAYOUTS)
        truth[LAYOUTS // 2 :] = np.log(1.15)
        fit = fit_blocks(pd.DataFrame(truth[:, None] + noise(rng)))
        table = contrasts(fit, np.arange(1, LAYOUTS), np.zeros(LAYOUTS - 1, dtype=int))
        wrong.append(table.different[: LAYOUTS // 2 - 1].any())
        found.append(table.different[LAYOUTS // 2 - 1 :].mean())
    assert np.mean(wrong) < 0.08
    assert np.mean(found) > 0.8


def test_joint_intervals_hold_together() -> None:
    rng = np.random.default_rng(16)
    truth = np.linspace(0, 8, LAYOUTS)
    ratio = np.exp(truth[1:])
    together = {"low_joint": 0, "low": 0}
    for _ in range(400):
        fit = fit_blocks(pd.DataFrame(truth[:, None] + noise(rng)))
        table = contrasts(fit, np.arange(1, LAYOUTS), np.zeros(LAYOUTS - 1, dtype=int))
        for low in together:
            high = table[low.replace("low", "high")]
            together[low] += int(((table[low] <= ratio) & (ratio <= high)).all())
    assert together["low_joint"] >= 0.93 * 400
    assert together["low"] < 0.93 * 400


# ---- noise and overlap


def test_noisy_uses_the_wider_of_the_two_bounds() -> None:
    names = list("abcdefghijk")
    quiet = pd.Series([1.0, 1.01, 0.99, 1.24, 1.26, 0.76, 0.74, np.nan, 1.0, 1.0, 1.0], index=names)
    assert quiet.index[noisy(quiet)].tolist() == ["e", "g"]
    # Median 1, MAD 0.2: the bounds are 0 and 2.
    loud = pd.Series([0.8, 1.2, 1.0, 0.8, 1.2, 1.0, 1.0, 0.8, 1.2, 1.9, 2.1])
    assert loud.index[noisy(loud)].tolist() == [10]


INTERVALS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 30), st.integers(0, 8)), min_size=0, max_size=12
)


@settings(deadline=None)
@given(INTERVALS)
def test_overlaps_finds_what_pairs_show(rows: list[tuple[str, int, int]]) -> None:
    frame = pd.DataFrame(
        {
            "boot_id": [row[0] for row in rows],
            "start": [row[1] for row in rows],
            "end": [row[1] + row[2] for row in rows],
        },
        index=[f"i{number}" for number in range(len(rows))],
    )
    expected = [
        any(
            n != k and rows[k][0] == boot and rows[k][1] < start + length and start < rows[k][1] + rows[k][2]
            for k in range(len(rows))
        )
        for n, (boot, start, length) in enumerate(rows)
    ]
    found = overlaps(frame)
    assert found.tolist() == expected
    assert found.index.equals(frame.index)


def test_overlaps_on_another_clock_and_on_unknown_values() -> None:
    times = {"start": [0.0, 1.0], "end": [2.0, 3.0]}
    frame = pd.DataFrame({"boot_id": ["a", "b"], "root": ["/x", "/x"], **times})
    assert overlaps(frame).tolist() == [False, False]
    assert overlaps(frame, "root").tolist() == [True, True]
    for bad in (frame.assign(end=-1.0), frame.assign(start=np.nan), frame.assign(boot_id=None)):
        with pytest.raises(ValueError, match="intervals need a boot_id"):
            overlaps(bad)
