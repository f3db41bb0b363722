"""The recommendation: objective, ties, size, finalists, speed-ups and Pareto front."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from simulated_studies import study

from hyperslab.results.comparisons import not_worse_than_best
from hyperslab.results.front import pareto
from hyperslab.results.packs import measurements
from hyperslab.results.recommend import Recommendation, recommend, size_bound
from hyperslab.results.recommendation import answer
from hyperslab.results.requests import shares
from hyperslab.results.statistics import summarise

CASES = ("slices", "spectra")
PACKS = Path(__file__).parents[2] / "packs"


def summary(
    times: Mapping[str, tuple[float, ...]], sizes: Mapping[str, float] | None = None, rounds: int = 3,
    sd: float = 0.01, seed: int = 1, **columns: object,
) -> pd.DataFrame:  # fmt: skip
    """A summary in which `times` are a layout's true medians per case and every cell has luck of its own."""
    rng = np.random.default_rng(seed)
    base = {"site": "disk", "kind": "read", "phase": "main", "state": "cold", **columns}
    return pd.DataFrame(
        {
            **base,
            "layout": layout,
            "case": case,
            "round": number,
            "median_s": value * np.exp(rng.normal(0, sd)),
            "file_bytes": (sizes or {}).get(layout, 100),
        }
        for layout, values in times.items()
        for case, value in zip(CASES, values, strict=True)
        for number in range(rounds)
    )


def only(rows: pd.DataFrame, **options: object) -> Recommendation:
    """The recommendation of the one site."""
    (found,) = recommend(rows, **options)  # type: ignore[arg-type]
    return found


SPREAD = {"balanced": (0.2, 0.2), "slices": (0.1, 2.0), "spectra": (2.0, 0.1), "bad": (3.0, 3.0)}


def test_what_is_only_written_counts_as_written_in_a_mix() -> None:
    """Rows that are replaced, and sub-volumes of ranks, write no whole array and are read in no state."""
    rows = summary(SPREAD, sd=1e-6)
    replaced = rows[rows["case"] == "spectra"].assign(kind="rewrite_rows", state="write", case="replace")
    found = only(pd.concat([rows, replaced]), mix={"slices": 1, "replace": 1})
    assert (found.pick, set(found.shares)) == ("balanced", {"slices cold", "replace write"})


def test_without_a_mix_the_least_largest_regret_is_recommended() -> None:
    found = only(summary(SPREAD, sd=1e-6), contiguous="slices", automatic="bad")
    assert (found.pick, found.best, found.tied, found.rule) == (
        "balanced",
        "balanced",
        ("balanced",),
        "regret",
    )
    assert {entry.layout: entry.objective for entry in found.ranking} == pytest.approx(
        {"balanced": 2, "slices": 20, "spectra": 20, "bad": 30}, rel=1e-4
    )
    worst = found.ranking[-1]
    assert worst.layout == "bad"
    assert worst.times == pytest.approx({f"{case} cold": 3 for case in CASES}, rel=1e-4)
    assert worst.to_best == pytest.approx(15, rel=1e-4)
    assert worst.low is not None
    assert worst.high is not None
    assert worst.low < 15 < worst.high < 15.1
    assert found.runner_up in ("slices", "spectra")
    (other,) = found.alternatives
    named = ["balanced", found.runner_up, "slices", "bad", other.layout]
    assert found.finalists == tuple(dict.fromkeys(named))
    assert found.shares == {"slices cold": 0.5, "spectra cold": 0.5}
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["pick"] == "balanced"


def test_what_a_geometric_mean_would_advise_is_not_recommended() -> None:
    """An image of 4.7 s because a spectrum takes 0.36 ms: nobody would want that."""
    times = {"contiguous": (4.7, 0.00036), "balanced": (0.060, 0.014), "images": (0.015, 0.290)}
    found = only(summary(times, sd=1e-6))
    assert (found.pick, found.ranking[0].worst) == ("balanced", "slices cold")
    # Under the floor of 10 ms nobody notices: 14 ms is 1.4 times as long as 0.36 ms, not 39 times.
    assert found.ranking[0].regrets == pytest.approx({"slices cold": 4, "spectra cold": 1.4}, rel=1e-3)
    assert only(summary(times, sd=1e-6), imperceptible_ms=0).ranking[0].regrets["spectra cold"] > 38


