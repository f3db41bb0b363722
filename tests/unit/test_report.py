"""The report: what it says equals the tables, and what is missing or doubtful is said."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from report_samples import (
    CONFIRM,
    CONTEXT,
    MAIN,
    answer_of,
    assert_self_contained,
    check_of,
    confirmed,
    inputs,
    measured,
    meta,
    page_of,
    plain,
)

from hyperslab import text as fmt
from hyperslab.layouts import layout_of
from hyperslab.report.answer import layout_text, overview
from hyperslab.report.build import build_page
from hyperslab.report.data import CELL, Inputs, gather
from hyperslab.report.model import Table
from hyperslab.report.render import render
from hyperslab.results.recommend import recommend
from hyperslab.results.recommendation import mixtures
from hyperslab.results.statistics import compare, summarise
from hyperslab.sites.places import Place, words_of_store


def texts(found: Table) -> list[list[str]]:
    """The texts of a table's cells."""
    return [[entry.text for entry in row] for row in found.rows]


def test_the_answer_has_the_numbers_of_the_confirming_rounds() -> None:
    given = inputs(measured(MAIN, "main"), measured(CONFIRM, "confirm"))
    page = build_page(Inputs(**given))
    (row,) = page.overview.rows
    told = ["disk", "4x4x2", "as good as the fastest", "4.00x the fastest", "2.00x the fastest"]
    assert [cell.text for cell in row[:5]] == told
    assert row[1].note == "chunks of 4x4x2 (x, y, z; 0.0625 KiB), no filters"
    assert (row[5].text, row[6].text, row[7].text) == ("2.00 MB", "2 of 2", "no other layout")
    (answer,) = page.answers
    assert answer.warnings == []
    assert answer.speeds is not None
    confirmed = summarise(given["confirmation"])
    for shown, case in zip(answer.speeds.rows, ("slices", "spectra"), strict=True):
        assert (shown[0].text, shown[1].text) == (f"some {case}", "cold")
        median = confirmed[(confirmed.layout == "4x4x2") & (confirmed.case == case)].pooled_median_s.iloc[0]
        assert shown[2].text == fmt.seconds(median)
        direct = compare(confirmed, "disk", case, "cold", "confirm", "4x4x2", ["contiguous", "auto"])
        for cell, reference in zip(shown[3:], ("contiguous", "auto"), strict=True):
            entry = direct.set_index("layout").loc[reference]
            assert cell.text == f"{entry.ratio:.2f}x faster"
            assert cell.note.startswith(f"95 % {entry.low:.2f} to {entry.high:.2f}, sd ")
    assert answer.regrets is not None
    assert [[cell.text for cell in row] for row in answer.regrets.rows] == [
        ["4x4x2", "11.0 ms", "11.0 ms", "2.00 MB"],
        ["auto", "22.0 ms", "22.0 ms", "2.00 MB"],
        ["contiguous", "44.1 ms", "44.1 ms", "1.00 MB"],
    ]
    assert [row[1].note for row in answer.regrets.rows] == [
        "as good as the fastest", "2.00x the fastest", "4.00x the fastest",
    ]  # fmt: skip
    html = render(page)
    assert "some slices in 11.0 ms (contiguous 44.1 ms, " in html
    assert "It gives up nothing that anybody would notice" in html
    # Eight times is what the rounds that chose it say; only their own ranking shows it.
    assert html.count("8.00x") == 1
    assert_self_contained(html)


def test_what_the_pick_gives_up_is_told_and_for_whom() -> None:
    main = {"contiguous": (0.4, 0.04), "auto": (0.5, 0.5), "4x4x2": (0.04, 0.1)}
    given = inputs(measured(main, "main"), measured(main, "confirm"))
    answer = answer_of(given)
    assert "It gives up some spectra: 110 ms where contiguous takes 44.1 ms." in answer.lead
    assert "Take contiguous if more than 86 % of your requests are for some spectra." in answer.lead
    # Luck made it look so in the rounds that chose.
    again = {**main, "4x4x2": (0.04, 0.042)}
    (answer,) = build_page(Inputs(**inputs(measured(main, "main"), measured(again, "confirm")))).answers
    assert (
        "Measured again, it gives up nothing that anybody would notice: some spectra takes 46." in answer.lead
    )


