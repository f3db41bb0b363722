"""The website of two packs: made without measuring, once, and as a browser shows it."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urldefrag, urlparse

import preloaded
import pytest
from browser import MISSING, Browser, chromium
from clones import LONGEST_SECONDS, REPOSITORY
from report_samples import assert_self_contained

import website as command

pytestmark = pytest.mark.slow

PACKS = [REPOSITORY / "packs" / f"{name}.tar.xz" for name in ("openmsi-image-aligned", "knobs-preemption")]
REPORTS = [Path("openmsi-image-aligned/report.html"), Path("knobs-preemption/report.html")]
PAGES = [Path("index.html"), *REPORTS]
NARROW = 360
# Of text to what lies behind it, as WCAG 2 asks of text of any size.
LEAST_CONTRAST = 4.5
TAB, ENTER = ("Tab", 9), ("Enter", 13)
# The ratio of each element's text to the first background behind it, where it is too low.
CONTRASTS = """(() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = parts(colour).map((v) => v / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if ((parts(colour)[3] ?? 1) > 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  return [...document.body.querySelectorAll("*")]
    .filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()))
    .map((e) => {
      const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
      return { text: e.textContent.trim().slice(0, 40), name: e.className, ratio: (a + 0.05) / (b + 0.05) };
    });
})()"""
# Where the keyboard is: what it is, where it begins, and how it shows.
FOCUS = """(() => {
  const at = document.activeElement, style = getComputedStyle(at), box = at.getBoundingClientRect();
  return { tag: at.tagName, name: at.className, left: box.left, outline: style.outlineStyle,
           width: parseFloat(style.outlineWidth) };
})()"""


class Forked:
    """In place of `subprocess.Popen` for a command that starts Snakemake, which is forked (`preloaded`)."""

    def __init__(self, words: Sequence[str], **_: Any) -> None:
        arguments = words[words.index("snakemake") + 1 :]
        done = preloaded.run(arguments, Path.cwd(), os.environ, LONGEST_SECONDS)
        self.returncode = done.returncode
        self.stdout = (done.stdout + done.stderr).splitlines(keepends=True)

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def website(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command in this process, until it ends."""
    status: Any = 0
    words = ["website.py", *map(str, arguments)]
    with (
        pytest.MonkeyPatch.context() as patched,
        contextlib.redirect_stdout(io.StringIO()) as said,
        contextlib.redirect_stderr(io.StringIO()) as complained,
    ):
        patched.chdir(cwd)
        patched.setattr(sys, "argv", words)
        streams = {"PIPE": subprocess.PIPE, "STDOUT": subprocess.STDOUT}
        patched.setattr(command, "subprocess", SimpleNamespace(Popen=Forked, **streams))
        try:
            command.main()
        except SystemExit as ended:
            status = int(ended.code is not None)
            print(ended.code, file=sys.stderr)
    return subprocess.CompletedProcess(words, status, said.getvalue(), complained.getvalue())


