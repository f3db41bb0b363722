"""The page: escaped, self-contained, with figures in their places and numbers as people write them."""

from __future__ import annotations

import base64
import dataclasses
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from report_samples import (
    CONFIRM,
    CONTEXT,
    HOSTILE,
    MAIN,
    Tags,
    assert_self_contained,
    check_of,
    confirmed,
    inputs,
    measured,
    meta,
    page_of,
)

from hyperslab import text as fmt
from hyperslab.report.build import build_page
from hyperslab.report.data import Inputs
from hyperslab.report.model import table
from hyperslab.report.render import render
from hyperslab.results.columns import SUMMARY
from hyperslab.results.statistics import summarise
from hyperslab.studies.study import LoadedStudy
from hyperslab.studies.summary import study_meta


def hostile(value: Any) -> Any:
    """The same with markup behind each name of the layout 4x4x2, as key and as value."""
    if isinstance(value, dict):
        return {hostile(key): hostile(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [hostile(entry) for entry in value]
    return value.replace("4x4x2", f"4x4x2{HOSTILE}") if isinstance(value, str) else value


def test_hostile_names_are_escaped_everywhere(tmp_path: Path) -> None:
    given = inputs(measured(MAIN, "main"), measured(CONFIRM, "confirm"))
    given = {key: hostile(value) if isinstance(value, dict | list) else value for key, value in given.items()}
    for name in ("measurements", "summary", "confirmation"):
        given[name] = given[name].assign(layout=[hostile(layout) for layout in given[name]["layout"]])
    given["study"] |= {"title": f"Title {HOSTILE}", "name": HOSTILE, "source": HOSTILE, "fill": HOSTILE}
    given["study"]["cases"]["slices"]["title"] = HOSTILE
    machine = {HOSTILE: HOSTILE, "node": HOSTILE}
    given["context"] = [{**CONTEXT, "machine": machine, "skipped": {"cold": HOSTILE}}]
    given["expected"].append((HOSTILE, HOSTILE, HOSTILE, "r0"))
    figure = tmp_path / "x.svg"
    figure.write_text("<svg xmlns='http://www.w3.org/2000/svg'/>", encoding="utf-8")
    absent = tmp_path / "gone.svg"
    given["figures"] = {"disk": [(f"session-{HOSTILE}", HOSTILE, figure), ("sizes", HOSTILE, absent)]}
    page = build_page(Inputs(**given))
    html = render(page)
    assert_self_contained(html)
    assert "<script" not in html
    assert "<img src=x" not in html
    assert html.count("&lt;script&gt;alert(&#34;1&#34;)&lt;/script&gt;") > 20
    (image,) = [attributes for tag, attributes in Tags(html).found if tag == "img"]
    assert image["alt"] == HOSTILE
    assert "gone.svg has not been drawn" in html
    assert page.overview.rows[0][1].text == f"4x4x2{HOSTILE}"


def test_figures_are_embedded_in_their_place(tmp_path: Path) -> None:
    files = {}
    for name in ("counts", "grid-slices", "ramp-slices", "session-slices", "odd"):
        files[name] = tmp_path / f"{name}.svg"
        files[name].write_text(f"<svg>{name}</svg>", encoding="utf-8")
    given = [(name, f"Caption of {name}", file) for name, file in files.items()]
    page = page_of(figures={"disk": given})
    placed = {block.title: [figure.name for figure in block.figures] for block in page.sites[0].blocks}
    assert placed["some slices"] == ["session-slices", "ramp-slices", "grid-slices"]
    assert (placed["Counts beside times"], placed["Further figures"]) == (["counts"], ["odd"])
    html = render(page)
    images = {attributes["alt"]: attributes["src"] for tag, attributes in Tags(html).found if tag == "img"}
    content = (images["Caption of counts"] or "").removeprefix("data:image/svg+xml;base64,")
    assert base64.b64decode(content) == b"<svg>counts</svg>"


def test_every_column_of_the_summary_is_described() -> None:
    assert list(SUMMARY) == list(summarise(measured(MAIN, "main")).columns)


def test_anchors_lead_somewhere_and_are_unique() -> None:
    tags = Tags(render(page_of())).found
    places = [attributes["id"] for _, attributes in tags if "id" in attributes]
    links = {(attributes.get("href") or "")[1:] for tag, attributes in tags if tag == "a"}
    assert len(places) == len(set(places))
    assert links <= set(places)


def test_the_page_opens_with_the_trade_off_of_every_site_before_any_table(tmp_path: Path) -> None:
    file = tmp_path / "tradeoff.svg"
    file.write_text("<svg xmlns='http://www.w3.org/2000/svg'/>", encoding="utf-8")
    sites = ["disk", "memory"]
    page = page_of(figures={site: [("tradeoff", "Left and down is faster.", file)] for site in sites})
    assert [picture.site for picture in page.pictures] == sites
    tags = [tag for tag, _ in Tags(render(page)).found]
    assert tags.index("img") < tags.index("table")
    assert tags[: tags.index("table")].count("img") == len(sites) == tags.count("img")


def test_a_study_file_gives_what_the_report_asks(pytestconfig: pytest.Config) -> None:
    loaded = LoadedStudy(pytestconfig.rootpath / "config" / "studies" / "quick.yaml")
    described = json.loads(json.dumps(study_meta(loaded)))
    assert set(meta()) <= set(described)
    assert "criteria" not in json.dumps(described)


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (fmt.seconds(0.0153), "15.3 ms"), (fmt.seconds(0.9996), "1.00 s"),
        (fmt.seconds(3.8e-4), "380 µs"),
        (fmt.seconds(1234.0), "1,230 s"), (fmt.seconds(float("nan")), "–"),
        (fmt.duration(4350), "1 h 12 min"),
        (fmt.megabytes(36002104), "36.00 MB"),
        (fmt.megabytes(2202009600, binary=True), "2,100.0 MiB"),
        (fmt.volume(1e14), "100 TB"), (fmt.volume(999_960_000), "1.00 GB"), (fmt.volume(40), "40 bytes"),
        (fmt.megabytes(40768), "0.041 MB"), (fmt.significant(12.34), "12.3"),
        (fmt.significant(9.999), "10.0"),
        (fmt.listing(["a", "b", "c"], 2), "a and 2 more"),
        (fmt.time_interval(9e-4, 1.2e-3), "95 % 900 µs to 1.20 ms"),
        (fmt.speed(12.3, 10.1, 14.9, True)[:2], ("12.3x faster", "95 % 10.1 to 14.9")),
        (fmt.speed(0.5, 0.4, 0.8, True)[:2], ("2.00x slower", "95 % 1.25 to 2.50")),
        (fmt.speed(1.0, None, None, False)[:2], ("as fast", "no interval")),
        (fmt.speed(0.998, 0.997, 0.999, True), ("as fast", "95 % 1.00 to 1.00", "")),
        (fmt.span([8, 3, 3], "round"), "3 to 8 rounds"),
        (fmt.span([1, 1], "round"), "1 round"),
        (fmt.speed(1.1, 0.9, 1.3, False)[:2], ("cannot tell", "1.10x, 95 % 0.900 to 1.30")),
    ],
)  # fmt: skip
def test_numbers_are_written_for_people(shown: object, text: object) -> None:
    assert shown == text