def test_of_the_runner_up_nothing_of_the_rounds_that_chose_is_quoted() -> None:
    """They say that it takes twice as long; measured again it takes four times."""
    again = {**CONFIRM, "auto": (0.04, 0.03)}

    def runner_up(confirmation: Any) -> str:
        answer = answer_of(inputs(measured(MAIN, "main"), confirmation))
        return {fact.term: fact.text for fact in answer.facts}["Runner-up"]

    told = "auto: 4.00x the fastest, some slices: 44.1 ms, measured again after the choice"
    assert runner_up(measured(again, "confirm")) == told
    assert runner_up(None) == "auto"


def test_a_score_is_told_where_there_are_criteria() -> None:
    page, without = page_of(), build_page(Inputs(**inputs(measured(MAIN, "main"), None, score={})))
    facts = {fact.term: fact.text for fact in page.answers[0].facts}
    assert facts["Score"].startswith("2 of 2 as published")
    assert "Score" in {column.name for column in page.overview.columns}
    assert "Score" not in {fact.term for fact in without.answers[0].facts}
    assert "Score" not in {column.name for column in without.overview.columns}
    assert all(len(row) == len(without.overview.columns) for row in without.overview.rows)


def test_bounds_are_called_published_only_where_a_publication_is_named() -> None:
    score = inputs(measured(MAIN, "main"), None)["score"]

    def told(published: list[str]) -> tuple[str, str, str]:
        page = page_of(score={**score, "published": published})
        (found,) = (block.tables[0] for block in page.sites[0].blocks if block.title == "Score")
        facts = {fact.term: fact.text for fact in page.answers[0].facts}
        return facts["Score"].partition(";")[0], found.columns[-2].name, found.rows[0][0].text

    assert told(["4x4x2"]) == ("2 of 2 as published", "Score, as published", "Bound, as published")
    assert told([]) == ("2 of 2 with the study's own bounds", "Score, own bounds", "Bound")


def test_filters_of_the_automatic_chunks_are_told() -> None:
    study = meta()
    study["layouts"]["auto"]["filters"] = "gzip 4"
    given = confirmed(study=study)
    table, _ = overview(gather(Inputs(**given)))
    assert table.columns[4].name == "With automatic chunks with gzip 4"
    assert "automatic chunks with gzip 4 22.0 ms" in answer_of(given).lead


def test_nobody_regrets_a_file_that_would_have_been_too_large() -> None:
    main = measured(MAIN, "main")
    # The fastest has a file beyond the bound.
    main.loc[main["layout"] == "4x4x2", "file_bytes"] = 3e6
    (row,) = overview(gather(Inputs(**inputs(main, None))))[0].rows
    assert [cell.text for cell in row[1:4]] == ["auto", "as good as the fastest", "4.00x the fastest"]


def test_the_release_of_a_layout_is_told() -> None:
    study = meta()
    assert layout_text(study, "auto").endswith(", no filters")
    newer = layout_of(plain([4, 4, 64], release="2.0"))
    assert newer.words(list("xyz"), 2) == "chunks of 4x4x64 (x, y, z; 2 KiB), no filters, HDF5 2.0"


def test_only_what_was_measured_is_compared_with_and_else_the_runner_up() -> None:
    given = inputs(measured(MAIN, "main"), measured(CONFIRM, "confirm"))
    told = given["recommendation"]

    def said(**usual: Any) -> tuple[list[str], str]:
        answer = answer_of({**given, "recommendation": {**told, **usual}})
        assert answer.speeds is not None
        return [column.name for column in answer.speeds.columns[3:]], answer.lead

    assert said(automatic=None)[0] == ["Against contiguous"]
    columns, lead = said(automatic=None, contiguous=None)
    assert (columns, told["sites"][0]["runner_up"]) == (["Against auto"], "auto")
    assert "some slices in 11.0 ms (auto 22.0 ms)" in lead
    alone = [{**told["sites"][0], "runner_up": None}]
    columns, lead = said(automatic=None, contiguous=None, sites=alone)
    assert columns == []
    assert lead.startswith("It reads some slices in 11.0 ms and some spectra in 11.0 ms.")
    assert lead.endswith("Its file has 2.00 MB, 1,000 x raw.")


def test_the_sentence_says_its_verb_once() -> None:
    study = copy.deepcopy(meta())
    study["cases"]["slices"]["title"] = "read some slices"
    assert answer_of(confirmed(study=study)).lead.startswith("It reads some slices in ")


