"""Layouts with different rounds are compared as if all had had the same ones."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from hyperslab.results.adjusted import adjusted_means
from hyperslab.results.requests import typical
from hyperslab.results.statistics import summarise

# Layouts a and b, 2 % apart, and rounds of which the later ones are slow.
LAYOUTS, SLOW = np.log([1.0, 1.02, 3.0]), np.log([1.0, 1.1, 0.9, 2.0, 2.5])
WHOLE = pd.DataFrame(LAYOUTS[:, None] + SLOW, index=list("abc"))


def test_equal_rounds_have_their_plain_mean() -> None:
    pd.testing.assert_series_equal(adjusted_means(WHOLE), WHOLE.mean(axis=1))


def test_a_slow_hour_in_which_only_some_were_measured_moves_none_against_another() -> None:
    partial = WHOLE.copy()
    partial.loc["b", 3:] = np.nan
    assert partial.mean(axis=1)["b"] < partial.mean(axis=1)["a"], "plain means put b, which is slower, first"
    assert adjusted_means(partial).to_numpy() == pytest.approx(WHOLE.mean(axis=1).to_numpy())
    assert typical(np.exp(partial)).to_numpy() == pytest.approx(typical(np.exp(WHOLE)).to_numpy())


def test_a_layout_without_rounds_has_no_mean() -> None:
    partial = WHOLE.copy()
    partial.loc["c"] = np.nan
    found = adjusted_means(partial)
    assert np.isnan(found["c"])
    assert found[["a", "b"]].to_numpy() == pytest.approx(WHOLE.mean(axis=1)[["a", "b"]].to_numpy())


def test_the_summary_shows_times_of_an_average_round() -> None:
    partial = WHOLE.copy()
    partial.loc["b", 3:] = np.nan
    rows = [
        {"site": "disk", "layout": layout, "case": "slices", "kind": "read", "phase": "main", "state": "cold",
         "round": round_, "repeat": 0, "time_s": float(np.exp(log))}
        for layout, logs in partial.iterrows() for round_, log in logs.dropna().items()
    ]  # fmt: skip
    summary = summarise(pd.DataFrame(rows)).drop_duplicates("layout").set_index("layout")
    assert summary["pooled_median_s"]["b"] / summary["pooled_median_s"]["a"] == pytest.approx(1.02)
    inside = (summary["pooled_low_s"] < summary["pooled_median_s"]) & (
        summary["pooled_median_s"] < summary["pooled_high_s"]
    )
    assert inside.all()


def test_layouts_without_a_round_in_common_do_not_move_each_other() -> None:
    """One took ten seconds and the other a millisecond, in rounds that none has of the other's."""
    apart = pd.DataFrame(np.log([[10.0, np.nan], [np.nan, 0.001]]), index=list("ab"))
    assert typical(np.exp(apart)).to_numpy() == pytest.approx([10, 0.001])
    # Nor do two sets of layouts; within each, one that lacks a slow round is moved as ever.
    sets = pd.DataFrame(np.nan, index=list("abcd"), columns=range(4))
    sets.loc["a", :1], sets.loc["b", 0] = np.log([1.0, 2.0]), np.log(1.02)
    sets.loc["c", 2:], sets.loc["d", 2] = np.log([100.0, 400.0]), np.log(300.0)
    found = typical(np.exp(sets))
    assert found[["a", "c"]].to_numpy() == pytest.approx(np.sqrt([2, 40000]))
    assert found[["b", "d"]].to_numpy() == pytest.approx([1.02 * np.sqrt(2), 600])
