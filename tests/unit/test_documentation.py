"""README, CONTRIBUTING and docs/: what they link to and name is there, and the first page stays short."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
MOST_LINES = 150


def prose(page: Path) -> str:
    """The text of a page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)


def places(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def on_website(study: str, anchor: str) -> bool:
    """Whether `make site` makes the report of this study, or a claim's place on the page of all claims."""
    study = study or re.sub(r"^claim-(.+?)-\d+\..*", r"\1", anchor)
    known = {f"claim-{study}-{claim}" for claim in claims_of(study)}
    return (ROOT / "packs" / f"{study}.tar.xz").is_file() and (not anchor or anchor in known)


@cache
def claims_of(study: str) -> list[str]:
    """The claims that the file of a study names."""
    text = (ROOT / "config" / "studies" / f"{study}.yaml").read_text(encoding="utf-8")
    return list(yaml.safe_load(text).get("claims", {}))


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere; those to other sites are not followed."""
    found = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        path, _, anchor = link.partition("#")
        if "://" in path:
            continue
        if page_of_website := re.fullmatch(r"\.\./site/(?:index|([\w.-]+)/report)\.html", path):
            if not on_website(page_of_website[1] or "", anchor):
                found.append(link)
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in places(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One `two`: three\n[a](#one-two-three) [b](#four) [c](gone.md) [d](page.md#five)\n")
    assert broken(page) == ["#four", "gone.md", "page.md#five"]


def test_the_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set[Path](), [README]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        links = re.findall(r"\]\(([^)#\s]+\.md)", prose(page))
        waiting += {(page.parent / link).resolve() for link in links} - reached
    assert reached >= set(PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_name_what_there_is(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"(?:^|`)make ([a-z]+)", text, re.M):
        assert re.search(rf"^{target}:", makefile, re.M), target
    for script in re.findall(r"workflow/scripts/[\w/]+\.py", text):
        assert (ROOT / script).is_file(), script
    for pack in re.findall(r"packs/[\w.-]+\.tar\.xz", text):
        assert (ROOT / pack).is_file() or pack == "packs/quick.tar.xz", pack


def test_the_simulated_studies_say_of_which_day_their_packs_are() -> None:
    text = " ".join((ROOT / "docs" / "measured.md").read_text(encoding="utf-8").split())
    said = re.search(r"in the (\d+) packs of \d{4}-\d\d-\d\d say how much layouts scatter", text)
    # Packs are added, and the command that stands beside it takes all that there are.
    assert said and int(said[1]) <= len([*(ROOT / "packs").glob("*.tar.xz")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_reads_measurements_leaves_out_what_is_stale(page: Path) -> None:
    blocks = re.findall(r"^```python$(.*?)^```$", page.read_text(encoding="utf-8"), re.S | re.M)
    assert all("stale" in block for block in blocks if "measurements.parquet" in block)


def test_the_page_of_levels_says_what_every_layout_gives_up() -> None:
    text = (ROOT / "docs" / "levels.md").read_text(encoding="utf-8")
    study = yaml.safe_load((ROOT / "config" / "studies" / "idx-resolution.yaml").read_text(encoding="utf-8"))
    (rows,) = re.findall(r"^\| layout \| first picture.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.M)
    assert len(rows.splitlines()) == len(study["layouts"])
    # Its verdicts stand there.
    assert re.search(r"\]\(claims-[\d-]+\.md\)", text)


def test_studies_of_an_older_timing_protocol_are_named() -> None:
    claims = max((ROOT / "docs").glob("claims-*.md")).read_text(encoding="utf-8").split("\n### ")[1:]
    marked = {
        one.partition("\n")[0].rpartition("(")[2].rstrip(")")
        for one in claims
        if "(measured under timing protocol" in one
    }
    text = (ROOT / "docs" / "full-size.md").read_text(encoding="utf-8")
    (told,) = re.findall(r"^Some were measured under an older timing protocol.+?\n\n", text, re.M | re.S)
    assert marked and {study for study in marked if f"`{study}`" not in told} == set()


def test_every_study_is_on_the_page_of_studies() -> None:
    text = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    names = {file.stem for file in (ROOT / "config" / "studies").glob("*.yaml")}
    # Studies of advice are those of whoever asked for it.
    own = {name for name in names if not name.startswith("advice-")}
    assert {name for name in own if f"`{name}`" not in text} == set()


def test_the_picture_of_prices_has_as_many_ways_as_its_study_has_layouts() -> None:
    study = yaml.safe_load((ROOT / "config" / "studies" / "ncep-keep.yaml").read_text(encoding="utf-8"))
    words = ["six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
    ways = words[len(study["layouts"]) - 6]
    assert f"compares {ways} ways by time and by price" in README.read_text(encoding="utf-8")
    assert f"for {ways} ways of keeping" in (ROOT / "docs" / "object-stores.md").read_text(encoding="utf-8")
