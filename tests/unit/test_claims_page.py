"""The page of claims, and their part of a report: every claim with its verdict in words, self-contained."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from claim_samples import CLAIM, context, measured, resolved
from markupsafe import escape
from report_samples import HOSTILE, Tags, assert_headings_nest, assert_self_contained, page_of

from hyperslab.claims.evaluate import evaluate, site_facts
from hyperslab.planning.claims_page import TARGET, told
from hyperslab.report import templates
from hyperslab.report.claim_way import command
from hyperslab.report.claims import in_order, rows
from hyperslab.report.claims_markdown import markdown
from hyperslab.report.claims_model import BADGES, DIFFERS, Row
from hyperslab.report.claims_page import build
from hyperslab.report.explanations import conclusions
from hyperslab.report.render import render
from hyperslab.sites.places import Place
from hyperslab.studies.claims.schema import NO_STUDY

TABLE = measured(
    lambda case, layout, values: 2.0 if layout == "contiguous" else 1.0, np.random.default_rng(2), sd=0.01
)
FASTER = {"a": {"layouts": "2x2x10", "case": "slices"}, "b": {"layouts": "contiguous"}, "below": 1}
SLOWER = {**{key: FASTER[key] for key in ("a", "b")}, "above": 1}
MANY = {"says": "m = {m}", "for_all": {"m": [1, 2, 4]}, "b": {"layouts": "contiguous"}, "below": 1,
        "a": {"layouts": "{m}x{m}x10", "case": "slices"}}  # fmt: skip


def verdicts(
    directory: Path, *comparisons: dict[str, Any], study: str = "mine", **claim: Any
) -> dict[str, Any]:
    """claims.json of a study with one claim, measured on a disk and in memory."""
    claims = resolved(directory, *comparisons, figure="session-slices", **claim)
    both = [TABLE.assign(site=site) for site in ("disk", "memory")]
    facts = context(disk={}, memory={"type": "tmpfs", "memory_resident": True})
    content = evaluate(study, claims, pd.concat(both, ignore_index=True), facts)
    return json.loads(json.dumps(content))  # type: ignore[no-any-return]


def only(content: dict[str, Any]) -> Row:
    (row,) = rows([content], lambda study, site, figure: f"#{site}")
    return row


def test_a_row_says_what_was_found_and_where(tmp_path: Path) -> None:
    row = only(verdicts(tmp_path, FASTER, MANY))
    assert (row.claim, row.badge.word, row.testability) == ("000.1", "holds", "V: reproducible")
    disk, memory = row.entries
    assert (disk.where, disk.badge.word, disk.reason) == ("disk", "holds", "all 4 comparisons hold")
    assert disk.figures == [("#disk", "figure session-slices")]
    one, many = disk.lines
    assert (one.bound, one.badge.symbol, one.parts) == ("below 1", "✓", ())
    assert re.fullmatch(r"0\.\d+ \(0\.\d+ to 0\.\d+\)", one.measured)
    assert many.says == "m = m"
    assert re.fullmatch(r"0\.\d+ to 0\.\d+; 3 of 3 hold", many.measured)
    assert [part.says for part in many.parts] == ["m = 1", "m = 2", "m = 4"]
    assert memory.badge.word == "cannot be tested here"
    assert memory.reason.startswith("the file system lies in memory")


def test_every_verdict_shows_in_words_and_as_a_symbol(tmp_path: Path) -> None:
    assert len({badge.symbol for badge in [*BADGES.values(), DIFFERS]}) == len(BADGES) + 1
    for content, word in (
        (verdicts(tmp_path, SLOWER), "fails"),
        (
            verdicts(tmp_path, {**{key: FASTER[key] for key in ("a", "b")}, "similar": 0.5, "margin": 1.01}),
            "cannot tell at this noise",
        ),
        (verdicts(tmp_path, FASTER, at={"sites": ["x"]}), "cannot be tested here"),
    ):
        html = render(build([content], [], []), templates.CLAIMS)
        row = only(content)
        assert row.badge.word == word
        assert html.count(f"{row.badge.symbol}</b> {word}") >= 1


def test_sites_that_disagree_are_said_to(tmp_path: Path) -> None:
    content = verdicts(tmp_path, FASTER, at={"in_memory": True})
    content["claims"][0]["verdicts"][1]["verdict"] = "fails"
    assert only(content).badge == DIFFERS


def test_claims_stand_in_the_order_of_their_numbers() -> None:
    names = ["000.10", "000.8-hits", "000.2", "001.1", "000.8", "000.8-bypass"]
    assert sorted(names, key=in_order) == ["000.2", "000.8", "000.8-bypass", "000.8-hits", "000.10", "001.1"]


def explanation(name: str, verdict: str, site: str = "disk") -> dict[str, Any]:
    """A claim that explains 000.8, with a verdict."""
    entry = {"sites": [site], "verdict": verdict, "comparisons": []}
    return {**CLAIM, "id": f"000.8-{name}", "explains": "000.8", "explanation": name, "verdicts": [entry]}


@pytest.mark.parametrize(
    ("hits", "bypass", "said"),
    [
        (
            "fails",
            "holds",
            "disk: the data support one explanation, bypass. Tested: hits (fails) and bypass (holds).",
        ),
        ("holds", "holds", "disk: the data support several explanations."),
        ("fails", "cannot tell", "disk: the data support none of the explanations."),
        ("not measured", "not measured", "Explanations to test: hits and bypass. There are no results yet."),
    ],
)
def test_which_explanation_the_data_support(hits: str, bypass: str, said: str) -> None:
    claims = [explanation("hits", hits), explanation("bypass", bypass)]
    assert conclusions(claims)["000.8"].startswith(said)
    # It stands beside the claim, or beside the first explanation where the claim is in another study.
    explained = {**CLAIM, "id": "000.8", "verdicts": claims[0]["verdicts"]}
    made = rows([{"study": "a", "claims": claims}, {"study": "b", "claims": [explained]}], lambda *_: None)
    assert [bool(row.conclusion) for row in made] == [True, False, False]
    made = rows([{"study": "a", "claims": claims}], lambda *_: None)
    assert [bool(row.conclusion) for row in made] == [True, False]


def test_a_claim_that_explains_another_is_called_an_explanation(tmp_path: Path) -> None:
    content = verdicts(tmp_path, FASTER)
    content["claims"][0] |= {"explains": "000.8", "explanation": "chunks bypass the cache"}
    assert "explanation: chunks bypass the cache<" in render(build([content], [], []), templates.CLAIMS)


def test_the_page_lists_what_has_no_results(tmp_path: Path) -> None:
    (claim,) = resolved(tmp_path, FASTER)
    pending = [
        {"study": "later", "claims": [told({**claim, "id": "000.2"}, "the study later has no results")]},
        {
            "study": NO_STUDY,
            "claims": [told({**CLAIM, "id": "000.3", "untestable": "the machines are gone"})],
        },
    ]
    page = build([verdicts(tmp_path, FASTER)], pending, [])
    (group,) = page.groups
    assert [(row.claim, row.badge.word) for row in group.rows] == [
        ("000.1", "holds"), ("000.2", "not measured here"), ("000.3", "cannot be tested here"),
    ]  # fmt: skip
    assert [(badge.word, number) for badge, number in group.counts] == [
        ("holds", 1), ("cannot be tested here", 1), ("not measured here", 1),
    ]  # fmt: skip
    assert (page.measured, page.waiting) == (["mine at disk (ext4) and memory (tmpfs)"], ["later"])
    html = render(page, templates.CLAIMS)
    assert "machines are gone" in html
    assert "the study later has no results" in html


def test_on_a_website_claims_lead_to_their_reports(tmp_path: Path) -> None:
    content = verdicts(tmp_path, FASTER)
    figure = tmp_path / "mine" / "figures" / "disk" / "session-slices.svg"
    figure.parent.mkdir(parents=True)
    figure.write_text("<svg xmlns='http://www.w3.org/2000/svg'/>", encoding="utf-8")
    reports = [{"study": "mine", "title": "Mine"}, {"study": "unclaimed", "title": "Another"}]
    found = Tags(render(build([content], [], [str(figure)], reports), templates.CLAIMS)).found
    links = [attributes.get("href") for tag, attributes in found if tag == "a"]
    assert {"mine/report.html#claim-mine-000.1", "mine/report.html", "unclaimed/report.html"} <= set(links)
    # A figure is in its report, and not here once more.
    assert "mine/report.html#figure-disk-session-slices" in links
    assert "img" not in [tag for tag, _ in found]
    alone = render(build([content], [], []), templates.CLAIMS)
    assert "report.html" not in alone
    assert "Reports" not in alone


def test_long_comparisons_are_folded(tmp_path: Path) -> None:
    html = render(build([verdicts(tmp_path, *[FASTER] * 11)], [], []), templates.CLAIMS)
    assert "<summary>Compared (11 rows)</summary>" in html
    few = render(build([verdicts(tmp_path, MANY)], [], []), templates.CLAIMS)
    assert "Compared (" not in few
    assert "<summary>One by one (3 rows)</summary>" in few


def test_the_page_is_self_contained_and_its_links_lead_somewhere(tmp_path: Path) -> None:
    figure = tmp_path / "mine" / "figures" / "disk" / "session-slices.svg"
    figure.parent.mkdir(parents=True)
    figure.write_text("<svg xmlns='http://www.w3.org/2000/svg'/>", encoding="utf-8")
    unused = figure.with_name("sizes.svg")
    page = build([verdicts(tmp_path, FASTER)], [], [str(figure), str(unused)])
    assert [anchor for anchor, _ in page.figures] == ["figure-mine-disk-session-slices"]
    html = render(page, templates.CLAIMS)
    assert_self_contained(html)
    assert_headings_nest(html)
    tags = Tags(html).found
    places = [attributes["id"] for _, attributes in tags if "id" in attributes]
    links = {(attributes.get("href") or "")[1:] for tag, attributes in tags if tag == "a"}
    assert len(places) == len(set(places))
    assert {"figure-mine-disk-session-slices", "claim-mine-000.1"} <= links <= set(places)


def test_hostile_texts_are_escaped(tmp_path: Path) -> None:
    content = verdicts(tmp_path, {**FASTER, "says": HOSTILE, "published": HOSTILE}, sentence=HOSTILE,
                       source=HOSTILE, section=HOSTILE, published=HOSTILE, study=HOSTILE)  # fmt: skip
    html = render(build([content], [], []), templates.CLAIMS)
    assert_self_contained(html)
    assert "<script" not in html
    assert "<img" not in html


def test_the_report_has_the_claims_of_its_study(tmp_path: Path) -> None:
    content = verdicts(tmp_path, FASTER, study="tiny")
    figure = tmp_path / "session-slices.svg"
    figure.write_text("<svg xmlns='http://www.w3.org/2000/svg'/>", encoding="utf-8")
    page = page_of(claims=content, figures={"disk": [("session-slices", "Caption", figure)]})
    html = render(page)
    assert_self_contained(html)
    assert_headings_nest(html)
    tags = Tags(html).found
    places = {attributes["id"] for _, attributes in tags if "id" in attributes}
    (link,) = page.claims[0].entries[0].figures
    assert link[0][1:] in places
    assert "What the source claims" in html
    assert "What the source claims" not in render(page_of())


def test_the_target_is_what_the_rule_makes(pytestconfig: pytest.Config) -> None:
    rules = (pytestconfig.rootpath / "rules" / "claims.smk").read_text(encoding="utf-8")
    assert "claims_page.TARGET" in rules
    assert TARGET == "results/claims.html"


def test_every_row_says_what_it_rests_on_and_how_to_run_it(tmp_path: Path) -> None:
    noisy = {**{key: FASTER[key] for key in ("a", "b")}, "similar": 0.5, "margin": 1.01, "why": "so it says"}
    row = only(verdicts(tmp_path, noisy, MANY, reading="on the whole"))
    (line, many), disk = row.entries[0].lines, row.entries[0]
    assert (line.why, many.why) == (
        "so it says",
        "better or worse, more or less: on that side of what is equal",
    )
    assert re.fullmatch(r"3 rounds, \d\.\d %", line.rounds)
    assert re.fullmatch(r"3 rounds, \d\.\d % to \d\.\d %", many.rounds)
    assert disk.data == "synthetic"
    assert "rounds in all would tell" in disk.reason or "no number of rounds would tell" in disk.reason
    (run,) = row.way.commands
    assert run == ".venv/bin/snakemake --profile profiles/local results/mine/claims/000.1.html"
    html = render(build([verdicts(tmp_path, noisy, MANY, reading="on the whole")], [], []), templates.CLAIMS)
    for said in (disk.reason, "Read as: on the whole.", "Data: synthetic.", run, line.rounds):
        assert str(escape(said)) in html, said


def test_of_what_could_be_it_is_said_how_many_hold(tmp_path: Path) -> None:
    content = verdicts(tmp_path, FASTER, {**SLOWER, "says": "the other way round"}, could=True)
    html = render(build([content], [], []), templates.CLAIMS)
    assert "1 of 2 comparisons holds, and one is enough" in html


def test_a_command_names_the_donor_that_a_verdict_rests_on() -> None:
    claim = {"id": "000.1", "donor": "$HYPERSLAB_DONOR", "verdicts": [{"data": []}]}
    assert command("mine", claim).startswith("HYPERSLAB_DONOR=FILE::DATASET .venv/bin/snakemake ")
    measured = {**claim, "verdicts": [{"data": ["real values of a b.h5::/x"]}]}
    assert command("mine", measured).startswith("HYPERSLAB_DONOR='a b.h5::/x' .venv/bin/snakemake ")
    # Part of a path, or another one at each site: nothing says what the variable was.
    for other in (
        {**measured, "donor": "$DIR/spectra.h5"},
        {**claim, "verdicts": [{"data": [f"real values of {name}.h5"]} for name in "ab"]},
    ):
        assert "=FILE::DATASET .venv" in command("mine", other)


def test_a_row_says_how_to_make_the_sites_that_it_needs(tmp_path: Path) -> None:
    content = verdicts(tmp_path, FASTER)
    content["claims"][0]["sites_file"] = {
        "file": "DIR/sites.yaml", "needs": "root", "make": ["up --dir DIR"], "remove": "down --dir DIR",
    }  # fmt: skip
    run = ".venv/bin/snakemake --profile profiles/local --config sites=DIR/sites.yaml -- "
    run += "results/mine/claims/000.1.html"
    way = only(content).way
    assert (way.commands, way.needs, way.remove) == (["up --dir DIR", run], "root", "down --dir DIR")
    html = render(build([content], [], []), templates.CLAIMS)
    assert f"Run it, which needs root: <code>up --dir DIR</code>, then <code>{run}</code>" in html
    assert "at the end <code>down --dir DIR</code>" in html
    assert f"`up --dir DIR`, then `{run}`; at the end `down --dir DIR`" in markdown(
        build([content], [], []), []
    )


NOISY = {**{key: FASTER[key] for key in ("a", "b")}, "similar": 0.5, "margin": 1.01}


def test_what_stays_open_says_why_as_long_as_it_is(tmp_path: Path) -> None:
    content = verdicts(tmp_path, NOISY, left="two files are too alike")
    page = build([content], [], [])
    assert page.groups[0].rows[0].left == "two files are too alike"
    assert [told for _, told in page.groups[0].tally] == ["1 cannot tell at this noise, 1 of them left so"]
    html, text = render(page, templates.CLAIMS), markdown(page, [content])
    for said in (html, text):
        assert "Left open: two files are too alike." in said
        assert "1 of them left so" in said
    decided = build([verdicts(tmp_path, FASTER, left="two files are too alike")], [], [])
    assert "Left open" not in render(decided, templates.CLAIMS)
    assert "of them left so" not in render(build([verdicts(tmp_path, NOISY)], [], []), templates.CLAIMS)


def test_goals_are_reached_or_missed_and_counted_apart(tmp_path: Path) -> None:
    goal = "half the time of contiguous"
    reached = verdicts(tmp_path, FASTER, goal=goal)
    missed = verdicts(tmp_path, SLOWER, study="other", goal=goal)
    page = build([verdicts(tmp_path, FASTER, study="third"), reached, missed], [], [])
    (group,) = page.groups
    assert [told for _, told in group.tally] == ["1 holds"]
    assert [told for _, told in group.goal_tally] == ["1 reached", "1 missed"]
    html, text = render(page, templates.CLAIMS), markdown(page, [reached, missed])
    for said in (html, text):
        assert "goal reached" in said
        assert goal in said
        assert "A goal of this project" in said
    assert "1 holds. Goals of this project beside them: 1 reached; 1 missed." in text
    # What was compared still holds or fails.
    assert only(missed).entries[0].lines[0].badge.word == "fails"


def test_a_goal_that_is_open_is_none_of_the_claims_that_are_left(tmp_path: Path) -> None:
    content = verdicts(tmp_path, NOISY, left="two files are too alike", goal="as fast")
    (group,) = build([content], [], []).groups
    assert group.tally == []
    assert [told for _, told in group.goal_tally] == ["1 cannot tell at this noise"]


def test_of_what_has_no_results_none_is_counted(tmp_path: Path) -> None:
    """Rows of layouts that were not measured say so, and not that 0 of so many hold."""
    claims = resolved(tmp_path, MANY)
    table = TABLE[~TABLE["layout"].isin(["1x1x10", "2x2x10", "4x4x10"])]
    content = json.loads(json.dumps(evaluate("mine", claims, table, context(disk={}))))
    row = only(content)
    (line,) = row.entries[0].lines
    assert (row.badge.word, line.badge.word, line.measured) == ("not measured here",) * 2 + ("",)
    assert row.entries[0].reason == "no valid results of layout 1x1x10 in case slices at disk"


def test_what_was_not_measured_shows_what_would_be_compared(tmp_path: Path) -> None:
    (claim,) = resolved(tmp_path, {**FASTER, "says": "m = 2"}, MANY)
    pending = [{"study": "later", "claims": [told(claim, "the study later has no results")]}]
    elsewhere = verdicts(tmp_path, {**FASTER, "says": "m = 2"}, MANY, at={"sites": ["x"]})
    for page in (build([], pending, []), build([elsewhere], [], [])):
        entry = page.groups[0].rows[0].entries[0]
        assert [(line.says, line.bound, line.measured, line.parts) for line in entry.lines] == [
            ("m = 2", "below 1", "", ()), ("m = m", "below 1", "", ()),
        ]  # fmt: skip
        assert all(line.why for line in entry.lines)
        assert {line.badge for line in entry.lines} == {entry.badge}
        assert not entry.figures
        assert "m = 2" in render(page, templates.CLAIMS)


def test_limits_are_those_of_the_looks(tmp_path: Path) -> None:
    content = verdicts(tmp_path, FASTER)
    assert "Measured (limits at 95 %)" in render(build([content], [], []), templates.CLAIMS)
    content["claims"][0]["verdicts"][0]["alpha"] = 0.0125
    html = render(build([content], [], []), templates.CLAIMS)
    assert "Measured (limits at 98.75 %)" in html
    assert "limits at 95 %" not in html
    assert "measured (limits at 98.75 %)" in markdown(build([content], [], []), [content])


def test_of_several_those_that_fail_are_named_and_counts_keep_their_digits(tmp_path: Path) -> None:
    size = {"says": "file, {m} over 1", "for_all": {"m": [2, 4, 8]}, "b": {"layouts": "1x1x10"}, "above": 1,
            "a": {"layouts": "{m}x{m}x10", "case": "slices", "of": "chunks"}}  # fmt: skip
    claims = resolved(tmp_path, size)
    sizes = TABLE["layout"].map({"2x2x10": 1000.0, "4x4x10": 999.0, "8x8x10": 1001.0}).fillna(1000.0)
    table = TABLE.assign(chunks=sizes)

    def line_of(claims: list[dict[str, Any]]) -> Any:
        content = json.loads(json.dumps(evaluate("mine", claims, table, context(disk={}))))
        (line,) = only(content).entries[0].lines
        return line

    line = line_of(claims)
    assert (line.measured, line.badge.word) == (
        "0.99900 to 1.0010; 1 of 3 holds; fail: 2 over 1; 4 over 1", "fails",
    )  # fmt: skip
    line = line_of([{**claims[0], "could": True}])
    assert line.measured.startswith("0.99900 to 1.0010; 1 of 3 holds, and one is enough")
    assert line.badge.word == "holds"


def test_a_difference_that_does_not_matter_is_said_so(tmp_path: Path) -> None:
    equal = {"a": {"layouts": "2x2x10", "case": "slices"}, "b": {"layouts": "4x4x10"}, "below": 1}
    (line,) = only(verdicts(tmp_path, equal)).entries[0].lines
    assert line.measured.endswith("): surely no more than 5 % either way")
    assert line.badge.word == "fails"


def test_the_page_is_markdown_too(tmp_path: Path) -> None:
    content = verdicts(tmp_path, {**FASTER, "says": "a | b_c"}, MANY, reading="on the whole", could=True)
    pending = [{"study": NO_STUDY, "claims": [told({**CLAIM, "id": "000.3", "untestable": "they are gone"})]}]
    text = markdown(build([content], pending, []), [content])
    assert "### 000.1: holds (mine)" in text
    assert "[000.1](#0001-holds-mine)" in text
    assert "### 000.3: cannot be tested here" in text
    assert "they are gone" in text
    assert "Read as: on the whole. It says that it can be so" in text
    assert "Run it: `.venv/bin/snakemake --profile profiles/local results/mine/claims/000.1.html`" in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in tables if "a \\| b\\_c" in line}) == 1
    head = next(line for line in tables if line.startswith("| compared"))
    row = next(line for line in tables if line.startswith("| a \\| b\\_c"))
    assert row.replace("\\|", "").count("|") == head.count("|")


def test_results_of_several_places_do_not_pass_for_those_of_one(tmp_path: Path) -> None:
    kind = {"type": "ext4", "memory_resident": False}
    one, other = (Place("ext4", "/dev/sda1", identity * 32).to_dict() for identity in "ab")
    entries = [{"site": "disk", "file_system": kind, "place": place} for place in (one, other)]
    claims = resolved(tmp_path, FASTER)
    table = TABLE.assign(began_boottime_s=1.0, ended_boottime_s=2.0, ended_wall_s=2.0)

    def said(entries: list[dict[str, Any]]) -> tuple[str, str]:
        content = json.loads(json.dumps(evaluate("mine", claims, table, site_facts(entries))))
        page = build([content], [], [])
        (where,) = page.measured
        return where, markdown(page, [content])

    both = "ext4, of several places: ext4 on /dev/sda1 (aaaaaaaa) and ext4 on /dev/sda1 (bbbbbbbb)"
    where, text = said(entries)
    assert where == f"mine at disk ({both})"
    assert f"| mine | disk | {both} |" in text
    where, text = said(entries[:1])
    assert where == "mine at disk (ext4)"
    assert "| mine | disk | ext4 |" in text


def test_a_study_without_records_was_measured_nowhere(tmp_path: Path) -> None:
    (claim,) = resolved(tmp_path, FASTER)
    content = json.loads(json.dumps(evaluate("mine", [claim], TABLE.iloc[:0], {})))
    page = build([content, verdicts(tmp_path, FASTER, study="other")], [], [])
    assert page.measured == ["other at disk (ext4) and memory (tmpfs)"]
    assert "Measured:" not in render(build([content], [], []), templates.CLAIMS)