@pytest.mark.parametrize(
    "confirmation",
    [
        lambda: None,
        lambda: measured(CONFIRM, "confirm").iloc[:0],
        lambda: measured({"auto": (1, 1)}, "confirm"),
    ],
    ids=["none", "empty", "without the pick"],
)
def test_without_confirming_rounds_it_is_said_that_the_figures_flatter(
    confirmation: Callable[[], pd.DataFrame | None],
) -> None:
    page = page_of(confirmation=confirmation())
    assert page.overview.rows[0][3].text == "8.00x the fastest"
    assert "No confirming rounds" in page.overview_note
    assert "flatter" in page.answers[0].lead
    assert "flatter" in page.answers[0].warnings[0]
    assert check_of(page, "Confirmation").tone == "bad"
    assert "4x4x2 at disk" in check_of(page, "Confirmation").text


def test_missing_stale_noisy_and_skipped_are_listed() -> None:
    main = measured(MAIN, "main")
    gone = (main.layout == "auto") & (main.case == "spectra") & (main["round"] == 1)
    main["stale"] = (main.layout == "auto") & (main.case == "slices") & (main["round"] == 2)
    main["noisy"] = (main.layout == "contiguous") & (main.case == "slices") & (main["round"] == 0)
    context = [
        {**CONTEXT, "skipped": {"warm": "only 40 % of the file fits"}},
        CONTEXT | {"versions": {"hdf5": "1.14"}},
    ]
    study = meta()
    study["cases"]["spectra"]["states"] = ["cold", "warm"]
    page = build_page(Inputs(**inputs(main[~gone], None, context=context, study=study)))
    missing = check_of(page, "Cells missing")
    assert missing.text == (
        "1 of 18 planned cells have no result (disk 1); "
        "1 of 18 planned cells have only a stale result (disk 1)."
    )
    assert texts(missing.details[0]) == [["disk", "auto", "spectra", "r1"]]
    stale = check_of(page, "Stale records")
    assert texts(stale.details[0]) == [["disk", "auto", "slices", "r2"]]
    noisy = check_of(page, "Noisy cells")
    assert noisy.text.startswith("1 of 16 cells (disk 1)")
    assert "only 40 % of the file fits" in check_of(page, "States skipped").text
    assert len(check_of(page, "States skipped").details[0].rows) == 3
    assert "hdf5 is 2.0.0 or 1.14" in check_of(page, "Mixtures").text
    assert "not controlled" in check_of(page, "Caches not controlled").text
    assert check_of(page, "Results without interval").tone == "bad"
    assert page.checks[0].tone == "bad"
    assert page.checks[-1].tone == "good"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"latency_ms": 50.0}, "disk, object stores: latency ms is 10.0 or 50.0"),
        ({"bandwidth": 25_000_000}, "disk, object stores: bandwidth is none or 25000000"),
        ({"endpoint": "versitygw"}, "disk, object stores: endpoint is moto or versitygw"),
    ],
)
def test_results_of_a_store_that_was_changed_do_not_pass_for_those_of_one(changed: Any, said: str) -> None:
    store: dict[str, Any] = {"endpoint": "moto", "latency_ms": 10.0, "prefix": "one/"}
    both = (store, store | changed)
    one, other = (CONTEXT | {"store": described} for described in both)
    found = check_of(confirmed(context=[one, other]), "Mixtures")
    assert found.tone == "bad" and said in found.text
    assert check_of(confirmed(context=[one, one]), "Mixtures").tone == "good"
    # Where a context has places, these tell of stores, too, and once is enough.
    places = [Place("ext4", "/dev/sda1", store=words_of_store(described)) for described in both]
    told = zip(both, places, strict=True)
    context = [CONTEXT | {"store": store, "place": place.to_dict()} for store, place in told]
    found = check_of(confirmed(context=context), "Mixtures")
    assert found.tone == "bad" and "object stores" not in found.text
    assert found.text.count("before the object store") == 2


def test_results_of_several_places_do_not_pass_for_those_of_one() -> None:
    # Two file systems of one kind on one device, one after the other, differ in nothing else.
    places = [Place("ext4", "/dev/sda1", identity * 32).to_dict() for identity in "ab"]
    context = [CONTEXT | {"place": place} for place in places]
    found = check_of(confirmed(context=context), "Mixtures")
    assert found.tone == "bad"
    assert (
        "disk: results of ext4 on /dev/sda1 (aaaaaaaa) and ext4 on /dev/sda1 (bbbbbbbb) are compared, in "
        "claims, too: --config remeasure='disk/*' measures all of them where it lies now"
    ) in found.text
    assert check_of(confirmed(context=context[:1]), "Mixtures").tone == "good"
    assert "remeasure='disk/*'" in mixtures(context)["disk"] and not mixtures(context[:1])


