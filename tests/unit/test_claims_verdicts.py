"""Which verdict follows from which estimates, where a claim is judged at all, and what is said if not."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from claim_samples import judged, measured, resolved, results
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab.claims.evaluate import evaluate
from hyperslab.claims.verdicts import VERDICTS, decided, either, overall

TABLE = measured(lambda case, layout, values: 2.0 if layout == "contiguous" else 1.0)
FASTER = {"a": {"layouts": "2x2x10", "case": "slices"}, "b": {"layouts": "contiguous"}, "below": 1}
SLOWER = {"a": {"layouts": "2x2x10", "case": "slices"}, "b": {"layouts": "contiguous"}, "above": 1}
# Nearer than rounds can tell.
SAME = {"a": {"layouts": "2x2x10", "case": "slices"}, "b": {"layouts": "4x4x10"}, "similar": 1,
        "margin": 1.0001}  # fmt: skip
NOT_LESS = {"a": {"layouts": "2x2x10", "case": "slices"}, "b": {"layouts": "4x4x10"}, "below": 1}
COUNT = {"a": {"layouts": "2x2x10", "case": "slices", "of": "chunks"}, "equals": 7}

p_values = st.floats(0, 1)


@given(p_values, p_values)
def test_one_comparison_is_decided_at_one_in_twenty(inside: float, outside: float) -> None:
    (verdict,) = decided([(inside, outside)], [False])
    assert verdict == ("holds" if inside <= 0.05 else "fails" if outside <= 0.05 else "cannot tell")


def test_holding_is_not_adjusted_and_failing_is() -> None:
    """All have to hold, so that more of them make it no easier; one is enough to fail, so that they do."""
    assert decided([(0.04, 1)] * 20, [False] * 20) == ["holds"] * 20
    assert decided([(1, 0.03)], [False]) == ["fails"]
    assert decided([(1, 0.03)] + [(0.01, 1)] * 19, [False] * 20)[0] == "cannot tell"
    assert decided([(1, 0.002)] + [(0.01, 1)] * 19, [False] * 20)[0] == "fails"
    # Holm's second step is larger than its first.
    assert decided([(1, 0.02), (1, 0.04)], [False] * 2) == ["fails", "fails"]
    # Counts have no chance in them, and cost the others nothing.
    assert decided([(1, 0.03)] + [(0, 1)] * 19, [False] + [True] * 19)[0] == "fails"


@given(st.lists(st.tuples(p_values, p_values), min_size=1, max_size=6))
def test_what_could_be_holds_if_one_does_and_fails_if_all_do(pairs: list[tuple[float, float]]) -> None:
    inside, outside = either(pairs)
    assert inside == pytest.approx(min(1, len(pairs) * min(pair[0] for pair in pairs)))
    assert outside == max(pair[1] for pair in pairs)


@given(st.lists(st.sampled_from(VERDICTS), min_size=1))
def test_a_claim_holds_only_if_all_hold_and_fails_if_any_fails(verdicts: list[Any]) -> None:
    found = overall(verdicts)
    assert (found == "holds") == (set(verdicts) == {"holds"})
    assert (found == "fails") == ("fails" in verdicts)
    assert (found == "cannot tell") == (set(verdicts) <= {"holds", "cannot tell"} and found != "holds")


def test_a_ratio_of_times_is_no_count(tmp_path: Path) -> None:
    """How many times as fast as the slowest client the fastest one was differs from round to round."""
    fairness = {"layouts": "2x2x10", "case": "slices", "of": "fairness"}
    claims = resolved(tmp_path, {"a": fairness, "at_most": 1.25})
    noisy = TABLE.assign(fairness=TABLE["round"].map({0: 1.62, 1: 3.88, 2: 6.88}))
    assert judged(claims, noisy)[0]["verdict"] == "cannot tell"
    assert judged(claims, TABLE.assign(fairness=3 + TABLE["round"] / 100))[0]["verdict"] == "fails"


def test_a_claim_is_the_sum_of_its_comparisons(tmp_path: Path) -> None:
    assert judged(resolved(tmp_path, FASTER, COUNT), TABLE)[0]["verdict"] == "holds"
    assert judged(resolved(tmp_path, FASTER, SLOWER), TABLE)[0]["verdict"] == "fails"
    assert judged(resolved(tmp_path, FASTER, SAME), TABLE)[0]["verdict"] == "cannot tell"
    # What is shown but not judged changes nothing.
    aside = {**SLOWER, "judged": False}
    assert judged(resolved(tmp_path, FASTER, aside), TABLE)[0]["verdict"] == "holds"


def test_limits_do_not_depend_on_the_number_of_comparisons(tmp_path: Path) -> None:
    limits = []
    for times in (1, 2, 20):
        (verdict,) = judged(resolved(tmp_path, *[FASTER] * times), TABLE)
        first = results(verdict)[0]
        limits.append((first["low"], first["high"]))
    assert len(set(limits)) == 1


def test_what_could_be_needs_one_that_holds(tmp_path: Path) -> None:
    assert judged(resolved(tmp_path, FASTER, SLOWER, could=True), TABLE)[0]["verdict"] == "holds"
    assert judged(resolved(tmp_path, SLOWER, SLOWER, could=True), TABLE)[0]["verdict"] == "fails"
    (verdict,) = judged(resolved(tmp_path, SLOWER, SAME, could=True), TABLE)
    assert verdict["verdict"] == "cannot tell"
    # Each comparison has its own verdict beside it.
    assert [result["verdict"] for result in results(verdict)] == ["fails", "cannot tell"]


def test_one_of_what_could_be_holds_where_it_carries_the_claim(tmp_path: Path) -> None:
    """Alone it would hold at one in twenty; beside three others that do not, it is one of four tries."""
    rng = np.random.default_rng(9)
    table = measured(lambda case, layout, values: 0.975 if layout == "2x2x10" else 1.0, rng, 5, 0.02)
    equal = {"a": {"layouts": "1x1x10", "case": "slices"}, "b": {"layouts": "8x8x10"}, "similar": 1}
    others = [{**equal, "margin": 1.001, "says": name} for name in "bcd"]
    (verdict,) = judged(resolved(tmp_path, NOT_LESS, *others, could=True), table)
    assert [verdict["verdict"], *(result["verdict"] for result in results(verdict))] == ["cannot tell"] * 5
    (alone,) = judged(resolved(tmp_path, NOT_LESS, could=True), table)
    (one,) = results(alone)
    assert 0.05 / 4 < one["p_outside"] <= 0.05 and one["verdict"] == "holds"
    # Where rounds may be added, so many looks share the level.
    looked = {**resolved(tmp_path, NOT_LESS, could=True)[0], "adaptive": {"first": 3, "most": 12}}
    (verdict,) = judged([looked], table)
    assert (verdict["alpha"], verdict["verdict"]) == (pytest.approx(0.05 / 4), "cannot tell")


def test_what_was_not_measured_hides_nothing_that_holds_of_what_could_be(tmp_path: Path) -> None:
    absent = {"a": {"layouts": "8x8x10", "case": "slices"}, "b": {"layouts": "contiguous"}, "below": 1}
    table = TABLE[TABLE["layout"] != "8x8x10"]
    (verdict,) = judged(resolved(tmp_path, FASTER, absent, could=True), table)
    assert verdict["verdict"] == "holds"
    assert "reason" not in verdict, "it would stand beside the verdict as if it were why"
    assert [result["verdict"] for result in results(verdict)] == ["holds", "not measured"]
    for other in (SLOWER, SAME):
        assert judged(resolved(tmp_path, other, absent, could=True), table)[0]["verdict"] == "not measured"
    # Where all have to hold, one that was not measured leaves the claim unmeasured.
    assert judged(resolved(tmp_path, FASTER, absent), table)[0]["verdict"] == "not measured"


def test_memory_is_no_device_whose_bytes_could_be_counted(tmp_path: Path) -> None:
    side = {"layouts": "2x2x10", "case": "slices"}
    asked = {"a": {**side, "of": "device_bytes"}, "at_least": 1}
    table = TABLE.assign(device_bytes=0.0, requested_bytes=8.0)
    memory = {"disk": {"type": "tmpfs", "memory_resident": True}}
    (verdict,) = judged(resolved(tmp_path, asked), table, **memory)
    assert verdict["verdict"] == "cannot be tested" and "lies in memory" in verdict["reason"]
    assert judged(resolved(tmp_path, asked), table)[0]["verdict"] == "fails"
    # What the kernel was asked for is the same wherever it lies.
    requested = {**asked, "a": {**side, "of": "requested_bytes"}}
    assert judged(resolved(tmp_path, requested), table, **memory)[0]["verdict"] == "holds"


def test_there_is_no_slope_over_what_is_nothing(tmp_path: Path) -> None:
    claim = {"kind": "slope", "over": "m", "a": {"layouts": "{m}x{m}x10", "case": "slices"}, "below": 1}
    claims = resolved(tmp_path, claim)
    cells = claims[0]["comparisons"][0]["instances"][0]["a"]
    cells[0]["values"]["m"] = 0
    (verdict,) = judged(claims, TABLE)
    assert (verdict["verdict"], verdict["reason"]) == (
        "cannot be tested", "no slope over m, which is not above 0 everywhere",
    )  # fmt: skip


def test_equals_fail_what_says_that_one_is_less_and_it_is_said_by_how_little(tmp_path: Path) -> None:
    (verdict,) = judged(resolved(tmp_path, NOT_LESS), TABLE)
    (result,) = results(verdict)
    assert (verdict["verdict"], result["margin"]) == ("fails", "no more than 5 % either way")
    (verdict,) = judged(resolved(tmp_path, SLOWER), TABLE)
    assert "margin" not in results(verdict)[0], "it is half as long"
    # Sure not to be less by 5 %, but not how much more.
    rng = np.random.default_rng(7)
    more = measured(lambda case, layout, values: 1.05 if layout == "2x2x10" else 1.0, rng, 8, 0.06)
    (verdict,) = judged(resolved(tmp_path, NOT_LESS), more)
    (result,) = results(verdict)
    assert (verdict["verdict"], result["margin"]) == ("fails", "not 5 % less")
    assert result["low"] < 1 < 1.05 < result["high"]


def test_a_count_is_less_or_it_is_not(tmp_path: Path) -> None:
    """No chance is in it, so that a difference of a thousandth is one."""
    table = TABLE.assign(chunks=np.where(TABLE["layout"] == "2x2x10", 999.0, 1000.0))
    fewer = {
        "a": {"layouts": "2x2x10", "case": "slices", "of": "chunks"},
        "b": {"layouts": "4x4x10"},
        "below": 1,
    }
    assert judged(resolved(tmp_path, fewer), table)[0]["verdict"] == "holds"


def test_a_count_beside_a_claim_about_times_does_not_fail_it(tmp_path: Path) -> None:
    wrong = {**COUNT, "equals": 8}
    assert judged(resolved(tmp_path, FASTER, wrong), TABLE)[0]["verdict"] == "fails"
    mechanism = {**wrong, "judged": False, "why": "the mechanism"}
    (verdict,) = judged(resolved(tmp_path, FASTER, mechanism), TABLE)
    assert verdict["verdict"] == "holds"
    assert [result["verdict"] for result in results(verdict)] == ["holds", "fails"]


def test_the_rounds_that_would_tell_are_said(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    noisy = measured(lambda case, layout, values: 1.1 if layout == "contiguous" else 1.0, rng, sd=0.08)
    (verdict,) = judged(resolved(tmp_path, FASTER), noisy)
    (result,) = results(verdict)
    assert verdict["verdict"] == "cannot tell"
    assert 3 < verdict["would_tell"]["rounds"] < 100
    assert (result["rounds"], 0.01 < result["deviation"] < 0.5) == (3, True)
    half = TABLE.assign(time_s=np.where(TABLE["layout"] == "contiguous", 2.0, 1.0))
    (verdict,) = judged(resolved(tmp_path, {**FASTER, "below": 0.5}), half)
    assert verdict["would_tell"] == {"rounds": None, "why": "an estimate lies at its bound"}
    (verdict,) = judged(resolved(tmp_path, FASTER), TABLE)
    assert "would_tell" not in verdict


def test_a_verdict_names_the_data_it_rests_on(tmp_path: Path) -> None:
    (verdict,) = judged(resolved(tmp_path, FASTER), TABLE, disk={"data": "real values of x.h5"})
    assert verdict["data"] == ["real values of x.h5"]


def test_under_three_rounds_nothing_can_be_told(tmp_path: Path) -> None:
    (verdict,) = judged(resolved(tmp_path, FASTER), TABLE[TABLE["round"] < 2])
    assert verdict["verdict"] == "cannot tell"
    assert verdict["reason"] == "fewer than three rounds, so there is no interval"
    assert results(verdict)[0]["text"] == "0.500 (no interval)"


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (TABLE["layout"] == "2x2x10", "no valid results of layout 2x2x10 in case slices at disk"),
        (TABLE["case"] == "slices", "no valid results of case slices at disk"),
        (TABLE["state"] == "session", "case slices was not measured in state session at disk"),
    ],
)
def test_missing_data_is_said(tmp_path: Path, rows: pd.Series, reason: str) -> None:
    (verdict,) = judged(resolved(tmp_path, FASTER), TABLE[~rows])
    assert (verdict["verdict"], verdict["reason"]) == ("not measured", reason)


def test_a_column_that_was_not_recorded_is_missing_data(tmp_path: Path) -> None:
    comparison = {"a": {"layouts": "2x2x10", "case": "slices", "of": "speed_bytes"}, "above": 1}
    with pytest.raises(Exception, match="unknown 'speed_bytes'"):
        resolved(tmp_path, comparison)
    asked = {"a": {"layouts": "2x2x10", "case": "slices", "of": "index_bytes"}, "above": 1}
    (verdict,) = judged(resolved(tmp_path, asked), TABLE.assign(index_bytes=math.nan))
    assert verdict["reason"] == "chunk index of case slices was not recorded at disk"
    assert verdict["verdict"] == "cannot be tested"


def test_stale_and_confirming_rows_are_left_out(tmp_path: Path) -> None:
    claims = resolved(tmp_path, FASTER)
    wrong = TABLE.assign(time_s=TABLE["time_s"].where(TABLE["layout"] != "2x2x10", 50.0))
    for marked in (wrong.assign(stale=True), wrong.assign(phase="confirm")):
        (verdict,) = judged(claims, pd.concat([TABLE, marked], ignore_index=True))
        assert verdict["verdict"] == "holds"
    (verdict,) = judged(claims, TABLE.assign(stale=True))
    assert "stale" in verdict["reason"]
    # Where others are not, nothing says of what kind the site was.
    both = pd.concat([TABLE, TABLE.assign(site="slow", stale=True)], ignore_index=True)
    found = judged(resolved(tmp_path, FASTER, at={"throttled": True}), both, disk={})
    assert found[0]["reason"] == "needs a site throttled" and "stale" in found[1]["reason"]
    (verdict,) = judged(claims, TABLE.iloc[:0])
    assert verdict["reason"] == "there are no results of this study here"


def test_memory_is_no_place_for_times_unless_the_claim_says_so(tmp_path: Path) -> None:
    tmpfs = {"type": "tmpfs", "memory_resident": True}
    cold = {**FASTER, "a": {**FASTER["a"], "state": "cold"}}  # type: ignore[dict-item]
    table = TABLE.assign(state=TABLE["state"].replace("cold", "library-cold"))
    (verdict,) = judged(resolved(tmp_path, cold), table, disk=tmpfs)
    assert verdict["verdict"] == "cannot be tested"
    (verdict,) = judged(resolved(tmp_path, cold, at={"in_memory": True}), table, disk=tmpfs)
    assert verdict["verdict"] == "holds"
    (verdict,) = judged(resolved(tmp_path, COUNT), table, disk=tmpfs)
    assert verdict["verdict"] == "holds"


def test_each_site_is_judged_by_itself(tmp_path: Path) -> None:
    table = pd.concat([TABLE, TABLE.assign(site="scratch", time_s=1 / TABLE["time_s"])], ignore_index=True)
    found = judged(resolved(tmp_path, FASTER), table, disk={}, scratch={"type": "lustre"})
    assert [(one["sites"], one["verdict"]) for one in found] == [(["disk"], "holds"), (["scratch"], "fails")]
    lustre = resolved(tmp_path, FASTER, at={"file_system": ["lustre"]})
    found = judged(lustre, table, disk={}, scratch={"type": "lustre"})
    assert [one["verdict"] for one in found] == ["cannot be tested", "fails"]
    assert found[0]["reason"] == "needs a site on lustre"
    named = resolved(tmp_path, FASTER, at={"sites": ["port*"]})
    assert judged(named, table)[0]["reason"] == "needs a site called port*"
    throttled = resolved(tmp_path, FASTER, at={"throttled": True})
    found = judged(throttled, table, disk={}, scratch={"throttle": {"io.max": "8:0 rbps=1"}})
    assert [one["verdict"] for one in found] == ["cannot be tested", "fails"]


def test_nothing_is_claimed_of_more_cores_than_there_are(tmp_path: Path) -> None:
    claims = resolved(tmp_path, FASTER, at={"cores": 4})
    few, many = TABLE.assign(physical_cores=2.0), TABLE.assign(physical_cores=4.0)
    assert judged(claims, few)[0]["reason"] == "needs a site with 4 physical cores"
    assert judged(claims, many)[0]["verdict"] == "holds"
    assert judged(claims, TABLE)[0]["verdict"] == "cannot be tested"


def test_sites_are_compared_where_there_are_both(tmp_path: Path) -> None:
    across = {"a": {"file_system": ["lustre"]}, "b": {"file_system": ["gpfs"], "words": "GPFS"}}
    same = {"a": {"layouts": "2x2x10", "case": "slices"}, "b": {}, "below": 1}
    claims = resolved(tmp_path, same, across=across)
    table = pd.concat([TABLE.assign(site="s"), TABLE.assign(site="p", time_s=3 * TABLE["time_s"])])
    (verdict,) = judged(claims, table, s={"type": "lustre"}, p={"type": "gpfs"})
    assert (verdict["sites"], verdict["verdict"]) == (["s", "p"], "holds")
    assert results(verdict)[0]["value"] == pytest.approx(1 / 3)
    (verdict,) = judged(claims, table, s={"type": "lustre"}, p={"type": "ext4"})
    assert (verdict["verdict"], verdict["reason"]) == ("cannot be tested", "needs GPFS")


@cache
def as_it_stands() -> Any:
    """The verdict on CLAIMS."""
    return evaluate("mine", CLAIMS, TABLE, {})["claims"][0]["verdicts"][0]


# Each asks four kinds of a claim: some scales and orders find what depends on them.
@settings(max_examples=30)
@given(st.floats(1e-3, 1e3), st.randoms())
def test_neither_units_nor_the_order_of_rows_matter(scale: float, random: Any) -> None:
    shuffled = TABLE.sample(frac=1, random_state=random.randrange(2**31))
    found = evaluate("mine", CLAIMS, shuffled.assign(time_s=shuffled["time_s"] * scale), {})
    (verdict,) = found["claims"][0]["verdicts"]
    for one, other in zip(results(verdict), results(as_it_stands()), strict=True):
        assert one["verdict"] == other["verdict"]
        assert (one["low"], one["high"]) == pytest.approx((other["low"], other["high"]))


@pytest.fixture(autouse=True, scope="module")
def _claims(tmp_path_factory: pytest.TempPathFactory) -> None:
    everything = "{m}x{m}x{n}"
    CLAIMS.extend(
        resolved(
            tmp_path_factory.mktemp("claims"),
            FASTER,
            {"kind": "slope", "over": "m", "a": {"layouts": everything, "case": "slices"}, "above": 0},
            {"kind": "fastest", "a": {"layouts": everything, "where": {"m": [2]}, "case": "slices"},
             "below": 1},
            {"kind": "count", "counting": {"below": 1}, "a": {"layouts": everything, "case": "slices"},
             "b": {"layouts": "contiguous"}, "equals": 8},
        )
    )  # fmt: skip


CLAIMS: list[dict[str, Any]] = []
