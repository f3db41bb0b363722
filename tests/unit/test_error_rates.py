"""How often comparisons are wrong, and how often they find a delay: simulated studies with fixed seeds."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import scipy
from simulated_studies import LAYOUTS, noise, study

from hyperslab.results.comparisons import of_rounds, table
from hyperslab.results.statistics import compare_pairs, summarise

PAIRS = [(f"l{index + 1:03}", f"l{index:03}") for index in range(0, LAYOUTS, 2)]
FAMILIES = list(itertools.product(("slices", "spectra", "subcube"), ("cold", "warm")))


def twin_study(
    rng: np.random.Generator, delay: float = 1.0, sd: float = 0.03, rounds: int = 3
) -> pd.DataFrame:
    """Summary of 21 very different layouts, each measured twice over; every second twin slowed by `delay`.

    With 3 cases and 2 states these are 126 disjoint comparisons of a layout with itself.
    """
    parts = []
    for case, state in FAMILIES:
        truth = np.repeat(rng.uniform(np.log(1e-3), np.log(2), LAYOUTS // 2), 2)
        truth[1::2] += np.log(delay)
        logs = truth[:, None] + noise(rng, sd, rounds=rounds)
        # Medians of three repeats are those that are given, as those of any odd number.
        seed = int(rng.integers(1 << 30))
        parts.append(study(logs, repeats=3, case=case, state=state, seed=seed))
    return summarise(pd.concat(parts, ignore_index=True))


def called_different(summary: pd.DataFrame) -> int:
    """How many of the 126 twins are called different."""
    return sum(
        int(compare_pairs(summary, "disk", case, state, "main", PAIRS).different.sum())
        for case, state in FAMILIES
    )


@pytest.mark.parametrize("rounds", [3, 5, 12])
def test_the_same_layout_is_seldom_called_different(rounds: int) -> None:
    rng = np.random.default_rng(12)
    calls = [called_different(twin_study(rng, rounds=rounds)) for _ in range(8)]
    assert max(calls) <= 6
    assert np.mean(calls) < 1.5


def test_a_delay_of_15_percent_is_found() -> None:
    rng = np.random.default_rng(13)
    for sd in (0.02, 0.03, 0.04):
        assert called_different(twin_study(rng, delay=1.15, sd=sd, rounds=12)) >= 0.8 * 126, sd


def test_p_values_of_equals_are_uniform_among_quiet_and_noisy_pairs() -> None:
    """A gate on adjusted calls alone cannot fail; a variance pooled over all pairs fails this one."""
    rng = np.random.default_rng(18)
    for rounds in (3, 5, 12):
        p, sd = [], []
        for _ in range(60):
            logs = noise(rng, rounds=rounds)
            found = of_rounds(logs[1::2] - logs[::2])
            p.append(found.p_different())
            sd.append(found.deviation)
        values, spread = np.concatenate(p), np.concatenate(sd)
        everything = np.ones(len(spread), bool)
        quiet, noisy = spread <= np.quantile(spread, 0.5), spread >= np.quantile(spread, 0.8)
        assert 0.035 <= (values < 0.05).mean() <= 0.065, rounds
        # Whether a pair looks quiet says something of its p value where its own deviation makes the test.
        for part in (everything, quiet, noisy) if rounds == 12 else (everything,):
            assert 0.02 <= (values[part] < 0.05).mean() <= 0.09, rounds


def test_repeats_of_one_process_would_have_called_twins_different() -> None:
    """The studies above are hard enough: within one round their twins look different far too often."""
    rng = np.random.default_rng(14)
    logs = np.zeros(LAYOUTS)[:, None] + noise(rng)
    rows = study(logs, repeats=50)
    times = rows[rows["round"] == 0].pivot(index="layout", columns="repeat", values="time_s")
    wrong = [scipy.stats.mannwhitneyu(times.loc[a], times.loc[b]).pvalue < 0.05 for a, b in PAIRS]
    assert np.mean(wrong) > 0.2


def test_one_reference_against_all_keeps_the_error_rate_of_a_family() -> None:
    rng = np.random.default_rng(15)
    for rounds in (3, 5, 12):
        wrong, found = [], []
        for _ in range(300):
            truth = np.zeros(LAYOUTS)
            truth[LAYOUTS // 2 :] = np.log(1.15)
            logs = truth[:, None] + noise(rng, rounds=rounds)
            compared = table(of_rounds(logs[1:] - logs[0]))
            wrong.append(compared.different[: LAYOUTS // 2 - 1].any())
            found.append(compared.different[LAYOUTS // 2 - 1 :].mean())
        assert np.mean(wrong) < 0.08, rounds
    assert np.mean(found) > 0.8


def test_joint_intervals_hold_together() -> None:
    rng = np.random.default_rng(16)
    truth = np.linspace(0, 8, LAYOUTS)
    ratio = np.exp(truth[1:])
    together = {"low_joint": 0, "low": 0}
    for _ in range(400):
        logs = truth[:, None] + noise(rng)
        compared = table(of_rounds(logs[1:] - logs[0]))
        for low in together:
            high = compared[low.replace("low", "high")]
            together[low] += int(((compared[low] <= ratio) & (ratio <= high)).all())
    assert together["low_joint"] >= 0.93 * 400
    assert together["low"] <= together["low_joint"]
