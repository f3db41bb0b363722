"""Adaptive rounds: what a study may say of them, which comparisons are open, and which cells they need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from studies import changed, load, mistake

from hyperslab.claims.open_comparisons import (
    Comparison,
    comparisons,
    open_cells,
    rounds_by_cell,
    rounds_of,
)
from hyperslab.results.measurements import without_leftovers
from hyperslab.studies.claims.compared import candidates

# ---- what a study may say

ADAPTIVE = {"first": 3, "most": 12}
SIDE = {"case": "slices", "state": "cold"}
CLAIM = {
    "sentence": "S.", "source": "D", "section": "T", "testability": "V",
    "comparisons": [
        {"says": "{m}: twice as fast", "a": {**SIDE, "layouts": "{m}by10"}, "b": {"layouts": "auto"},
         "below": 0.5, "for_all": {"m": [1, 2]}},
        {"says": "chunks", "a": {**SIDE, "layouts": "4x4x64", "of": "chunks"}, "equals": 16},
    ],
}  # fmt: skip


def test_rounds_are_a_number_or_as_many_as_decide(tmp_path: Path) -> None:
    plain = load(tmp_path, changed("rounds", 4)).study
    assert (plain.first_rounds, plain.most_rounds, plain.adaptive) == (4, 4, False)
    more = load(tmp_path, changed("rounds", ADAPTIVE)).study
    assert (more.first_rounds, more.most_rounds, more.adaptive) == (3, 12, True)


def test_no_cell_specifies_how_many_rounds_there_may_be(tmp_path: Path) -> None:
    plain = load(tmp_path, changed("rounds", 12)).hashes("main")
    assert load(tmp_path, changed("rounds", ADAPTIVE)).hashes("main") == plain


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"first": 3}, "rounds.most: this key is required"),
        ({"first": 2, "most": 5}, "rounds.first: should be greater than or equal to 3, not 2"),
        ({"first": 5, "most": 5}, "rounds: most should be more than first, not 5 beside 5"),
        ({"most": 5, "step": 2}, "rounds.step: unknown key; allowed are first, most"),
        ({"most": 5000}, "rounds.most: should be less than or equal to 1000, not 5000"),
        ([3, 12], "rounds: should be a valid integer"),
        ("many", "rounds: should be a valid integer, not 'many'"),
    ],
)
def test_a_mistake_in_rounds_is_one_of_the_form_that_is_given(tmp_path: Path, given: Any, said: str) -> None:
    assert mistake(tmp_path, changed("rounds", given)).startswith(said)


def test_rounds_are_not_added_for_nothing(tmp_path: Path) -> None:
    content = changed("rounds", ADAPTIVE)
    content["recommendation"] = {"confirm_rounds": 0}
    assert "there is nothing to decide" in mistake(tmp_path, content)
    assert load(tmp_path, {**content, "claims": {"1.1": CLAIM}}).study.adaptive


# ---- what is open


def judged(
    *verdicts: str, overall: str = "cannot tell", sites: tuple[str, ...] = ("disk",)
) -> dict[str, Any]:
    """The content of claims.json for CLAIM, with the verdicts on its two timed comparisons."""
    results = [{"verdict": verdict} for verdict in verdicts]
    told = [{"results": results}, {"results": [{"verdict": "cannot tell"}]}]
    verdict = {"sites": list(sites), "verdict": overall, "comparisons": told}
    return {"claims": [{"id": "1.1", "verdicts": [verdict]}]}


@pytest.fixture
def claims(tmp_path: Path) -> list[dict[str, Any]]:
    return load(tmp_path, {**changed("rounds", ADAPTIVE), "claims": {"1.1": CLAIM}}).claims


def test_a_claim_of_a_study_of_adaptive_rounds_knows_how_often_it_is_looked_at(
    tmp_path: Path, claims: list[dict[str, Any]]
) -> None:
    assert claims[0]["adaptive"] == ADAPTIVE
    (plain,) = load(tmp_path, {**changed("rounds", 3), "claims": {"1.1": CLAIM}}).claims
    assert not plain.get("adaptive")


def test_what_a_claim_leaves_open_needs_both_sides_and_no_count(claims: list[dict[str, Any]]) -> None:
    found = comparisons(claims, judged("holds", "cannot tell"), None)
    assert [(one.says, one.open) for one in found] == [
        ("1.1: 1: twice as fast", False),
        ("1.1: 2: twice as fast", True),
    ]
    # The reference of both is measured once.
    assert open_cells(found) == {"disk": [("2by10", "slices"), ("auto", "slices")]}
    both = comparisons(claims, judged("cannot tell", "cannot tell"), None)
    assert open_cells(both)["disk"] == [("1by10", "slices"), ("2by10", "slices"), ("auto", "slices")]


def test_a_claim_that_is_decided_leaves_nothing_open(claims: list[dict[str, Any]]) -> None:
    found = comparisons(claims, judged("fails", "cannot tell", overall="fails"), None)
    assert len(found) == 2
    assert open_cells(found) == {}
    for nothing in ("cannot be tested", "not measured"):
        assert comparisons(claims, judged("cannot tell", "cannot tell", overall=nothing), None) == []


def test_a_claim_across_sites_needs_cells_at_both(claims: list[dict[str, Any]]) -> None:
    found = comparisons(claims, judged("cannot tell", "holds", sites=("disk", "memory")), None)
    assert open_cells(found) == {"disk": [("1by10", "slices")], "memory": [("auto", "slices")]}


def ranked(
    layout: str, low: float | None, high: float | None, tied: bool, fits: bool = True, to_best: float = 1.1
) -> dict[str, Any]:
    return {"layout": layout, "low": low, "high": high, "tied": tied, "fits": fits, "to_best": to_best}


def test_a_pick_is_open_against_what_cannot_be_told_from_it_and_is_not_as_fast() -> None:
    site = {
        "site": "disk", "best": "a", "shares": {"slices cold": 0.5, "spectra cold": 0.5},
        "ranking": [
            ranked("a", None, None, tied=True),
            ranked("near", 0.9, 1.3, tied=True),
            ranked("as-fast", 0.97, 1.04, tied=True),
            # All of both below what anybody notices.
            ranked("equal", None, None, tied=True, to_best=1.0),
            ranked("slower", 1.2, 1.5, tied=False),
            ranked("large", None, None, tied=False, fits=False),
        ],
    }  # fmt: skip
    found = comparisons([], {"claims": []}, {"sites": [site]})
    assert {one.says: one.open for one in found} == {
        "a against near": True, "a against as-fast": False, "a against equal": False,
        "a against slower": False,
    }  # fmt: skip
    cells = [("a", "slices"), ("a", "spectra"), ("near", "slices"), ("near", "spectra")]
    assert open_cells(found) == {"disk": cells}
    nothing = {**site, "best": None, "ranking": []}
    assert comparisons([], {"claims": []}, {"sites": [nothing]}) == []


def test_a_comparison_has_the_rounds_that_all_its_cells_have() -> None:
    import pandas as pd

    rows = [("disk", "a", "slices", number) for number in range(5)]
    rows += [("disk", "b", "slices", number) for number in (0, 1, 2, 4)]
    table = pd.DataFrame(rows * 2, columns=["site", "layout", "case", "round"])
    both = Comparison("a against b", (("disk", "a", "slices"), ("disk", "b", "slices")), True)
    assert rounds_of(both, rounds_by_cell(table)) == 4
    assert rounds_of(Comparison("", (("disk", "c", "slices"),), True), rounds_by_cell(table)) == 0


def test_only_what_can_be_open_at_all_can_be_added(tmp_path: Path) -> None:
    content = {
        **changed("rounds", ADAPTIVE),
        "claims": {"1.1": CLAIM},
        "recommendation": {"confirm_rounds": 0},
    }
    claimed = {("1by10", "slices"), ("2by10", "slices"), ("auto", "slices")}
    assert load(tmp_path, content).can_be_added("disk") == claimed
    assert candidates(load(tmp_path, content).claims, []) == claimed
    content["recommendation"] = {"confirm_rounds": 1}
    everything = load(tmp_path, content).can_be_added("disk")
    assert {case for _, case in everything} == {"slices"}, "nobody recommends by a write that has no weight"
    assert len({layout for layout, _ in everything}) == 7
    assert load(tmp_path, {**content, "rounds": 3}).can_be_added("disk") == set()


def test_stale_rounds_that_nobody_adds_any_more_are_no_rows() -> None:
    import pandas as pd

    rows = [
        ("disk", layout, "slices", number, stale)
        for layout in ("a", "b")
        for number in (0, 3)
        for stale in (True, False)
    ]
    table = pd.DataFrame(rows, columns=["site", "layout", "case", "round", "stale"])
    added = {"first": 3, "wanted": ["results/mine/cells/disk/a/slices.r3.json"]}
    kept = set(without_leftovers(table, added).itertuples(index=False, name=None))
    assert set(rows) - kept == {("disk", "b", "slices", 3, True)}