def test_missing_cells_are_counted_at_each_site() -> None:
    given = inputs(measured(MAIN, "main"), None)
    absent = [(site, "auto", "slices", "r0") for site in ("near", "far")] + [("far", "auto", "slices", "r1")]
    missing = check_of({**given, "expected": [*given["expected"], *absent]}, "Cells missing")
    assert missing.text == "3 of 21 planned cells have no result (near 1, far 2)."


def test_stale_results_alone_are_not_the_results_of_all_cells() -> None:
    given = inputs(measured(MAIN, "main").assign(stale=True), None)
    missing = check_of(given, "Cells missing")
    assert missing.tone == "bad" and not missing.details
    assert missing.text == "18 of 18 planned cells have only a stale result (disk 18)."
    whole = check_of(inputs(measured(MAIN, "main"), None), "Cells missing")
    assert (whole.tone, whole.text) == ("good", "None: there are results of all 18 planned cells.")


def test_a_site_that_was_left_out_is_named_among_what_is_missing() -> None:
    page = page_of(study=meta(without_results=["far", "near"]))
    missing = check_of(page, "Cells missing")
    assert (missing.tone, missing.text) == ("bad", "No cell has a result at far and near.")
    assert [row[0].text for row in page.overview.rows] == ["disk"]


@pytest.mark.parametrize("recorded", [{}, {"names_and_inodes": "cached"}], ids=["older", "recorded"])
def test_that_names_and_inodes_were_cached_is_told_where_it_is_recorded(recorded: dict[str, str]) -> None:
    file_system = {"type": "ext4", "server_cache": "not controlled", **recorded}
    context = [CONTEXT | {"file_system": file_system}]
    text = check_of(confirmed(context=context), "Caches not controlled").text
    ending = ", while names and inodes were cached." if recorded else "held none of the file."
    assert text.endswith(ending)


def test_who_may_hold_data_of_a_network_file_system_is_named() -> None:
    file_system = {"type": "gpfs", "network": True, "server_cache": "not controlled"}
    text = check_of(confirmed(context=[CONTEXT | {"file_system": file_system}]), "Caches not controlled").text
    said = "(of servers and of the file system's own client) are not controlled"
    assert said in text


def test_a_round_measured_in_parts_is_told() -> None:
    main = measured(MAIN, "main")
    number = main.groupby(CELL, observed=True).ngroup()
    main["began_wall_s"], main["ended_wall_s"] = 1e9 + 60.0 * number, 1e9 + 60.0 * number + 50.0
    one = check_of(inputs(main, None), "Rounds in parts")
    assert (one.tone, one.text) == ("good", "None: no pause within a round was over 15 min.")
    later = (main.layout == "auto") & (main["round"] == 1)
    main.loc[later, ["began_wall_s", "ended_wall_s"]] += 7200.0
    told = check_of(inputs(main, None), "Rounds in parts")
    assert told.tone == "unknown"
    assert told.text.startswith("1 round with pauses of up to ")
    (row,) = texts(told.details[0])
    assert row[:4] == ["disk", "r1", "6", "2"]


def test_missing_locks_overlaps_and_reclaim_are_told() -> None:
    main = measured(MAIN, "main")
    main["overlap"] = (main["layout"] == "auto") & (main["case"] == "slices") & (main["round"] == 0)
    entry = CONTEXT | {"locks": {"node": True, "root": False}, "machine": {"reclaims_by_itself": True}}
    found = inputs(main, None, context=[entry])
    assert "1 of 18 cells (disk 1)" in check_of(found, "Overlapping cells").text
    locks = check_of(found, "Locks")
    assert locks.tone == "bad" and "disk (root)" in locks.text
    assert "at disk" in check_of(found, "Reclaim").text
    quiet = inputs(measured(MAIN, "main"), None, context=[CONTEXT])
    assert [check_of(quiet, name).tone for name in ("Overlapping cells", "Locks")] == ["good", "good"]


