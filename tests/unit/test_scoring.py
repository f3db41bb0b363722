"""Scores: criteria as data, and the one factor that matches them to a site."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hyperslab.results.scoring import (
    absolute_score,
    criterion_values,
    matched_score,
    plain,
    read_criteria,
    site_state,
)

CASES = ("slices", "spectra", "subcube")
CRITERIA = [
    {"case": "slices", "state": "session", "statistic": "median_s", "below": 0.1},
    {"case": "spectra", "state": "session", "statistic": "median_s", "below": 0.05},
    {"case": "subcube", "state": "session", "statistic": "median_s", "below": 0.002},
    {"statistic": "file_bytes", "below": 2100 * 2**20, "title": "file < 2,100 MiB"},
]
LABELS = [f"{c} session median_s < {b}" for c, b in zip(CASES, (0.1, 0.05, 0.002), strict=True)]
SIZE = 2000 * 2**20


def row(
    layout: str, case: str, median: float, state: str = "session", **columns: object
) -> dict[str, object]:
    """One row of a summary."""
    base: dict[str, object] = {"site": "disk", "kind": "read", "phase": "main", "round": 0}
    base |= {"layout": layout, "case": case, "state": state, "median_s": median, "max_s": 9.0}
    return {**base, "file_bytes": SIZE, "grid_m": 4.0, **columns}


def grid(ratios: dict[str, tuple[float, float, float]], **columns: object) -> pd.DataFrame:
    """A summary in which each layout's cold times are the given multiples of the published bounds."""
    bounds = dict(zip(CASES, (0.1, 0.05, 0.002), strict=True))
    return pd.DataFrame(
        row(layout, case, bounds[case] * ratio, "cold", **columns)
        for layout, values in ratios.items()
        for case, ratio in zip(CASES, values, strict=True)
    )


# ---- rounds that were added


def test_a_slow_hour_in_which_rounds_were_added_for_one_layout_makes_it_no_slower() -> None:
    times = {"more": [0.09, 0.09, 0.9, 0.9], "first": [0.1, 0.1], "whole": [0.2, 0.2, 2.0, 2.0]}
    rows = [
        row(layout, case, value, round=number)
        for layout, values in times.items() for case in CASES for number, value in enumerate(values)
    ]  # fmt: skip
    known = read_criteria(CRITERIA)
    found = criterion_values(pd.DataFrame(rows), known[0], known)
    # By plain means the one with more rounds would be three times as slow as the first.
    assert found["more"] / found["first"] == pytest.approx(0.9)
    assert found["whole"] / found["more"] == pytest.approx(2 / 0.9)


# ---- absolute


def test_absolute_score_by_hand() -> None:
    rows = [row("fast", case, value) for case, value in zip(CASES, (0.09, 0.04, 0.001), strict=True)]
    # Equal to the bound is not below it; the large file misses one more.
    slow = zip(CASES, (0.1, 0.051, 0.0019), strict=True)
    rows += [row("slow", case, value, file_bytes=2100 * 2**20) for case, value in slow]
    table = absolute_score(pd.DataFrame(rows), CRITERIA).set_index("layout")
    assert table.columns.tolist() == ["site", *LABELS, "file < 2,100 MiB", "score", "missing"]
    assert table.loc["fast", LABELS].tolist() == [True] * 3
    assert table.loc["slow", [*LABELS, "file < 2,100 MiB"]].tolist() == [False, False, True, False]
    assert table.score.to_dict() == {"fast": 4, "slow": 1}
    assert table[LABELS].dtypes.tolist() == [bool] * 3


def test_the_statistic_is_the_geometric_mean_over_rounds_of_its_own_state_and_phase() -> None:
    rows = [row("a", "slices", value, round=number) for number, value in enumerate((0.01, 0.11, 0.2))]
    rows += [row("a", "slices", 9.0, "cold", round=number) for number in range(9)]
    rows += [row("a", "slices", 9.0, phase="confirm", round=number) for number in range(9)]
    table = absolute_score(pd.DataFrame(rows), CRITERIA[:1])
    assert table[LABELS[0]].tolist() == [True]
    worse = pd.DataFrame(rows).assign(median_s=lambda frame: frame.median_s * (0.11 / 0.06))
    assert absolute_score(worse, CRITERIA[:1])[LABELS[0]].tolist() == [False]
    maximum = [{**CRITERIA[0], "statistic": "max_s", "below": 9.5}]
    assert absolute_score(pd.DataFrame(rows), maximum).score.tolist() == [1]


