"""Of many layouts only those get more rounds that may still decide; what is left out decides nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from claim_samples import GRID, judged, measured, resolved, results

from hyperslab.claims import judging
from hyperslab.claims.evidence import open_ones
from hyperslab.claims.open_comparisons import comparisons, open_cells, rounds_of
from hyperslab.results.comparisons import holm

ALL = "{m}x{m}x{n}"
FASTEST = {"kind": "fastest", "a": {"layouts": ALL, "where": {"m": [2, 4]}, "case": "slices"}, "below": 1}
COUNT = {"kind": "count", "counting": {"below": 1}, "a": {"layouts": ALL, "case": "slices"},
         "b": {"layouts": "contiguous"}, "at_least": 2}  # fmt: skip
MARKS = {"kind": "full_marks", "a": {"layouts": ALL}, "at_least": 2}
MATCHED = {"kind": "matched_marks", "a": {"layouts": ALL}, "at_least": 4}


def claims_of(directory: Path, comparison: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One claim of a study whose rounds are added."""
    (claim,) = resolved(directory, comparison)
    return [{**claim, "adaptive": {"first": 3, "most": 12}}]


def apart(case: str, layout: str, values: Mapping[str, int]) -> float:
    """1 and 2 are as fast as each other and as the contiguous layout, 4 and 8 far slower and far faster."""
    if case != "slices":
        return 0.01
    return {"1x1x10": 0.1, "2x2x10": 0.1, "contiguous": 0.1, "1x1x100": 0.001}.get(
        layout, {4: 30.0, 8: 90.0}.get(values.get("m", 0), 20.0)
    )


def table_of(rounds: int = 6, sd: float = 0.05) -> pd.DataFrame:
    return measured(apart, np.random.default_rng(3), rounds, sd)


@pytest.mark.parametrize(
    ("comparison", "left"),
    [
        # Nobody knows whether these two beat the contiguous layout, or meet 0.1 s; of all others it is plain.
        (COUNT, {"1x1x10", "2x2x10", "contiguous"}),
        (MARKS, {"1x1x10", "2x2x10"}),
    ],
)
def test_what_is_sure_gets_no_more_rounds(tmp_path: Path, comparison: dict[str, Any], left: set[str]) -> None:
    (verdict,) = judged(claims_of(tmp_path, comparison), table_of())
    (result,) = results(verdict)
    assert verdict["verdict"] == "cannot tell"
    assert {layout for _, layout, _ in result["undecided"]} == left


def test_of_what_could_be_each_comparison_is_one_of_as_many_tries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that holds is adjusted over all of them, and so is what is sure of its layouts."""
    asked: list[int] = []

    def noted(task: Any, found: Any, together: int) -> None:
        asked.append(together)

    monkeypatch.setattr(judging, "undecided", noted)
    (claim,) = resolved(tmp_path, COUNT, COUNT, COUNT, could=True)
    (verdict,) = judged([{**claim, "adaptive": {"first": 3, "most": 12}}], table_of())
    assert verdict["verdict"] == "cannot tell"
    assert asked == [3, 3, 3]


def test_of_two_sides_those_stay_that_may_be_the_fastest(tmp_path: Path) -> None:
    table = table_of()
    # The one that beats everything is not there.
    table = table.assign(time_s=table["time_s"].mask(table["layout"] == "1x1x100", 15.0))
    (verdict,) = judged(claims_of(tmp_path, FASTEST), table)
    (result,) = results(verdict)
    assert verdict["verdict"] == "cannot tell"
    assert result["undecided"] == [["a", "2x2x10", "slices"], ["b", "1x1x10", "slices"]]
    # Where nothing is known of any, each has to be measured.
    (verdict,) = judged(claims_of(tmp_path, FASTEST), table_of(3, 3.0))
    assert len({layout for _, layout, _ in results(verdict)[0]["undecided"]}) == len(GRID)


def test_ranked_layouts_need_those_that_lie_near(tmp_path: Path) -> None:
    seconds = {"1x1x10": 0.01, "2x2x10": 0.1, "4x4x10": 0.1, "8x8x10": 5.0}
    truth = lambda case, layout, values: seconds.get(layout, 50.0)  # noqa: E731
    table = measured(truth, np.random.default_rng(3), 8, 0.05)
    one = {**MATCHED, "a": {"layouts": ["1x1x10", "2x2x10", "8x8x10"]}, "at_least": 2}
    # Three are let through: which of them is plain, but for a target of two.
    (claim,) = claims_of(tmp_path, one)
    claim["comparisons"][0]["score"]["target"] = 2
    (verdict,) = judged([claim], table)
    (result,) = results(verdict)
    assert verdict["verdict"] == "cannot tell"
    assert {layout for _, layout, _ in result["undecided"]} == {"2x2x10", "4x4x10"}


def test_a_study_measures_what_is_undecided_and_says_on_how_many_rounds_it_rests(tmp_path: Path) -> None:
    claims, table = claims_of(tmp_path, COUNT), table_of()

    def open_at(rows: pd.DataFrame) -> list[Any]:
        return comparisons(claims, {"claims": [{"id": "000.1", "verdicts": judged(claims, rows)}]}, None)

    found = open_at(table)
    assert open_cells(found) == {"disk": [(name, "slices") for name in ("1x1x10", "2x2x10", "contiguous")]}
    # Further rounds of these alone decide it, and nothing that was left out is in the way.
    near = ["1x1x10", "2x2x10", "contiguous"]
    more = measured(
        lambda case, layout, values: apart(case, layout, values) * (0.9 if layout in near[:2] else 1.0),
        np.random.default_rng(4), 12, 0.05,
    )  # fmt: skip
    more = more[(more["round"] >= 6) & more["layout"].isin(near)]
    longer = pd.concat(
        [table.assign(time_s=np.where(table["layout"].isin(near[:2]), 0.9, 1) * table["time_s"]), more]
    )
    (verdict,) = judged(claims, longer)
    (result,) = results(verdict)
    assert (result["rounds"], result["most_rounds"]) == (6, 12)
    (one,) = open_at(longer)
    assert not one.open and rounds_of(one, {}) == 12


def test_holm_steps_are_those_of_the_count() -> None:
    """What stays out is counted as met or missed at the level, however the rest turns out."""
    rng = np.random.default_rng(1)
    counted = 0
    for _ in range(200):
        met = rng.uniform(size=12) ** 4
        missed = 1 - met
        open_ = open_ones(met, missed, 0.05)
        worse = np.where(open_, 1.0, met)
        sure = ~open_ & (met < 0.5)
        counted += int(sure.sum())
        assert ((holm(worse) <= 0.05)[sure]).all()
    assert counted > 200
    assert math.isclose(float(holm([0.01, 0.04])[1]), 0.04)