@pytest.mark.parametrize(("rows", "folded"), [(10, False), (11, True)])
def test_a_table_of_more_than_ten_rows_is_folded_and_says_what_and_how_many(rows: int, folded: bool) -> None:
    page = page_of()
    long = table("Some numbers", ["Layout"], [[str(row)] for row in range(rows)])
    html = render(dataclasses.replace(page, context=[long]))
    assert (f"<summary>Some numbers ({rows} rows)</summary>" in html) == folded
    assert ('<h3 class="of-table">Some numbers</h3>' in html) != folded
    # On paper nothing can be opened.
    assert (f'<details class="printed"><summary>Some numbers ({rows} rows)' in html) == folded


def test_of_a_long_answer_the_first_ten_rows_stand_open() -> None:
    answer = table("The answer", ["Layout"], [[f"row {row}."] for row in range(13)], "A note.")
    html = render(dataclasses.replace(page_of(), overview=answer))
    opened, _, folded = html.partition("<summary>Further rows of this table (3 rows)</summary>")
    assert [row for row in range(13) if f"row {row}." in opened] == list(range(10))
    assert [row for row in range(13) if f"row {row}." in folded] == [10, 11, 12]
    assert html.count("A note.") == 1


def test_checks_that_found_nothing_are_one_line() -> None:
    page = page_of()
    fine = [check for check in page.checks if check.tone == "good"]
    other = [check for check in page.checks if check.tone != "good"]
    assert len(fine) > 1
    assert other
    html = render(page)
    summary = html.split("fine</span>")[1].split("</summary>")[0]
    assert summary == f"{len(fine)} checks found nothing wrong: {', '.join(c.name.lower() for c in fine)}"
    before, _, folded = html.partition(summary)
    for check in fine:
        assert f"<b>{check.name}.</b>" not in before
        assert f"<b>{check.name}.</b>" in folded
    for check in other:
        assert f"<b>{check.name}.</b>" in before
    nothing = render(dataclasses.replace(page, checks=other))
    assert "found nothing wrong" not in nothing