def test_a_mix_has_the_least_expected_time() -> None:
    rows = summary(SPREAD, sd=1e-6)
    found = only(rows, mix={"slices": 9, "spectra": 1})
    assert (found.pick, found.rule) == ("balanced", "mix")
    assert found.ranking[0].objective == pytest.approx(0.2, rel=1e-4)
    assert {entry.layout: entry.objective for entry in found.ranking}["slices"] == pytest.approx(
        0.29, rel=1e-4
    )
    assert only(rows, mix={"slices": 99, "spectra": 1}).pick == "slices"
    assert only(rows, mix={"spectra": 1.0}).pick == "spectra"
    assert only(rows, mix={}).rule == "regret"
    warm = summary({name: values[::-1] for name, values in SPREAD.items()}, state="warm")
    both = pd.concat([rows, warm])
    assert only(both, mix={"slices": 1}).pick == "slices"
    assert only(both, mix={"slices": 1}, states=["warm"]).pick == "spectra"
    assert only(both, states=["cold", "warm"]).shares == {
        f"{case} {state}": 0.25 for case in CASES for state in ("cold", "warm")
    }


def test_it_says_at_which_mix_another_layout_is_better() -> None:
    found = only(summary({"a": (0.1, 0.3), "b": (0.3, 0.1), "both": (0.11, 0.14)}, sd=1e-6))
    (other,) = found.alternatives
    assert (found.pick, other.layout, other.case) == ("both", "b", "spectra")
    # Expected times are equal at the share s of spectra with 0.11 (1 - s) + 0.14 s = 0.3 (1 - s) + 0.1 s.
    assert other.above == pytest.approx(0.19 / (0.19 + 0.04), rel=1e-3)
    more = {"slices": 1 - other.above - 0.02, "spectra": other.above + 0.02}
    less = {"slices": 1 - other.above + 0.02, "spectra": other.above - 0.02}
    rows = summary({"b": (0.3, 0.1), "both": (0.11, 0.14)}, sd=1e-6)
    assert (only(rows, mix=more).best, only(rows, mix=less).best) == ("b", "both")
    assert only(summary({"all": (0.1, 0.1), "b": (0.3, 0.1)})).alternatives == ()


def test_no_other_layout_is_named_for_a_mix_that_is_asked_already() -> None:
    # The pick is as good as the best within 5 %, in a smaller file; the best is faster for spectra.
    times = {"large": (0.1005, 0.1), "small": (0.1, 0.13)}
    rows = summary(times, {"large": 120, "small": 100}, rounds=6, sd=0.006)
    found = only(rows, mix={"slices": 96, "spectra": 4})
    assert (found.pick, found.best, found.alternatives) == ("small", "large", ())
    rows = summary({"a": (0.1, 0.3), "b": (0.3, 0.1)}, sd=1e-6)
    (other,) = only(rows, mix={"slices": 9, "spectra": 1}).alternatives
    assert (other.layout, other.case) == ("b", "spectra")
    assert other.above == pytest.approx(0.5, rel=1e-3)


def test_opening_counts_in_a_request() -> None:
    repeats = study(np.log([[0.02] * 3, [0.03] * 3]), repeat_sd=0).assign(file_bytes=100)
    slow_to_open = repeats.assign(open_s=np.where(repeats.layout == "l000", 0.5, 0.01))
    assert only(summarise(repeats)).pick == "l000"
    assert only(summarise(slow_to_open)).pick == "l001"
    assert only(summarise(slow_to_open)).ranking[0].times == {"slices cold": pytest.approx(0.04)}
    # On a file that stays open nobody waits for it again.
    assert only(summarise(slow_to_open.assign(state="warm")), states=["warm"]).pick == "l000"


