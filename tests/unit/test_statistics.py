"""Rounds, intervals and comparisons, noise and overlap: by hand and by properties."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pandas as pd
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from report_samples import MAIN, measured
from simulated_studies import PLAIN, study

from hyperslab.results.measurements import with_flags
from hyperslab.results.statistics import compare, noisy, overlaps, summarise

# ---- summarise


def test_summarise_gives_each_rounds_own_statistics() -> None:
    times = [5.0, 1.0, 2.0, 4.0, 9.0]
    rows = study(np.zeros((1, 1)), repeats=5).assign(time_s=times, file_bytes=7, filters="gzip", grid_m=4)
    row = summarise(rows.sample(frac=1, random_state=1)).iloc[0]
    assert (row.n, row.min_s, row.q1_s, row.median_s, row.q3_s, row.max_s) == (5, 1, 2, 4, 5, 9)
    assert row.mean_s == pytest.approx(4.2)
    assert (row.file_bytes, row.filters, row.grid_m, row.site) == (7, "gzip", 4, "disk")


def test_a_first_access_is_opening_and_selection_of_every_cold_repeat() -> None:
    times, opening = [5.0, 1.0, 2.0, 4.0, 9.0], [0.1, 0.2, 8.0, 0.4, 0.5]
    for state in ("cold", "library-cold"):
        rows = study(np.zeros((1, 1)), repeats=5, state=state).assign(time_s=times, open_s=opening)
        row = summarise(rows).iloc[0]
        # Of 5.1, 1.2, 10, 4.4 and 9.5; the sum of both medians would be 4.4.
        assert row.first_access_s == pytest.approx(5.1)
        assert np.isnan(row.first_selection_s)
        assert row.typical_s == row.median_s == 4
        assert np.isnan(summarise(rows.assign(state="warm")).iloc[0].first_access_s)


def test_a_request_waits_for_copying_and_is_one_of_those_of_several_clients() -> None:
    times, opening, copying = [5.0, 1.0, 2.0], [0.1, 0.2, 0.3], [20.0, 30.0, 40.0]
    rows = study(np.zeros((1, 1)), repeats=3, state="cold").assign(time_s=times, open_s=opening)
    assert summarise(rows).iloc[0].request_s == pytest.approx(2.3)
    assert summarise(rows.assign(fetch_s=copying)).iloc[0].request_s == pytest.approx(31.2)
    for state in ("cold", "session"):
        clients = rows.assign(state=state, answer_median_s=[0.02, 0.01, 0.04], open_s=np.nan)
        assert summarise(clients).iloc[0].request_s == pytest.approx(0.02)


def test_a_session_stands_for_itself_by_its_geometric_mean() -> None:
    """A ramp: four selections from the disk, five from memory, whose median is that of memory alone."""
    times = [16.0, 8.0, 4.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    rows = study(np.zeros((1, 1)), repeats=9, state="session").assign(time_s=times, open_s=np.nan)
    row = summarise(rows).iloc[0]
    assert (row.median_s, row.first_selection_s) == (1.0, 16.0)
    assert np.log2(row.typical_s) == pytest.approx(10 / 9)
    assert np.isnan(row.first_access_s)


def test_what_is_compared_of_sessions_is_their_geometric_mean() -> None:
    both = study(np.zeros((2, 3)), repeats=3, repeat_sd=0, state="session")
    # One layout fills the cache more slowly: its median says nothing of that.
    slow = both["time_s"].where((both["layout"] != "l001") | (both["repeat"] > 0), 8.0)
    summary = summarise(both.assign(time_s=slow))
    assert (summary.median_s == 1).all()
    found = compare(summary, "disk", "slices", "session", "main", "l000")
    assert found["ratio"].tolist() == pytest.approx([2.0])


def test_pooled_statistics_by_hand() -> None:
    logs = np.log([[1.0, 2.0, 4.0], [3.0, 3.0, 3.0]])
    table = summarise(study(logs)).drop_duplicates("layout").set_index("layout")
    assert table.pooled_median_s.tolist() == pytest.approx([2.0, 3.0])
    # Each cell has its own deviation: what varies in one does not widen the interval of the other.
    assert table.sd_log.tolist() == pytest.approx([np.log(2), 0.0])
    half = scipy.stats.t.ppf(0.975, 2) * np.log(2) / np.sqrt(3)
    assert np.log(table.pooled_high_s / table.pooled_median_s).tolist() == pytest.approx([half, 0], abs=1e-7)
    assert np.log(table.pooled_median_s / table.pooled_low_s).tolist() == pytest.approx([half, 0], abs=1e-7)


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
    for round_sd, number in itertools.product((0.0, 0.03, 0.1), range(50)):
        logs = rng.normal(0, 0.03, (8, 3)) + rng.normal(0, round_sd, 3)
        parts.append(study(logs, repeats=1, repeat_sd=0, case=f"{round_sd} {number}"))
    table = summarise(pd.concat(parts)).drop_duplicates(["case", "layout"])
    covered = (table.pooled_low_s <= 1) & (table.pooled_high_s >= 1)
    assert 0.92 <= covered.mean() <= 0.98


def test_families_do_not_share_their_error() -> None:
    rng = np.random.default_rng(4)
    quiet, wild = rng.normal(0, 0.01, (4, 6)), rng.normal(0, 0.5, (4, 6))
    for key in ("site", "case", "phase", "state", "kind"):
        both = summarise(pd.concat([study(quiet), study(wild).assign(**{key: "other"})]))
        alone = summarise(study(quiet))
        kept = both[both[key] != "other"]
        assert kept.sd_log.tolist() == pytest.approx(alone.sd_log.tolist()), key
        assert kept.pooled_high_s.tolist() == pytest.approx(alone.pooled_high_s.tolist()), key


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
    as_categories["layout"] = as_categories["layout"].cat.add_categories("never measured")
    pd.testing.assert_frame_equal(
        summarise(as_categories).astype({"site": "str", "layout": "str", "state": "str"}), summarise(rows)
    )
    assert len(compare(summarise(as_categories), *PLAIN, "l001")) == 2


def test_a_study_four_times_as_large_takes_no_more_than_some_ten_times_as_long() -> None:
    seconds = {}
    for layouts in (100, 400):
        shape = np.random.default_rng(6).normal(0, 0.1, (layouts, 3))
        parts = [
            study(shape, repeats=15, case=case, state=state)
            for case, state in itertools.product("abc", ("cold", "warm", "session"))
        ]
        rows = pd.concat(parts, ignore_index=True)
        start = time.process_time()
        summary = summarise(rows)
        for case, state in itertools.product("abc", ("cold", "warm", "session")):
            compare(summary, "disk", case, state, "main", "l000")
        seconds[layouts] = time.process_time() - start
        assert len(summary) == layouts * 3 * 9
    assert seconds[400] < 12 * seconds[100]


def test_a_cell_that_repeats_itself_exactly_has_an_interval_without_width() -> None:
    row = summarise(study(np.zeros((1, 3)), repeat_sd=0)).iloc[0]
    assert (row.pooled_low_s, row.pooled_high_s, row.sd_log) == pytest.approx((1, 1, 0))


# ---- compare


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
    assert apart.low_joint["l001"] == pytest.approx(apart.low["l001"])


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
    short = summary[(summary["layout"] != "l005") | (summary["round"] > 0)]
    fewer = compare(short, *PLAIN, "l000").set_index("layout")
    assert fewer.rounds.to_dict() == {"l001": 3, "l002": 3, "l003": 3, "l004": 3, "l005": 2}
    assert fewer.p.isna().tolist() == [False] * 4 + [True]
    some = compare(summary, *PLAIN, "l000", ["l003", "l000"]).set_index("layout")
    assert some.index.tolist() == ["l003"]
    assert some.p["l003"] == pytest.approx(every.p["l003"])
    assert some.p_holm["l003"] == some.p["l003"]
    assert some.low_joint["l003"] > every.low_joint["l003"]
    assert set(every.reference) == {"l000"}


def test_compare_selects_site_case_state_and_phase() -> None:
    rng = np.random.default_rng(17)
    parts = {
        key: study(rng.normal(0, 0.02, (4, 3))).assign(**{key: "other"})
        for key in ("site", "case", "phase", "state")
    }
    plain = study(rng.normal(0, 0.02, (4, 3)))
    every = summarise(pd.concat([plain, *parts.values()]))
    pd.testing.assert_frame_equal(compare(every, *PLAIN, "l000"), compare(summarise(plain), *PLAIN, "l000"))
    moved = compare(every, "disk", "slices", "cold", "other", "l000")
    alone = compare(summarise(parts["phase"]), "disk", "slices", "cold", "other", "l000")
    pd.testing.assert_frame_equal(moved, alone)
    with pytest.raises(ValueError, match="same round twice"):
        compare(summarise(pd.concat([plain, plain.assign(kind="write")])), *PLAIN, "l000")


# ---- noise and overlap


def test_noisy_uses_the_wider_of_the_two_bounds() -> None:
    names = list("abcdefghijk")
    quiet = pd.Series([1.0, 1.01, 0.99, 1.24, 1.26, 0.76, 0.74, np.nan, 1.0, 1.0, 1.0], index=names)
    assert quiet.index[noisy(quiet)].tolist() == ["e", "g"]
    # Median 1, MAD 0.2: the bounds are 0 and 2.
    loud = pd.Series([0.8, 1.2, 1.0, 0.8, 1.2, 1.0, 1.0, 0.8, 1.2, 1.9, 2.1])
    assert loud.index[noisy(loud)].tolist() == [10]


def test_a_probe_is_set_against_those_of_its_own_site() -> None:
    moments = ("began_boottime_s", "ended_boottime_s", "began_wall_s", "ended_wall_s")
    main = measured(MAIN, "main").assign(**dict.fromkeys(moments, 0.0))
    both = pd.concat([main, main.assign(site="slow", probe_read_s=1e-2)], ignore_index=True)
    late = (both["site"] == "disk") & (both["layout"] == "auto") & (both["case"] == "slices")
    late &= both["round"] == 2
    for probe in ("probe_read_s", "probe_compute_s"):
        slower = both.assign(**{probe: both[probe].where(~late, 2 * both[probe])})
        assert (with_flags(slower)["noisy"] == late).all()
    assert not with_flags(both)["noisy"].any()


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
