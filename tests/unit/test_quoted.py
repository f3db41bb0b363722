"""What the answer quotes: of enough fresh rounds, and nothing that was not measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from report_samples import CONFIRM, MAIN, inputs, measured, meta

from hyperslab import text as fmt
from hyperslab.report.answer import overview, site_answer
from hyperslab.report.checks import checks
from hyperslab.report.data import Data, Inputs, gather
from hyperslab.report.fastest import NOTE
from hyperslab.report.model import Check, SiteAnswer
from hyperslab.report.quoted import sentence
from hyperslab.report.speeds import speed_phase

# Of the layouts of MAIN, contiguous is the fastest for spectra.
TURNED = {"contiguous": (0.4, 0.04), "auto": (0.5, 0.5), "4x4x2": (0.04, 0.1)}

NOTHING = "It gives up nothing that anybody would notice: for no case is another layout"


def data(main: pd.DataFrame, again: pd.DataFrame | None = None, **told: Any) -> Data:
    """What is shown of these rounds, whose recommendation says what is `told`."""
    given = inputs(main, again)
    given["recommendation"]["sites"] = [{**site, **told} for site in given["recommendation"]["sites"]]
    return gather(Inputs(**given))


def answer(*rounds: pd.DataFrame, **told: Any) -> SiteAnswer:
    """The answer for the disk."""
    return site_answer(data(*rounds, **told), "disk", "place")


def confirmation(found: Data) -> Check:
    """The check of whether layouts were measured again."""
    (check,) = (check for check in checks(found) if check.name == "Confirmation")
    return check


@pytest.mark.parametrize(
    ("again", "said"),
    [
        (lambda: measured(CONFIRM, "confirm", 2), "some slices, cold: 2 of 3; some spectra, cold: 2 of 3"),
        (lambda: measured(CONFIRM, "confirm").query("case == 'slices'"), "some spectra, cold: 0 of 3"),
    ],
    ids=["rounds", "cases"],
)
def test_a_few_confirming_records_confirm_nothing(again: Callable[[], pd.DataFrame], said: str) -> None:
    found = data(measured(MAIN, "main"), again())
    check = confirmation(found)
    assert check.tone == "bad"
    assert f"4x4x2 at disk: too few confirming rounds ({said}). Its speed-ups come from" in check.text
    table, note = overview(found)
    assert f"Too few confirming rounds ({said}): the speed-ups come from" in note
    # As the rounds say that chose it.
    assert table.rows[0][3].text == "8.00x the fastest"
    told = site_answer(found, "disk", "place")
    assert f"({said})" in told.warnings[0] and "Not confirmed" in told.lead


def test_no_layout_is_quoted_from_fewer_confirming_rounds_than_the_pick_needs() -> None:
    again = measured(CONFIRM, "confirm")
    found = data(measured(MAIN, "main"), again[(again["layout"] != "contiguous") | (again["round"] < 2)])
    told = site_answer(found, "disk", "place")
    assert told.lead.startswith("It reads some slices in 11.0 ms (automatic chunks 22.0 ms) and ")
    assert told.regrets is not None and told.speeds is not None
    (row,) = (row for row in told.regrets.rows if row[0].text == "contiguous")
    assert [(cell.text, cell.note) for cell in row[1:3]] == [(fmt.ABSENT, "not measured again")] * 2
    assert [row[3].text for row in told.speeds.rows] == ["not measured again"] * 2
    assert overview(found)[0].rows[0][3].text == "not measured again"


def test_several_layouts_that_are_not_confirmed_are_several() -> None:
    main = measured(MAIN, "main")
    found = data(pd.concat([main, main.assign(site="memory")]), measured(CONFIRM, "confirm", 1))
    said = "4x4x2 at memory: no confirming rounds. Their speed-ups come from the rounds that chose them"
    assert said in confirmation(found).text
    assert "At memory, no confirming rounds: the speed-ups" in overview(found)[1]


@pytest.mark.parametrize(
    ("again", "said"),
    [
        (None, f"{NOTHING} a quarter faster."),
        (CONFIRM, f"{NOTHING} that was measured again a quarter faster."),
        # Only confirming rounds say so.
        ({**CONFIRM, "4x4x2": (0.01, 0.08)}, "It gives up some spectra: 88.2 ms where auto takes 22.0 ms."),
    ],
)
def test_it_gives_up_nothing_only_if_no_layout_of_these_rounds_is_much_faster(again: Any, said: str) -> None:
    found = data(measured(MAIN, "main"), measured(again, "confirm") if again else None)
    assert said in sentence(found, "disk", speed_phase(found, "disk", "4x4x2"))


def test_what_is_faster_in_a_file_that_is_too_large_is_not_given_up() -> None:
    main = measured(MAIN, "main")
    main.loc[main["layout"] == "4x4x2", "file_bytes"] = 3e6
    said = f"{NOTHING} that has a small enough file a quarter faster."
    assert said in sentence(data(main), "disk", "main")


def test_what_could_not_be_recommended_is_not_said_to_be_slower() -> None:
    found = data(measured(MAIN, "main"))
    (choice,) = found.recommendation["sites"]
    choice["left_out"] = {"two": "it holds two copies"}
    assert f"{NOTHING} that was considered a quarter faster." in sentence(found, "disk", "main")


def test_a_state_in_which_much_is_given_up_does_not_vanish_in_the_mean_of_all() -> None:
    warm = {**MAIN, "4x4x2": (0.04, 0.01), "contiguous": (0.01, 0.08)}
    main = pd.concat([measured(MAIN, "main"), measured(warm, "main").assign(state="warm")])
    shares = {f"{case} {state}": 0.25 for case in ("slices", "spectra") for state in ("cold", "warm")}
    lead = answer(main, shares=shares).lead
    assert "It gives up some slices (warm): 44.1 ms where contiguous takes 11.0 ms." in lead


def test_a_state_that_nobody_notices_hides_none_in_which_much_is_given_up() -> None:
    """Warm it is forty times as slow, and 4 ms; a share is of all requests for the case."""
    warm = measured({**TURNED, "4x4x2": (0.04, 0.004), "contiguous": (0.4, 0.0001)}, "main")
    main = pd.concat([measured(TURNED, "main"), warm.assign(state="warm")])
    shares = {f"{case} {state}": 0.25 for case in ("slices", "spectra") for state in ("cold", "warm")}
    other = [{"layout": "contiguous", "case": "spectra", "above": 0.86}]
    assert (
        "It gives up some spectra (cold): 110 ms where contiguous takes 44.1 ms. "
        "Take contiguous if more than 86 % of your requests are for some spectra."
    ) in answer(main, shares=shares, alternatives=other).lead


def test_opening_is_said_to_be_included_only_where_it_is() -> None:
    cold = measured(MAIN, "main")
    rows = pd.concat([cold, cold.assign(state="warm")], ignore_index=True)

    def note(*states: str) -> str:
        keys = [f"{case} {state}" for case in ("slices", "spectra") for state in states]
        found = answer(rows, shares=dict.fromkeys(keys, 1 / len(keys))).regrets
        assert found is not None
        return found.note

    assert "What a request waits for (opening included), and" in note("cold")
    assert "What a request waits for, and" in note("warm")
    assert "What a request waits for (a cold one with its opening), and" in note("cold", "warm")


@pytest.mark.parametrize(
    ("above", "said"),
    [
        (0.0, "By its expected time contiguous is better whatever share of your requests is for some"),
        (0.0001, "Take contiguous if more than 0.01 % of your requests are for some spectra."),
    ],
)
def test_a_share_is_not_said_to_be_more_than_nothing(above: float, said: str) -> None:
    other = [{"layout": "contiguous", "case": "spectra", "above": above}]
    assert said in answer(measured(TURNED, "main"), alternatives=other).lead


def test_a_small_share_of_the_requests_is_not_none() -> None:
    found = answer(measured(MAIN, "main"), rule="mix", shares={"slices cold": 0.999, "spectra cold": 0.001})
    facts = {fact.term: fact.text for fact in found.facts}
    assert facts["Cases that count"] == "some slices 99.9 % and some spectra 0.1 %"
    assert [fmt.share(value) for value in (0.0, 0.5, 0.0004, 1e-7, 1.0)] == [
        "0 %", "50 %", "0.04 %", "0.00001 %", "100 %",
    ]  # fmt: skip


def test_a_floor_of_nothing_is_not_spoken_of() -> None:
    for floor, said in ((10, " A time under 10.0 ms counts as 10.0 ms."), (0, "")):
        found = data(measured(MAIN, "main"), imperceptible_ms=floor)
        told = site_answer(found, "disk", "place").regrets
        assert told is not None
        assert f"nobody said how often each case is asked.{said} No confirming rounds" in overview(found)[1]
        assert ("; a time under" in told.note) == bool(said) and "these layouts takes" in told.note


def test_what_was_not_measured_is_in_no_sentence() -> None:
    main = measured(MAIN, "main")
    found = answer(main[(main["layout"] != "contiguous") | (main["case"] != "spectra")])
    assert "some slices in 11.0 ms (contiguous 88.1 ms, " in found.lead
    assert "some spectra in 11.0 ms (automatic chunks 22.0 ms)" in found.lead
    assert fmt.ABSENT not in found.lead
    assert found.regrets is not None
    (row,) = (row for row in found.regrets.rows if row[0].text == "contiguous")
    assert (row[2].text, row[2].note) == (fmt.ABSENT, "not measured")
    # Nor is what would be faster where it was not measured again.
    again = measured(TURNED, "confirm")
    again = again[(again["layout"] != "contiguous") | (again["case"] != "spectra")]
    lead = answer(measured(TURNED, "main"), again).lead
    assert "It gives up some spectra: contiguous is faster there. Take" in lead


def test_one_layout_alone_is_not_better_than_others() -> None:
    main = measured(MAIN, "main")
    main.loc[main["layout"] != "auto", "file_bytes"] = 3e6
    facts = {fact.term: fact.text for fact in answer(main).facts}
    assert facts["Why"] == "It is the only layout in the ranking whose file has at most 2.00 MB."
    assert facts["Runner-up"] == "none within the size bound"
    facts = {fact.term: fact.text for fact in answer(main[main["layout"] == "auto"]).facts}
    assert facts["Runner-up"] == "none: no other layout is ranked"


def test_who_is_best_by_predictions_is_not_who_is_smaller() -> None:
    told = {"tied": ["4x4x2", "auto", "contiguous"], "best": "4x4x2", "pick": "contiguous"}
    by = {"of": 3, "measured": "4x4x2", "steady": "auto"}
    facts = {fact.term: fact.text for fact in answer(measured(MAIN, "main"), **told, chosen_by=by).facts}
    assert "; auto cannot be told from it, and is the best where times are drawn towards" in facts["Why"]
    assert facts["Why"].endswith("; contiguous is as good as auto within 5 %, and its file is smaller.")


def test_a_typical_time_is_called_so_and_an_interval_is_by_itself() -> None:
    found = answer(measured(MAIN, "main"))
    assert found.speeds is not None and found.ranking is not None
    assert found.speeds.columns[2].name == "Typical of 4x4x2"
    assert "of a session's geometric mean" in found.speeds.note and "a session's geometric mean" in NOTE
    assert "An interval is of its layout by itself, not adjusted" in found.ranking.note


def test_a_file_is_compared_with_the_arrays_that_count() -> None:
    study = meta()
    # The dataset has 2,000 bytes, of which each case holds half; what does not count may hold more.
    cases = {name: {**case, "raw_bytes": 1000} for name, case in study["cases"].items()}
    cases["fill"] = {**study["cases"]["slices"], "kind": "write", "raw_bytes": 8000}
    given = inputs(measured(MAIN, "main"), None, study=meta(cases=cases))
    found = site_answer(gather(Inputs(**given)), "disk", "place")
    facts = {fact.term: fact.text for fact in found.facts}
    assert facts["File"] == "2.00 MB, 2,000 x raw (0.0010 MB)"
    assert "Its file has 2.00 MB, 2,000 x raw." in found.lead