def test_a_disagreement_with_arithmetic_is_shown() -> None:
    main = measured(MAIN, "main")
    main.loc[main.layout == "auto", "index_predicted_bytes"] = 5
    main.loc[(main.layout == "auto") & (main["round"] == 0), "requested_bytes"] = 21
    page = build_page(Inputs(**inputs(main, None)))
    check = check_of(page, "Computed and measured")
    assert check.tone == "bad"
    assert "6 of 18 files" in check.text
    assert "6 of 54 cold reads" in check.text
    sizes = next(block for block in page.sites[0].blocks if block.title == "File size").tables[0]
    verdicts = {row[0].text: (row[-2].text, row[-2].note) for row in sizes.rows}
    assert verdicts == {"contiguous": ("yes", ""), "auto": ("no", "differ: index"), "4x4x2": ("yes", "")}
    # The order of insertion of a write case decides its index.
    written = inputs(main.assign(kind="write", requested_bytes=20), None, recommendation={}, score={})
    assert check_of(written, "Computed and measured").tone == "good"


def test_under_three_rounds_there_is_no_interval() -> None:
    given = inputs(measured(MAIN, "main", rounds=2), None)
    (row,) = overview(gather(Inputs(**given)))[0].rows
    assert (row[3].text, row[7].text) == ("8.00x the fastest", "unknown")
    assert any("under 3 rounds" in text for text in answer_of(given).warnings)


def test_a_site_without_results_does_not_break_it() -> None:
    given = inputs(measured(MAIN, "main"), None)
    given["expected"].append(("far", "auto", "slices", "r0"))
    page = build_page(Inputs(**given))
    assert [row[0].text for row in page.overview.rows] == ["disk", "far"]
    assert page.overview.rows[1][1].text == "no recommendation"
    assert page.sites[1].text == "There are no valid results of this site."
    assert "no recommendation; nothing was measured here" in render(page)
    empty = measured(MAIN, "main").iloc[:0]
    nothing = {
        "score": {},
        "recommendation": {},
        "context": [],
        "measurements": empty,
        "summary": summarise(empty),
    }
    html = render(build_page(Inputs(**{**given, **nothing})))
    assert "19 of 19 planned cells have no result" in html
    assert_self_contained(html)


def test_a_reason_for_no_recommendation_is_given() -> None:
    given = inputs(measured(MAIN, "main"), None)
    site: dict[str, Any] = {
        "site": "disk",
        "pick": None,
        "reason": "no layout has a small file",
        "ranking": [],
        "left_out": {},
    }
    page = build_page(Inputs(**{**given, "recommendation": {"sites": [site]}}))
    assert page.overview.rows[0][1].note == "no layout has a small file"
    assert "no layout has a small file." in render(page)


def test_a_study_without_reads_opens_with_the_fastest_of_each_case() -> None:
    rows = measured(MAIN, "main").assign(kind="write", state="write")
    cases = {
        "slices": {
            "kind": "write",
            "raw_bytes": 2000,
            "title": "a chunk at a time",
            "states": ["write"],
            "shape": [10, 10, 10],
        }
    }
    reason = {"site": "disk", "pick": None, "reason": "not measured here: any read case"}
    told = {"contiguous": "contiguous", "automatic": None, "sites": [reason]}
    given = inputs(rows, None, study=meta(cases=cases), recommendation=told, score={})
    page = build_page(Inputs(**given))
    assert [column.name for column in page.overview.columns] == ["Site", "Case", "Write"]
    assert texts(page.overview) == [["disk", "a chunk at a time", "4x4x2"]]
    times = given["summary"].query("case == 'slices'").drop_duplicates("layout").set_index("layout")
    best, worst = (fmt.seconds(times.pooled_median_s[layout]) for layout in ("4x4x2", "contiguous"))
    note = page.overview.rows[0][2].note
    assert note.startswith(f"{best} (95 % ") and note.endswith(f"; slowest contiguous, {worst}")
    assert "what is fastest, of 3 layouts, case by case" in render(page)
    assert "Study tiny: what is fastest on these machines, case by case?" in render(page)
    nothing = {"measurements": rows.iloc[:0], "summary": summarise(rows.iloc[:0])}
    assert texts(build_page(Inputs(**{**given, **nothing})).overview)[0][0] == "no valid results"


def test_what_a_mix_weighs_is_recommended_though_nothing_is_read() -> None:
    rows = measured(MAIN, "main").assign(kind="write", state="write")
    (chosen,) = recommend(summarise(rows), {"slices": 1.0})
    told = {"contiguous": "contiguous", "automatic": None, "sites": [chosen.to_dict()]}
    cases = {"slices": {"kind": "write", "raw_bytes": 2000, "states": ["write"], "shape": [10, 10, 10]}}
    page = build_page(Inputs(**inputs(rows, None, study=meta(cases=cases), recommendation=told, score={})))
    assert page.overview.rows[0][1].text == page.answers[0].layout == "4x4x2"
    assert next(fact.text for fact in page.facts if fact.term == "Question").startswith("which of 3 layouts")
    assert page.question == "how should this array be stored, on these machines, for the way it is written?"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "how should this array be stored, on these machines, for the way it is read?"),
        (
            {"rows": "9 rows"},
            "how should these rows be stored, on these machines, for the way they are read?",
        ),
    ],
    ids=["array", "rows"],
)
def test_the_page_says_which_question_it_answers(more: dict[str, Any], said: str) -> None:
    assert f'<p class="about">Study tiny: {said}</p>' in render(page_of(study=meta(**more)))


