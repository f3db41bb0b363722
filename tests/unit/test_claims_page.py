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
from report_samples import HOSTILE, Tags, assert_self_contained, page_of

from hyperslab.claims.evaluate import evaluate
from hyperslab.planning.claims_page import TARGET, told
from hyperslab.report import templates
from hyperslab.report.claims import BADGES, DIFFERS, Row, command, in_order, rows
from hyperslab.report.claims_markdown import markdown
from hyperslab.report.claims_page import build
from hyperslab.report.explanations import conclusions
from hyperslab.report.render import render
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
    assert row.command == ".venv/bin/snakemake --profile profiles/local results/mine/claims/000.1.html"
    html = render(build([verdicts(tmp_path, noisy, MANY, reading="on the whole")], [], []), templates.CLAIMS)
    for said in (disk.reason, "Read as: on the whole.", "Data: synthetic.", row.command, line.rounds):
        assert str(escape(said)) in html, said


def test_of_what_could_be_it_is_said_how_many_hold(tmp_path: Path) -> None:
    content = verdicts(tmp_path, FASTER, {**SLOWER, "says": "the other way round"}, could=True)
    html = render(build([content], [], []), templates.CLAIMS)
    assert "1 of 2 comparisons holds, and one is enough" in html


def test_a_command_names_the_variables_of_a_donor() -> None:
    claim = {"id": "000.1", "donor": "$HYPERSLAB_DONOR"}
    assert command("mine", claim).startswith("HYPERSLAB_DONOR=FILE::DATASET .venv/bin/snakemake ")


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
