"""Each kind of comparison finds the number that was put in, and the verdict that follows from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from claim_samples import GRID, judged, measured, resolved, results

from hyperslab.results.statistics import summarise

ALL = "{m}x{m}x{n}"


def truth(case: str, layout: str, values: Mapping[str, int]) -> float:
    """Slices: 2 / m at n = 10, 4 / m at n = 100; spectra 1 s; a spectrum m s, a chunk 16 / m^2 s."""
    if layout == "contiguous":
        return 0.5
    if case == "slices":
        return 2.0 * (2 if values["n"] == 100 else 1) / values["m"]
    seconds: dict[str, float] = {
        "spectra": 1.0,
        "spectrum": float(values["m"]),
        "chunk": 16 / values["m"] ** 2,
    }
    return seconds[case]


TABLE = measured(truth)

CASES: list[tuple[dict[str, Any], float]] = [
    ({"a": {"layouts": "2x2x10", "case": "slices"}, "below": 2}, 1.0),
    ({"a": {"layouts": ["2x2x10", "8x8x10"], "case": "slices"}, "below": 2}, 0.5),
    ({"a": {"layouts": "2x2x10", "case": "slices"}, "b": {"layouts": "contiguous"}, "above": 1}, 2.0),
    ({"a": {"layouts": "2x2x10", "case": "slices", "state": "cold"}, "b": {"case": "spectra"},
      "similar": 1}, 1.0),
    ({"a": {"layouts": "2x2x10", "case": "spectrum", "of": "write_calls"}, "below": 2}, 1.0),
    ({"a": {"layouts": "2x2x{n}", "case": "slices", "per": {"layouts": "contiguous"}},
      "b": {"layouts": "4x4x{n}", "per": {"layouts": "contiguous"}}, "above": 1}, 2.0),
    ({"kind": "fastest", "a": {"layouts": ALL, "where": {"m": [8]}, "case": "slices"}, "below": 1}, 0.5),
    ({"kind": "fastest", "a": {"layouts": "contiguous", "case": "*"},
      "b": {"layouts": ALL, "case": "chunk"}, "above": 1}, 2.0),
    ({"kind": "slope", "over": "m", "a": {"layouts": ALL, "case": "slices"}, "below": 0}, -1.0),
    ({"kind": "slope", "over": "n", "a": {"layouts": ALL, "case": "slices"}, "above": 0}, math.log10(2)),
    ({"kind": "slope", "over": "m", "a": {"layouts": "{m}x{m}x10", "case": "spectrum"}, "above": 0.9}, 1.0),
    ({"kind": "count", "counting": {"above": 1.5}, "a": {"layouts": ALL, "case": "slices"},
      "at_least": 3}, 3.0),
    ({"kind": "count", "counting": {"below": 0.9}, "a": {"layouts": ALL, "case": "slices"},
      "b": {"case": "spectra"}, "equals": 3}, 3.0),
    ({"kind": "crossover", "over": "m", "a": {"layouts": "{m}x{m}x10", "case": "chunk"},
      "b": {"case": "spectrum"}, "at_most": 4}, 4.0),
    ({"kind": "optimum", "over": "m", "a": {"layouts": "{m}x{m}x10", "case": "slices"}, "at_least": 5}, 8.0),
    ({"a": {"layouts": "2x2x10", "case": "slices", "of": "chunks"}, "equals": 7}, 7.0),
]  # fmt: skip


@pytest.mark.parametrize(("comparison", "value"), CASES)
def test_what_was_put_in_comes_out(tmp_path: Path, comparison: dict[str, Any], value: float) -> None:
    (verdict,) = judged(resolved(tmp_path, comparison), TABLE)
    (result,) = results(verdict)
    assert result["value"] == pytest.approx(value, rel=1e-3)
    assert result["low"] <= result["value"] <= result["high"]
    assert verdict["verdict"] == "holds"


OPPOSITE = {"below": "above", "above": "below", "at_least": "below", "at_most": "above"}


@pytest.mark.parametrize(("comparison", "value"), [case for case in CASES if set(OPPOSITE) & set(case[0])])
def test_the_opposite_fails(tmp_path: Path, comparison: dict[str, Any], value: float) -> None:
    turned = {OPPOSITE.get(key, key): entry for key, entry in comparison.items()}
    assert judged(resolved(tmp_path, turned), TABLE)[0]["verdict"] == "fails"


def test_a_larger_set_is_its_geometric_mean_and_a_level_has_the_error_of_its_rounds(tmp_path: Path) -> None:
    """Three rounds at 1, 2 and 4 s: a time by itself is 2 s and anything but certain, a ratio is certain."""
    table = measured(lambda case, layout, values: 1.0)
    table["time_s"] *= 2.0 ** table["round"]
    alone = {"a": {"layouts": "2x2x10", "case": "slices"}, "above": 0.9}
    against = {**alone, "b": {"layouts": "contiguous"}}
    (verdict,) = judged(resolved(tmp_path, alone, against), table)
    level, ratio = results(verdict)
    assert (level["value"], ratio["value"]) == (pytest.approx(2, rel=1e-3), pytest.approx(1, rel=1e-3))
    assert (level["verdict"], ratio["verdict"]) == ("cannot tell", "holds")
    assert level["high"] / level["low"] > 10


def test_first_access_maximum_and_median_are_of_each_round(tmp_path: Path) -> None:
    table = measured(lambda case, layout, values: 1.0, repeats=5)
    comparisons = [
        {"a": {"layouts": "2x2x10", "case": "slices", "of": of}, "above": 0.5}
        for of in ("first_access", "median", "max")
    ]
    found = results(judged(resolved(tmp_path, *comparisons), table)[0])
    # The first access is that of cold repeats, of which each begins with opening the file.
    assert [result["value"] for result in found] == [pytest.approx(one, rel=1e-3) for one in (4.2, 1.2, 1.4)]


def test_requests_of_an_answer_are_those_of_opening_too(tmp_path: Path) -> None:
    table = measured(lambda case, layout, values: 1.0, open_requests=3.0, wire_requests=4.0)
    asked = {"a": {"layouts": "2x2x10", "case": "slices", "of": "answer_requests"}, "at_most": 7}
    (verdict,) = judged(resolved(tmp_path, asked), table)
    (found,) = results(verdict)
    assert (found["value"], found["text"], verdict["verdict"]) == (pytest.approx(7), "7", "holds")


def test_what_a_limit_holds_back_is_judged_by_means(tmp_path: Path) -> None:
    """As in reports and scores: a median is the time of a burst."""
    table = measured(lambda case, layout, values: 1.0, repeats=5)
    comparisons = [
        {"a": {"layouts": "2x2x10", "case": case, **state}, "above": 0.5}
        for case, state in (("slices", {"state": "cold"}), ("slices", {"state": "session"}), ("chunk", {}))
    ]
    late = table["repeat"] == 4
    table["time_s"] = table["time_s"].where(~late, 50.0)
    claims = resolved(tmp_path, *comparisons)
    free, held = (judged(claims, table.assign(throttled_s=seconds))[0] for seconds in (0.0, 0.01))
    median, session, written = [result["value"] for result in results(free)]
    assert (median, written) == (pytest.approx(1.2, rel=1e-3), pytest.approx(1.2, rel=1e-3))
    mean = pytest.approx((1.0 + 1.1 + 1.2 + 1.3 + 50) / 5, rel=1e-3)
    assert [result["value"] for result in results(held)] == [mean, session, mean]


def test_a_mean_that_pauses_made_smaller_gives_way_to_the_limit_as_in_reports(tmp_path: Path) -> None:
    # Repeats of 1.0 to 1.4 s, opened in 3 s, of which the limit alone takes 2 s each.
    table = measured(lambda case, layout, values: 1.0, repeats=5, throttled_s=2.0)
    cold = {"layouts": "2x2x10", "case": "slices", "state": "cold"}
    written = {"layouts": "2x2x10", "case": "chunk"}
    sides = [{**cold, "of": of} for of in ("median", "first_access", "mean")]
    sides += [{**written, "of": of} for of in ("durable", "write_calls")]
    (verdict,) = judged(resolved(tmp_path, *({"a": side, "above": 0.1} for side in sides)), table)
    found = [result["value"] for result in results(verdict)]
    # What is asked for as a mean is one, and no limit is known of the calls alone.
    assert found == pytest.approx([2.0, 5.0, 1.2, 2.0, 0.5], rel=1e-3)
    reported = summarise(table).set_index(["layout", "case", "state"]).loc[("2x2x10", "slices", "cold")]
    assert found[:2] == pytest.approx([reported["typical_s"].mean(), reported["request_s"].mean()])


def test_a_first_access_needs_cold_repeats(tmp_path: Path) -> None:
    claims = resolved(
        tmp_path, {"a": {"layouts": "2x2x10", "case": "slices", "of": "first_access"}, "above": 1}
    )
    table = measured(lambda case, layout, values: 1.0)
    (verdict,) = judged(claims, table[table["state"] != "cold"])
    assert verdict["verdict"] == "not measured"
    assert "was not measured in state cold" in verdict["comparisons"][0]["results"][0]["reason"]
    # In memory nothing is evicted, but files are opened: the library's own first access.
    there = table.assign(state=table["state"].replace("cold", "library-cold"))
    assert judged(claims, there)[0]["verdict"] == "holds"


def test_counts_hold_exactly_or_show_their_range(tmp_path: Path) -> None:
    table = measured(lambda case, layout, values: 1.0)
    table.loc[table["layout"] == "4x4x10", "chunks"] += table["round"]
    exact = {"a": {"layouts": "2x2x10", "case": "slices", "of": "chunks"}, "at_least": 7, "at_most": 7}
    ranges = {"a": {"layouts": "4x4x10", "case": "slices", "of": "chunks"}, "at_most": 8}
    nothing = {"a": {"layouts": "2x2x10", "case": "slices", "of": "padding_bytes"}, "equals": 0}
    (verdict,) = judged(resolved(tmp_path, exact, ranges, nothing), table)
    assert [result["verdict"] for result in results(verdict)] == ["holds", "cannot tell", "holds"]
    assert [(found["low"], found["high"]) for found in results(verdict)][1] == pytest.approx((7, 9))
    assert results(verdict)[0]["text"] == "7"
    # One round is enough for what is counted.
    assert judged(resolved(tmp_path, exact), table[table["round"] == 0])[0]["verdict"] == "holds"


def test_a_share_of_nothing_cannot_be_tested(tmp_path: Path) -> None:
    padding = {"layouts": "2x2x10", "case": "slices", "of": "padding_bytes"}
    nothing = {"a": padding, "b": {"layouts": "4x4x10"}, "above": 1}
    endless = {"a": {**padding, "of": "chunks"}, "b": padding, "above": 1}
    (verdict,) = judged(resolved(tmp_path, nothing, endless), TABLE)
    assert [result["verdict"] for result in results(verdict)] == ["cannot be tested", "holds"]
    assert results(verdict)[1]["text"] == "infinite"


def test_marks_are_those_of_the_score(tmp_path: Path) -> None:
    """Bounds are 0.1 s; files have 500 bytes, of the 1000 allowed, but for one layout."""
    seconds = {"1x1x10": 0.01, "2x2x10": 0.05, "4x4x10": 0.09, "8x8x10": 0.2}
    table = measured(lambda case, layout, values: seconds.get(layout, 1.0))
    table.loc[table["layout"] == "1x1x10", "file_bytes"] = 2000
    absolute = {"kind": "full_marks", "a": {"layouts": "{m}x{m}x{n}"}, "equals": 2}
    # Without the large file the first three are 2, 4 and 8.
    matched = {"kind": "matched_marks", "a": {"layouts": ["1x1x10", "4x4x10", "8x8x10"]}, "equals": 2}
    (verdict,) = judged(resolved(tmp_path, absolute, matched), table)
    assert [(result["value"], result["verdict"]) for result in results(verdict)] == [
        (2, "holds"),
        (2, "holds"),
    ]


def test_marks_that_rounds_cannot_tell(tmp_path: Path) -> None:
    """Four layouts are the same: which of them are the first three nobody knows."""
    table = measured(lambda case, layout, values: 0.05 if "x10" in layout and "x100" not in layout else 1.0)
    matched = {"kind": "matched_marks", "a": {"layouts": ["1x1x10", "2x2x10", "4x4x10"]}, "equals": 3}
    (verdict,) = judged(resolved(tmp_path, matched), table)
    (result,) = results(verdict)
    assert (result["low"], result["high"], verdict["verdict"]) == (0, 3, "cannot tell")


def test_what_never_crosses_over_fails(tmp_path: Path) -> None:
    crossing = {"kind": "crossover", "over": "m", "a": {"layouts": "{m}x{m}x10", "case": "spectra"},
                "b": {"layouts": "contiguous"}, "at_most": 8}  # fmt: skip
    (verdict,) = judged(resolved(tmp_path, crossing), TABLE)
    (result,) = results(verdict)
    assert (verdict["verdict"], result["value"], result["text"]) == ("fails", None, "never here")


def test_every_kind_is_tried() -> None:
    from hyperslab.claims.kinds import KINDS
    from hyperslab.studies.claims.resolve import NEEDS

    assert set(KINDS) == set(NEEDS)
    tried = {comparison.get("kind", "ratio" if "b" in comparison else "value") for comparison, _ in CASES}
    assert tried | {"full_marks", "matched_marks"} == set(KINDS)
    assert len(GRID) == 8


@pytest.mark.parametrize("kind", ["ratio", "fastest", "count", "crossover", "optimum", "slope"])
def test_layouts_without_a_round_in_common_are_not_compared(tmp_path: Path, kind: str) -> None:
    """Of one layout the first round is there alone, of the others all but that."""
    one, others = {"layouts": "2x2x10", "case": "slices"}, {"layouts": ALL, "case": "slices"}
    tens: dict[str, Any] = {"layouts": "{m}x{m}x10", "case": "slices"}
    asked: dict[str, dict[str, Any]] = {
        "ratio": {"a": one, "b": {"layouts": "contiguous"}, "below": 1},
        "fastest": {"kind": kind, "a": {**others, "where": {"m": [2]}}, "below": 1},
        "count": {"kind": kind, "counting": {"below": 1}, "a": tens, "b": {"layouts": "contiguous"},
                  "at_least": 1},
        "crossover": {"kind": kind, "over": "m", "a": tens, "b": {"case": "spectra"}, "at_most": 4},
        "optimum": {"kind": kind, "over": "m", "a": tens, "below": 3},
        "slope": {"kind": kind, "over": "m", "a": others, "below": 0},
    }  # fmt: skip
    apart = TABLE["case"].ne("slices") | ((TABLE["layout"] == "2x2x10") == (TABLE["round"] == 0))
    if kind == "crossover":
        apart = TABLE["case"].eq("slices") == (TABLE["round"] == 0)
    (verdict,) = judged(resolved(tmp_path, asked[kind]), TABLE[apart])
    assert verdict["verdict"] == "cannot be tested"
    assert verdict["reason"] == "no round has all that is compared"


def test_equal_counts_have_no_least_one(tmp_path: Path) -> None:
    asked = {"kind": "optimum", "over": "m", "a": {"layouts": "{m}x{m}x10", "case": "slices", "of": "chunks"}}
    (verdict,) = judged(resolved(tmp_path, {**asked, "below": 3}), TABLE)
    (result,) = results(verdict)
    assert (verdict["verdict"], result["low"], result["high"]) == ("cannot tell", 1.0, 8.0)


@pytest.mark.parametrize(
    ("ratio", "number", "said"), [(1, 8, "holds"), (2.1, 6, "holds"), (1, 6, "fails"), (2, 6, "cannot tell")]
)
def test_what_could_be_may_be_a_time_or_a_count(tmp_path: Path, ratio: float, number: int, said: str) -> None:
    slices = {"layouts": "2x2x10", "case": "slices"}
    time = {"a": slices, "b": {"layouts": "contiguous"}, "below": ratio}
    count = {"a": {**slices, "of": "chunks"}, "below": number}
    for both in ([time, count], [count, time]):
        (verdict,) = judged(resolved(tmp_path, *both, could=True), TABLE)
        assert verdict["verdict"] == said
        assert ("would_tell" in verdict) == (said == "cannot tell")


@pytest.mark.parametrize(("counting", "said"), [({"below": 0.001}, "fails"), ({"below": 100}, "holds")])
def test_more_than_none_is_one(tmp_path: Path, counting: dict[str, Any], said: str) -> None:
    some = {"kind": "count", "counting": counting, "a": {"layouts": ALL, "case": "slices"}, "above": 0}
    assert judged(resolved(tmp_path, some), TABLE)[0]["verdict"] == said