def test_what_was_not_measured_is_not_met_and_counted() -> None:
    rows = [row("a", case, 0.0001) for case in CASES] + [row("b", "slices", 0.0001)]
    table = absolute_score(pd.DataFrame(rows), CRITERIA).set_index("layout")
    assert table.score.to_dict() == {"a": 4, "b": 2}
    assert table.missing.to_dict() == {"a": 0, "b": 2}
    assert absolute_score(pd.DataFrame(rows), CRITERIA, phase="confirm").empty


def test_sites_are_scored_apart() -> None:
    rows = [row("a", "slices", 0.01), row("a", "slices", 1.0, site="memory")]
    table = absolute_score(pd.DataFrame(rows), CRITERIA[:1])
    assert dict(zip(table.site, table.score, strict=True)) == {"disk": 1, "memory": 0}


def test_a_files_size_comes_from_the_cases_with_bounds() -> None:
    rows = [row("a", case, 0.0001) for case in CASES]
    large = {"kind": "write", "file_bytes": 10**12}
    rows += [row("a", "short write", 1.0, "write", round=number, **large) for number in range(9)]
    assert absolute_score(pd.DataFrame(rows), CRITERIA).score.tolist() == [4]
    write = [{**CRITERIA[3], "case": "short write", "state": "session"}]
    assert absolute_score(pd.DataFrame(rows), [*CRITERIA[:3], *write]).score.tolist() == [3]
    # Without any time in the score all files count.
    assert absolute_score(pd.DataFrame(rows), CRITERIA[3:]).score.tolist() == [0]


def test_criteria_are_checked() -> None:
    good = CRITERIA[0]
    with pytest.raises(ValueError, match=r"unknown statistic 'median'.*median_s"):
        read_criteria([{**good, "statistic": "median"}])
    for lacking in ("case", "state"):
        with pytest.raises(ValueError, match="needs a case and a state"):
            read_criteria([{key: value for key, value in good.items() if key != lacking}])
    for below in (0, -1, math.nan, math.inf):
        with pytest.raises(ValueError, match="positive and finite"):
            read_criteria([{**good, "below": below}])
    with pytest.raises(ValueError, match="the same"):
        read_criteria([good, good])
    (size,) = read_criteria([{"statistic": "file_bytes", "state": "session", "below": 9}])
    assert (size.state, size.label) == (None, "file_bytes < 9")
    with pytest.raises(ValueError, match="at least 1"):
        matched_score(grid({"a": (1, 1, 1)}), CRITERIA, target=0)


def test_cold_is_library_cold_only_where_nothing_was_evicted() -> None:
    for states, expected in ((["cold", "library-cold"], "cold"), (["library-cold", "warm"], "library-cold")):
        assert site_state(pd.DataFrame({"state": states}), "cold") == expected
    assert site_state(pd.DataFrame({"state": ["library-cold"]}), "warm") == "warm"


# ---- matched


def test_matched_score_by_hand() -> None:
    cold = grid({"a": (0.5, 2, 1), "b": (1, 1, 3), "c": (7, 1, 1), "d": (1, 1, 1.5), "e": (0.1, 0.1, 0.1)})
    cold.loc[cold.layout == "e", "file_bytes"] = 2100 * 2**20
    (found,) = matched_score(cold, CRITERIA, target=3, published=["c", "b", "x", "a"])
    assert found.factor == pytest.approx(3)
    assert (found.binding_case, found.binding_layout, found.state) == ("subcube", "b", "cold")
    assert found.layouts == ("a", "b", "d")
    assert found.published == ("a", "b")
    assert found.scores == {"a": 4, "b": 4, "c": 3, "d": 4, "e": 3}
    assert found.thresholds is not None
    assert found.thresholds["slices cold median_s < 0.1"] == pytest.approx(0.3)
    assert found.thresholds["file < 2,100 MiB"] == 2100 * 2**20
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["layouts"] == ["a", "b", "d"]


def test_the_grid_is_what_has_a_grid_axis_unless_layouts_are_named() -> None:
    cold = grid({"a": (1, 1, 1), "b": (2, 2, 2), "contiguous": (0.1, 0.1, 0.1)})
    cold.loc[cold.layout == "contiguous", "grid_m"] = np.nan
    (found,) = matched_score(cold, CRITERIA, target=1)
    assert found.layouts == ("a",)
    (named,) = matched_score(cold, CRITERIA, target=1, layouts=["contiguous", "b"])
    assert named.layouts == ("contiguous",)
    assert named.factor == pytest.approx(0.1)
    (without,) = matched_score(cold.drop(columns="grid_m"), CRITERIA, target=1)
    assert without.factor is None