def test_a_report_of_a_website_leads_to_the_page_of_all_claims() -> None:
    assert "All claims and reports" not in render(page_of())
    found = Tags(render(page_of(front_door="../index.html"))).found
    assert "../index.html" in [attributes.get("href") for tag, attributes in found if tag == "a"]


def test_a_number_is_set_flush_right_and_the_pick_is_marked() -> None:
    found = table("t", ["Layout", "#Time"], [["a", 1], ["b", None]], pick="a")
    assert [(column.name, column.numeric) for column in found.columns] == [("Layout", False), ("Time", True)]
    assert (found.rows[0][0].tone, found.rows[1][0].tone, found.rows[1][1].text) == ("pick", "", "")


def test_the_pick_is_marked_in_whichever_column_layouts_are() -> None:
    found = table("t", ["Case", "Layout"], [["a", "a"], ["a", "b"]], pick="a")
    assert [[cell.tone for cell in row] for row in found.rows] == [["", "pick"], ["", ""]]


@pytest.mark.parametrize(
    ("most", "tone", "said"), [(0.0002, "good", "0.02 %"), (0.01, "good", "1.0 %"), (0.02, "bad", "2.0 %")]
)
def test_a_cold_read_that_was_not_cold_is_doubtful(most: float, tone: str, said: str) -> None:
    main = measured(MAIN, "main")
    main.loc[3, "resident_before"] = most
    check = check_of(confirmed(measurements=main), "Cold was cold")
    assert check.tone == tone and bool(check.details) == (tone == "bad")
    assert f" at most {said} of the file" in check.text


@pytest.mark.parametrize(
    ("least", "tone", "said"), [(1.0, "good", "100.0 %"), (0.9996, "good", "99.96 %"), (0.9, "bad", "90.0 %")]
)
def test_a_warm_read_that_was_not_warm_is_doubtful(least: float, tone: str, said: str) -> None:
    warm = measured(MAIN, "main").assign(state="warm", resident_before=1.0)
    warm.loc[3, "resident_before"] = least
    both = pd.concat([measured(MAIN, "main"), warm])
    check = check_of(confirmed(measurements=both), "Warm was warm")
    assert check.tone == tone and bool(check.details) == (tone == "bad")
    assert f" at least {said} of the file" in check.text