def started(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command as whoever uses it starts it, until it ends."""
    return subprocess.run(
        [sys.executable, REPOSITORY / "workflow" / "scripts" / "website.py", *arguments],
        cwd=cwd, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the website of both packs was made."""
    folder = tmp_path_factory.mktemp("website")
    done = website(*PACKS, cwd=folder)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout == "site/index.html\n"
    assert "2 reports" in done.stderr
    return folder


@pytest.fixture(scope="module")
def site(folder: Path) -> Path:
    """The website."""
    return folder / "site"


@pytest.fixture(scope="module")
def browser(
    tmp_path_factory: pytest.TempPathFactory, require: Callable[[str | None], None]
) -> Iterator[Browser]:
    require(MISSING)
    with chromium(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


def test_it_writes_into_its_own_folder_alone(folder: Path, site: Path) -> None:
    assert [path.name for path in folder.iterdir()] == ["site"]
    studies = {str(report.parent) for report in REPORTS}
    assert {path.name for path in site.iterdir()} == {"index.html", ".website", ".work", *studies}
    for report in REPORTS:
        assert (site / report).with_name("measurements.parquet").is_file()


def test_what_is_there_is_not_made_again(folder: Path, site: Path) -> None:
    pages = [site / page for page in PAGES] + [site / ".work" / "results" / report for report in REPORTS]
    before = [page.stat().st_mtime_ns for page in pages]
    done = website(*PACKS, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "unpacking" not in done.stderr
    assert [page.stat().st_mtime_ns for page in pages] == before


def test_a_pack_less_is_a_report_less_and_mistakes_are_one_line(site: Path, tmp_path: Path) -> None:
    shutil.copytree(site, tmp_path / "site")
    done = website(PACKS[1], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "site" / REPORTS[0].parent).exists()
    front = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert f'href="{REPORTS[1]}"' in front
    assert str(REPORTS[0]) not in front

    (record, *_) = (tmp_path / "site" / ".work" / "results").glob("*/cells/*/*/*.json")
    kept = record.read_bytes()
    record.write_text("{}", encoding="utf-8")
    failed = started(PACKS[1], cwd=tmp_path)
    record.write_bytes(kept)
    assert failed.returncode == 1
    assert re.search(r"^error: .* is not a record of Hyperslab .* as it was before; .*$", failed.stderr, re.M)
    assert (tmp_path / "site" / "index.html").read_text(encoding="utf-8") == front

    damaged = tmp_path / "damaged.tar.xz"
    damaged.write_bytes(PACKS[0].read_bytes()[:-1000])
    shutil.copy(PACKS[1], tmp_path / "twin.tar.xz")
    for given, said in (
        ([damaged], f"error: {damaged}: "),
        ([tmp_path / "gone.tar.xz"], f"error: {tmp_path}/gone.tar.xz: there is no such file"),
        ([PACKS[1], tmp_path / "twin.tar.xz"], "both hold study knobs-preemption"),
    ):
        failed = website(*given, cwd=tmp_path)
        assert failed.returncode == 1
        assert said in failed.stderr
        (line,) = [line for line in failed.stderr.splitlines() if not line.startswith("website: ")]
        assert line.startswith("error: ")
        # The pages of before are still there.
        assert (tmp_path / "site" / "index.html").read_text(encoding="utf-8") == front
        assert (tmp_path / "site" / REPORTS[1]).is_file()

    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "report.html").touch()
    refused = website(PACKS[1], "--site", "results", cwd=tmp_path)
    assert refused.stderr.startswith("error: results: holds other files; ")
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["report.html"]


def test_every_page_stands_by_itself_but_for_its_neighbours(site: Path) -> None:
    for page in PAGES:
        html = (site / page).read_text(encoding="utf-8")
        for report in REPORTS:
            html = html.replace(f'href="{report}', 'href="#')
        assert_self_contained(html.replace('href="../index.html', 'href="#'))


def test_every_link_leads_somewhere(site: Path, browser: Browser) -> None:
    places, links = {}, {}
    for page in PAGES:
        browser.open(site / page)
        places[page] = set(browser.ask("[...document.querySelectorAll('[id]')].map((e) => e.id)"))
        links[page] = [urldefrag(link) for link in browser.ask("[...document.links].map((e) => e.href)")]
    led = {page: set[Path]() for page in PAGES}
    for page in PAGES:
        for address, place in links[page]:
            target = Path(unquote(urlparse(address).path)).relative_to(site)
            assert target in places, (page, address)
            assert not place or unquote(place) in places[target], (page, address, place)
            led[page].add(target)
    # There and back.
    assert led[PAGES[0]] == set(PAGES)
    for report in REPORTS:
        assert led[report] == {report, PAGES[0]}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_the_keyboard_reaches_everything_and_shows_where_it_is(
    site: Path, browser: Browser, page: Path
) -> None:
    browser.open(site / page)
    browser.press(*TAB)
    first = browser.ask(FOCUS)
    assert first["name"] == "skip"
    assert first["left"] >= 0
    browser.press(*ENTER)
    assert browser.ask("document.activeElement.id") == "content"
    seen = set()
    for _ in range(browser.ask("document.querySelectorAll('a, summary, [tabindex=\"0\"]').length")):
        browser.press(*TAB)
        focus = browser.ask(FOCUS)
        if focus["tag"] == "BODY":
            break
        assert focus["outline"] != "none", focus
        assert focus["width"] >= 2, focus
        seen.add((focus["tag"], focus["name"]))
    assert ("DIV", "wide") in seen
    assert "A" in {tag for tag, _ in seen} or page in REPORTS
    # What is folded opens.
    assert "SUMMARY" in {tag for tag, _ in seen}
    browser.ask("document.querySelector('summary').focus()")
    browser.press(*ENTER)
    assert browser.ask("document.querySelector('details').open")


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_a_narrow_window_scrolls_tables_and_not_the_page(site: Path, browser: Browser, page: Path) -> None:
    browser.open(site / page, width=NARROW)
    browser.ask("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
    assert browser.ask("document.documentElement.scrollWidth") <= NARROW
    boxes = browser.ask("[...document.querySelectorAll('.wide')].map((e) => [e.scrollWidth, e.clientWidth])")
    assert any(inner > outer for inner, outer in boxes)
    assert browser.ask("[...document.querySelectorAll('table, img')].every((e) => e.closest('.wide'))")


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_text_and_figures_can_be_read_by_day_and_night(site: Path, browser: Browser, page: Path) -> None:
    browser.open(site / page)
    browser.ask("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
    for dark in (False, True):
        browser.look(dark)
        found = browser.ask(CONTRASTS)
        assert len(found) > 50
        assert [entry for entry in found if entry["ratio"] < LEAST_CONTRAST] == []
        page_colour = browser.ask("getComputedStyle(document.body).backgroundColor")
        assert (page_colour == "rgb(255, 255, 255)") != dark
        # Figures are drawn for a white page.
        images = "[...document.images].map((e) => [e.naturalWidth > 0, getComputedStyle(e).backgroundColor])"
        for drawn, behind in browser.ask(images):
            assert drawn
            assert not dark or behind == "rgb(255, 255, 255)"


def test_on_paper_long_tables_are_open(site: Path, browser: Browser) -> None:
    for page in REPORTS:
        browser.open(site / page)
        content = "(e) => getComputedStyle(e, '::details-content').contentVisibility"
        folded = f"[...document.querySelectorAll('main details.printed')].map({content})"
        assert set(browser.ask(folded)) == {"hidden"}
        browser.send("Emulation.setEmulatedMedia", media="print")
        assert set(browser.ask(folded)) == {"visible"}


def test_long_tables_are_folded_with_the_number_of_their_rows(site: Path, browser: Browser) -> None:
    rows = "(t) => t.tBodies[0].rows.length"
    for page in PAGES:
        browser.open(site / page)
        long = f"[...document.querySelectorAll('main table')].filter((t) => ({rows})(t) > 10)"
        outside = f"{long}.filter((t) => !t.closest('details')).map({rows})"
        assert browser.ask(outside) == []
        told = f"{long}.map((t) => [({rows})(t), t.closest('details').querySelector('summary').textContent])"
        for number, summary in browser.ask(told):
            assert f"({number} rows)" in summary