def test_a_deviation_is_the_share_by_which_times_differ() -> None:
    assert fmt.deviation(math.log(1.5)) == "50.0 %"
    assert fmt.with_deviation("95 % 1.1 to 1.4", math.log(1.5)) == "95 % 1.1 to 1.4, sd 50.0 %"
    assert fmt.with_deviation("95 % 1.1 to 1.4", math.nan) == "95 % 1.1 to 1.4"


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0 %"), (0.5, "50 %"), (0.949, "95 %"), (0.986, "98.6 %"), (0.998, "99.8 %"),
                        (0.9997, "99.97 %"), (0.999999, "99.9 %")]
)  # fmt: skip
def test_a_share_above_which_something_is_so_is_never_all(value: float, text: str) -> None:
    assert fmt.share_above(value) == text


def test_an_interval_says_its_level() -> None:
    assert fmt.interval(1.1, 1.4) == "95 % 1.10 to 1.40"
    assert fmt.interval(1.1, 1.4, 0.0125) == "98.75 % 1.10 to 1.40"
    given = inputs(measured(MAIN, "main"), None)
    (told,) = given["recommendation"]["sites"]
    assert told["alpha"] == 0.05
    given["recommendation"]["sites"] = [{**told, "alpha": 0.0125}]
    answer = answer_of(given)
    assert answer.ranking is not None
    notes = [row[2].note for row in answer.ranking.rows]
    assert any(note.startswith("98.75 % ") for note in notes) and "95 %" not in " ".join(notes)


def test_a_pick_by_predictions_is_called_so() -> None:
    given = inputs(measured(MAIN, "main"), None)
    (told,) = given["recommendation"]["sites"]
    chosen = {"tied": ["4x4x2", "auto"], "best": "4x4x2", "pick": "auto", "runner_up": "4x4x2"}
    for by, why, second in (
        ({"of": 2, "measured": "4x4x2"}, "towards what was predicted.", "4x4x2: the best by its times alone"),
        (None, "is as good within 5 %, and its file is smaller.", "4x4x2: the best, with a larger file"),
    ):
        ranking = [
            {**row, "file_bytes": 3e6 if row["layout"] == "4x4x2" and not by else row["file_bytes"]}
            for row in told["ranking"]
        ]
        given["recommendation"]["sites"] = [{**told, **chosen, "chosen_by": by, "ranking": ranking}]
        html = render(build_page(Inputs(**given)))
        assert why in html and second in html


def test_what_was_requested_otherwise_may_be_calls_and_reads_of_every_state() -> None:
    counted = measured(MAIN, "main").assign(requested_reads=3, requested_predicted_reads=3)
    main = pd.concat([counted, counted.assign(state="warm")], ignore_index=True)
    check = check_of(inputs(main, None), "Computed and measured")
    assert "and what 108 cold and warm reads requested, are as computed" in check.text
    main.loc[main["layout"] == "auto", "requested_reads"] = 4
    check = check_of(inputs(main, None), "Computed and measured")
    said = "36 of 108 cold and warm reads requested other bytes, or in other calls, than predicted."
    assert check.text == said
    unknown = main.assign(requested_bytes=math.nan, requested_reads=math.nan)
    page = build_page(Inputs(**inputs(unknown, None)))
    check = check_of(page, "Computed and measured")
    assert check.tone == "good" and "what 0 reads requested" in check.text
    told = [render(one).count(">not counted<") for one in (page, build_page(Inputs(**inputs(main, None))))]
    assert told[0] - told[1] == 6, "of each layout and case"


def test_each_reason_for_a_skipped_state_is_told_once() -> None:
    why = ("it does not fit", "it does not fit", "nothing to read", "no memory", "too slow")
    context = [{**CONTEXT, "skipped": {"warm": reason}} for reason in why]
    found = check_of(confirmed(context=context), "States skipped")
    assert found.text == "disk, warm: it does not fit; nothing to read and 2 more."