def test_the_times_are_cold_ones_as_the_site_names_them() -> None:
    cold = grid({"a": (2, 2, 2)})
    warm = cold.assign(state="session", median_s=1e-9)
    memory = cold.assign(state="library-cold", site="memory", median_s=cold.median_s * 2)
    writes = cold.iloc[:1].assign(state="write", kind="write", case="fill", median_s=30.0)
    bounds = [*CRITERIA, {"case": "fill", "state": "write", "statistic": "median_s", "below": 5}]
    disk, tmpfs = matched_score(pd.concat([warm, cold, memory]), CRITERIA, target=1)
    assert [disk.factor, tmpfs.factor] == pytest.approx([2, 4])
    assert [disk.state, tmpfs.state] == ["cold", "library-cold"]
    (with_write,) = matched_score(pd.concat([cold, writes]), bounds, target=1)
    assert with_write.factor == pytest.approx(6)
    assert with_write.binding_case == "fill"
    later = cold.assign(phase="confirm", median_s=1e-9)
    (main,) = matched_score(pd.concat([cold, later]), CRITERIA, target=1)
    assert main.factor == pytest.approx(2)


def test_where_there_is_no_factor_the_reason_is_said() -> None:
    cold = grid({"a": (1, 1, 1), "b": (1, 1, 1), "c": (1, 1, 1)})
    big = cold.assign(file_bytes=cold.file_bytes.where(cold.layout == "a", 10**12))
    cases = {
        "1 of 3 layouts pass the file bounds, 2 are needed": (big, CRITERIA),
        "1 layouts pass the file bounds and have all times, 2 are needed": (
            cold[(cold.layout == "a") | (cold.case != "spectra")],
            CRITERIA,
        ),
        "nothing was measured cold": (cold.assign(state="warm"), CRITERIA),
        "no criterion bounds a time": (cold, CRITERIA[3:]),
    }
    for reason, (summary, criteria) in cases.items():
        (found,) = matched_score(summary, criteria, target=2)
        assert (found.factor, found.reason, found.layouts) == (None, reason, ())


RATIOS = st.lists(st.tuples(*[st.floats(0.01, 100)] * 3), min_size=1, max_size=8)


@settings(max_examples=25, deadline=None)
@given(RATIOS, st.integers(1, 8))
def test_the_factor_is_the_smallest(ratios: list[tuple[float, float, float]], target: int) -> None:
    assume(target <= len(ratios))
    summary = grid({f"l{index}": values for index, values in enumerate(ratios)})
    (found,) = matched_score(summary, CRITERIA, target=target)
    assert found.factor is not None

    def full_marks(factor: float) -> int:
        bounds = zip(CASES, (0.1, 0.05, 0.002), strict=True)
        times = {"state": "cold", "statistic": "median_s"}
        cold = [{**times, "case": case, "below": bound * factor} for case, bound in bounds]
        return int((absolute_score(summary, [*cold, CRITERIA[3]]).score == 4).sum())

    assert full_marks(found.factor * (1 + 1e-9)) >= target
    assert full_marks(found.factor * (1 - 1e-9)) < target
    assert len(found.layouts) >= target


@settings(max_examples=25, deadline=None)
@given(RATIOS, st.floats(0.01, 100))
def test_the_factor_follows_the_speed_of_the_site(
    ratios: list[tuple[float, float, float]], speed: float
) -> None:
    summary = grid({f"l{index}": values for index, values in enumerate(ratios)})
    (found,) = matched_score(summary, CRITERIA, target=1)
    (scaled,) = matched_score(summary.assign(median_s=summary.median_s * speed), CRITERIA, target=1)
    (backwards,) = matched_score(summary.iloc[::-1], CRITERIA, target=1)
    assert found.factor is not None
    assert scaled.factor == pytest.approx(found.factor * speed)
    assert backwards == found


def test_plain_is_json() -> None:
    value = {1: (np.float64(2), np.int64(3), np.bool_(True), math.nan, math.inf, None, "x")}
    assert json.dumps(plain(value), allow_nan=False) == '{"1": [2.0, 3, true, null, null, null, "x"]}'