def test_what_reads_its_whole_file_when_it_opens_it_loses_cold_without_being_named() -> None:
    """The core driver in a pack: its selections are the fastest of all, and its requests the slowest."""
    rows = summarise(measurements(PACKS / "knobs-allocation.tar.xz"))
    core = "chunked-core"
    found = only(rows)
    assert found.ranking[-1].layout == core
    assert core not in found.tied
    # What opening costs is what makes it so.
    assert only(rows.assign(request_s=rows["typical_s"])).pick == core
    # Warm, on a file that is open, it is no faster than what lies in the page cache.
    assert only(rows, states=["warm"]).pick != core


def test_shares_are_resolved_and_checked() -> None:
    rows = summary({"a": (1, 1)}, state="library-cold")
    write = rows[rows.case == "slices"].assign(case="fill", kind="write", state="write")
    both = pd.concat([rows, write])
    assert shares(both, None) == {(case, "library-cold"): 0.5 for case in CASES}
    assert shares(both, {"fill": 3, "slices": 1, "spectra": 0}) == {
        ("fill", "write"): 0.75,
        ("slices", "library-cold"): 0.25,
    }
    for bad, message in (
        ({"slices": -1.0}, "negative"),
        ({"slices": np.inf}, "finite"),
        ({"slices": 0}, "one"),
    ):
        with pytest.raises(ValueError, match=message):
            shares(both, bad)


def test_a_smaller_file_is_picked_only_if_it_is_surely_as_fast_and_matters() -> None:
    times = {"fast": (0.1, 0.1), "near": (0.1005, 0.1005), "slow": (0.2, 0.2), "slower": (0.3, 0.3)}
    sizes = {"fast": 120, "near": 110, "slow": 100, "slower": 90}
    found = only(summary(times, sizes, sd=0.004))
    assert set(found.tied) == {"fast", "near"}
    assert (found.pick, found.best, found.runner_up) == ("near", "fast", "fast")
    # Cannot be told apart is not enough: it could be 20 % slower.
    noisy = only(summary(times, sizes, sd=0.1, rounds=4))
    assert "near" in noisy.tied
    assert noisy.pick == noisy.best
    # A file that is 0.04 % smaller is no reason.
    assert only(summary(times, {**sizes, "near": 119.95}, sd=0.004)).pick == "fast"
    for unsized in ("fast", "near"):
        rows = summary(times, sizes, sd=0.004)
        rows["file_bytes"] = rows["file_bytes"].where(rows.layout != unsized)
        assert only(rows).pick == "fast"


def test_the_size_bound_is_a_bound() -> None:
    times = {"fast": (0.1, 0.1), "next": (0.2, 0.2), "last": (0.3, 0.3)}
    sizes = {"fast": 111, "next": 110, "last": 100}
    rows = summary(times, sizes)
    assert only(rows).finalists == ("fast", "next")
    assert size_bound(100, 1.10) == pytest.approx(110)
    found = only(rows, size_bound_bytes=110)
    assert (found.pick, found.runner_up, found.best) == ("next", "last", "next")
    first = found.ranking[0]
    assert (first.layout, first.fits, first.tied, first.to_best) == ("fast", False, False, None)
    none = only(rows, size_bound_bytes=99)
    assert none.pick is None
    assert none.reason == "no layout has a file of at most 99 bytes (smallest: last)"
    assert len(none.ranking) == 3
    # Of cases on parts of the array and on the whole, the file of the whole is what counts.
    part = rows.assign(file_bytes=rows["file_bytes"].where(rows["case"] == "slices", 1))
    assert [one.file_bytes for one in only(part).ranking] == [one.file_bytes for one in only(rows).ranking]
    # A case that does not count may be measured on another array.
    other = rows[rows.case == "slices"].assign(case="fill", kind="write", state="write", file_bytes=1)
    assert only(pd.concat([rows, other, other.assign(state="x")]), size_bound_bytes=99).pick is None
    with pytest.raises(ValueError, match="positive"):
        size_bound(0, 1.1)


def test_a_site_is_bounded_by_the_largest_array_that_counts_there() -> None:
    both = summary({"small": (0.2, 0.2), "large": (0.1, 0.1)}, {"small": 100, "large": 300}, sd=1e-6)
    # Spectra are of an array that is ten times as large, and asked at the other site alone.
    alone = both[both["case"] == "slices"].assign(site="memory")
    asked = {
        "recommendation": {"mix": {}, "size_bound": 1.5, "states": ["cold"], "imperceptible_ms": 10.0},
        "contiguous": None, "automatic": None, "raw_bytes": 1000, "rounds": (3, 3),
        "raw_bytes_of": {"slices": 100, "spectra": 1000},
    }  # fmt: skip
    disk, memory = answer(pd.concat([both, alone]), [], asked)["sites"]
    assert (disk["pick"], disk["size_bound_bytes"]) == ("large", 1500)
    assert (memory["pick"], memory["size_bound_bytes"]) == ("small", 150)


def test_under_three_rounds_the_fastest_is_picked_and_it_is_said() -> None:
    times = {"fast": (0.1, 0.1), "near": (0.1005, 0.1005), "slow": (0.2, 0.2)}
    found = only(summary(times, {"slow": 1}, rounds=2, sd=1e-4))
    assert (found.pick, found.tied, found.ranking[1].low) == ("fast", (), None)
    assert found.reason == "under 3 rounds: the pick is the best, ties are unknown"


def test_layouts_that_cannot_be_ranked_are_left_out_with_the_reason() -> None:
    times = {name: (0.2 + 0.01 * index,) * 2 for index, name in enumerate("abcdef")}
    rows = summary(times, {"d": 1, "e": 1, "f": 1})
    rows = rows[~((rows.layout == "d") & (rows.case == "spectra"))]
    rows = rows[~((rows.layout == "e") & (rows["round"] == 1) & (rows.case == "slices"))]
    rows["round"] += np.where(rows.layout == "f", 10, 0)
    found = only(rows)
    assert found.left_out == {
        "d": "lacks a case or state that counts",
        "e": "2 complete rounds, 3 are needed",
        "f": "shares too few rounds with the others",
    }
    assert [entry.layout for entry in found.ranking] == ["a", "b", "c"]
    # What is left out moves no time of the others.
    assert found.ranking[0].times["slices cold"] == pytest.approx(0.2, rel=0.05)
    partly = only(rows[rows.layout.isin(["d", "e"])].query("layout == 'd' or case == 'spectra'"))
    assert (partly.pick, partly.reason) == (
        None,
        "no layout has all cases and states that count in one round",
    )
    absent = only(rows, mix={"slices": 1, "typo": 1})
    assert (absent.pick, absent.reason) == (None, "not measured here: typo (cold)")
    session = rows.assign(state=rows["state"].where(rows["case"] != "spectra", "session"))
    assert only(session).reason == "not measured here: spectra (cold; only session)"
    alone = only(rows.assign(state="session")).reason
    assert alone == (
        "not measured here: slices (cold; only session), spectra (cold; only session); "
        "recommendation: {states: [session]} counts what was"
    )
    assert only(rows.assign(state="session"), states=["session"]).pick == only(rows).pick
    # No study can ask for these states by name.
    for state in ("write", "library-cold"):
        assert "counts what was" not in str(only(rows.assign(state=state), states=["warm"]).reason)
    assert only(rows.assign(kind="write")).reason == "not measured here: any read case"


def test_each_site_has_its_own_and_confirming_rounds_do_not_choose() -> None:
    memory = summary(
        {name: values[::-1] for name, values in SPREAD.items()}, site="memory", state="library-cold"
    )
    confirm = summary({**SPREAD, "bad": (1e-6, 1e-6)}, phase="confirm")
    disk, tmpfs = recommend(pd.concat([summary(SPREAD), memory, confirm]), {"slices": 1})
    assert (disk.site, disk.pick) == ("disk", "slices")
    assert (tmpfs.site, tmpfs.pick) == ("memory", "spectra")
    assert tmpfs.shares == {"slices library-cold": 1}


def test_the_best_is_seldom_missed() -> None:
    rng = np.random.default_rng(3)
    missed = 0
    for _ in range(400):
        logs = rng.normal(0, 0.1, (20, 3))
        *_, stays = not_worse_than_best(pd.DataFrame(logs))
        missed += not stays[0]
        logs[5:] += 1.5
        *_, stays = not_worse_than_best(pd.DataFrame(logs))
        assert stays[np.argmin(logs[:5].mean(axis=1))]
    assert missed <= 0.05 * 400


def test_what_is_surely_beaten_is_neither_best_nor_runner_up() -> None:
    """A layout with few rounds that a noisy one makes look good, as in test_comparisons."""
    rng = np.random.default_rng(2)
    logs = rng.normal(0, 0.001, (3, 8))
    logs[1] += 0.025
    logs[2] += [-0.02, 0.06, 0.14, *[-0.045] * 5]
    rows = pd.DataFrame(
        {"site": "disk", "kind": "read", "phase": "main", "state": "cold", "layout": layout, "case": "slices",
         "round": number, "median_s": np.exp(value), "file_bytes": 100}
        for layout, values in zip("abc", logs, strict=True)
        for number, value in enumerate(values)
        if layout != "b" or number < 3
    )  # fmt: skip
    found = only(rows)
    assert [entry.layout for entry in found.ranking][0] == "b"
    assert (found.best, found.runner_up, set(found.tied), found.reason) == ("c", "a", {"a", "c"}, None)


TIMES = hnp.arrays(float, (6, 2), elements=st.floats(0.001, 10))


@settings(max_examples=20, deadline=None)
@given(TIMES, st.floats(1e-3, 1e3), st.permutations(range(6)))
def test_neither_the_unit_nor_the_names_nor_the_order_matter(
    times: np.ndarray, scale: float, order: list[int]
) -> None:
    rows = summary({f"l{index}": tuple(pair) for index, pair in enumerate(times)}, {"l3": 50, "l4": 60})
    found = only(rows, imperceptible_ms=0)
    slower = only(rows.assign(median_s=rows.median_s * scale), imperceptible_ms=0)
    assert (slower.pick, slower.tied, slower.runner_up) == (found.pick, found.tied, found.runner_up)
    names = {f"l{index}": f"l{place}" for index, place in enumerate(order)}
    shuffled = rows.assign(layout=rows.layout.map(names)).sample(frac=1, random_state=1)
    renamed = only(shuffled, imperceptible_ms=0)
    assert renamed.pick == names[str(found.pick)]
    assert renamed.tied == tuple(names[name] for name in found.tied)


@settings(max_examples=40, deadline=None)
@given(TIMES)
def test_the_pick_is_within_the_tie_and_the_ranking_is_ordered(times: np.ndarray) -> None:
    rows = summary(
        {f"l{index}": tuple(pair) for index, pair in enumerate(times)}, {"l0": 200, "l3": 50}, sd=0.1
    )
    found = only(rows, size_bound_bytes=150)
    objectives = [entry.objective for entry in found.ranking]
    assert objectives == sorted(objectives)
    assert min(entry.objective for entry in found.ranking if entry.fits) >= 1 - 1e-9
    assert {found.pick, found.best} <= set(found.tied)
    assert "l0" not in (found.pick, found.runner_up, *found.tied)
    assert found.runner_up != found.pick
    for entry in found.ranking:
        if entry.low is not None and entry.high is not None and entry.to_best is not None:
            assert entry.low <= entry.to_best <= entry.high


# ---- Pareto front


def test_pareto_by_hand() -> None:
    points = pd.DataFrame(
        {"x": [1, 2, 3, 2, 1, np.nan, 0.5], "y": [3, 2, 1, 3, 3, 0, np.inf]}, index=list("abcdefg")
    )
    assert points.index[pareto(points, ["x", "y"])].tolist() == ["a", "b", "c", "e"]
    assert points.index[pareto(points, ["x"])].tolist() == ["g"]


@given(hnp.arrays(float, st.tuples(st.integers(1, 12), st.integers(1, 3)), elements=st.integers(0, 4)))
def test_pareto_is_what_nothing_dominates(values: np.ndarray) -> None:
    points = pd.DataFrame(values, columns=[f"c{index}" for index in range(values.shape[1])])
    front = pareto(points, list(points.columns))
    for position, point in enumerate(values):
        beaten = any((other <= point).all() and (other < point).any() for other in values)
        assert front[position] == (not beaten)
    assert front.any()
