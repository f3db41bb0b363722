"""From a study's tables to the page: everything a reader sees, as texts; the template only sets them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hyperslab import text as fmt
from hyperslab.report.answer import overview, site_answer
from hyperslab.report.checks import checks
from hyperslab.report.claims import Place
from hyperslab.report.claims import rows as claim_rows
from hyperslab.report.clients import clients_table
from hyperslab.report.context import context_tables
from hyperslab.report.data import Data, Inputs, gather
from hyperslab.report.fastest import reads, recommends
from hyperslab.report.levels import levels_table, view_table
from hyperslab.report.method import METHOD, column_tables
from hyperslab.report.model import Block, Fact, Figure, Page, Picture, SiteSection, Table, embed
from hyperslab.report.numbers import case_table, count_table, size_table, write_table
from hyperslab.report.prices import prices_table
from hyperslab.report.rows import rows_table
from hyperslab.report.scores import matched_facts, score_table
from hyperslab.report.settings import objects_table, published_table, requests_table
from hyperslab.report.stores import gateway_table, store_table
from hyperslab.report.tradeoff import tradeoff_table
from hyperslab.report.workers import parallel_table, speedup_table, subvolumes_table
from hyperslab.studies.case_kinds import kind_of
from hyperslab.studies.summary import case_title

PER_CASE = ("resolution", "session", "ramp", "grid")
BLOCKS = {
    "sizes": ("File size", size_table),
    "writes": ("Writing", write_table),
    "published": ("Measured and published", published_table),
    "objects": ("Many small datasets", objects_table),
    "rows": ("Ragged rows", rows_table),
    "requests": ("Requests beside times", requests_table),
    "speedup": ("Several workers", speedup_table),
    "parallel": ("Parallel reading and writing", parallel_table),
    "clients": ("Several clients", clients_table),
    "subvolumes": ("Sub-volumes written by ranks", subvolumes_table),
    "levels": ("Coarse to fine", levels_table),
    "score": ("Score", score_table),
    "tradeoff": ("Trade-off", tradeoff_table),
    "store": ("Requests to the object store", store_table),
    "gateway": ("The gateway before the object store", gateway_table),
    "prices": ("What it costs", prices_table),
    "counts": ("Counts beside times", count_table),
}
# What the page opens with, before any table.
OPENING = "tradeoff"
# Further figures of a block.
BESIDE = {"sizes": ("ratios",), "tradeoff": ("mix",)}


def build_page(given: Inputs) -> Page:
    """Return the page of one study.

    What is missing is said on the page: no site, figure or cell has to have results.
    """
    data, study, claims = gather(given), given.study, given.claims
    at_a_glance, note = overview(data)
    drawn = {
        site: {str(name): embed(str(name), str(text), Path(path)) for name, text, path in given.figures[site]}
        for site in given.figures
    }
    pictures = [
        Picture(site, f"picture-{number}", figure)
        for number, site in enumerate(data.sites, 1)
        if (figure := drawn.get(site, {}).pop(OPENING, None))
    ]
    sites = [
        _site(data, site, f"site-{number}", drawn.get(site, {})) for number, site in enumerate(data.sites, 1)
    ]
    return Page(
        title=str(study["title"]),
        study=str(study["name"]),
        question=_question(data),
        facts=_facts(data),
        pictures=pictures,
        overview=at_a_glance,
        overview_note=note,
        answers=[site_answer(data, site, f"answer-{number}") for number, site in enumerate(data.sites, 1)],
        checks=checks(data),
        sites=sites,
        context=context_tables(data),
        method=METHOD,
        columns=column_tables(),
        claims=claim_rows([claims], _place(sites, pictures)) if claims else (),
        front_door=given.front_door,
    )


def _question(data: Data) -> str:
    """Return what the page answers, in one line."""
    if not recommends(data):
        return "what is fastest on these machines, case by case?"
    what, they_are = ("these rows", "they are") if "rows" in data.study else ("this array", "it is")
    # What only writes is recommended where a mix weighs it.
    done = "read" if reads(data.study) else "written"
    return f"how should {what} be stored, on these machines, for the way {they_are} {done}?"


def _place(sites: Sequence[SiteSection], pictures: Sequence[Picture]) -> Place:
    """Return where on the page a figure of a site is: the block that shows it, or the opening."""
    anchors = {
        (section.site, figure.name): f"#{block.anchor}"
        for section in sites
        for block in section.blocks
        for figure in block.figures
    }
    anchors |= {(picture.site, picture.figure.name): f"#{picture.anchor}" for picture in pictures}
    return lambda study, site, figure: anchors.get((site, figure))


def _facts(data: Data) -> list[Fact]:
    """Return what the study is about, in a few lines."""
    study = data.study
    extents = ", ".join(f"{axis} {size:,}" for axis, size in zip(study["axes"], study["shape"], strict=True))
    what = study.get("rows")
    layouts, cases = fmt.count(len(study["layouts"]), "layout"), fmt.count(len(study["cases"]), "case")
    raw, bound = fmt.megabytes(study["raw_bytes"]), f"{study['size_bound']:g} x the raw data"
    states, rounds = fmt.listing(study["states"]), fmt.count(study["rounds"], "round")
    if most := study.get("most_rounds"):
        rounds = f"{study['rounds']} to {fmt.count(most, 'round')}, as many as decide,"
    question = f"which of {layouts} is fastest, {states}, in a file of at most {bound}"
    content = f"{what or extents}; {study['dtype']}; {raw}; values: {study['fill']}"
    facts = [
        Fact("Rows" if what else "Array", content),
        Fact("Question", question if recommends(data) else f"what is fastest, of {layouts}, case by case"),
        Fact("Measured", f"{cases} in {rounds} at {fmt.listing(data.sites) or 'no site'}"),
    ]  # fmt: skip
    return [*facts, Fact("After", str(study["source"]))] if study.get("source") else facts


def _site(data: Data, site: str, anchor: str, drawn: dict[str, Figure]) -> SiteSection:
    """Return the figures of a site, each group followed by its numbers."""
    pick = data.choice(site).get("pick")
    blocks: list[tuple[str, Sequence[Figure], Sequence[Table | None], Sequence[Fact]]] = []
    for case, described in data.study["cases"].items():
        if kind_of(described).reads_selections:
            names = [f"{kind}-{case}" for kind in PER_CASE]
            found = [view_table(data, site, case, pick), case_table(data, site, case, pick)]
            blocks.append((case_title(data.study, case), _take(drawn, names), found, ()))
    for name, (title, make) in BLOCKS.items():
        # A block has a figure of its name, or one for each case or family of cases.
        own = [name, *BESIDE.get(name, ()), *(f"{name}-{case}" for case in data.study["cases"])]
        own += [f"{name}-{case['family']}" for case in data.study["cases"].values() if "family" in case]
        facts = matched_facts(data, site) if name == "score" else ()
        blocks.append((title, _take(drawn, own), [make(data, site, pick)], facts))
    if drawn:
        blocks.append(("Further figures", list(drawn.values()), [], ()))
    kept = [_block(f"{anchor}-{number}", *parts) for number, parts in enumerate(blocks, 1)]
    kept = [block for block in kept if block.figures or block.tables or block.facts]
    empty = data.main(site).empty
    return SiteSection(site, anchor, kept, "There are no valid results of this site." if empty else "")


def _take(drawn: dict[str, Figure], names: Sequence[str]) -> list[Figure]:
    """Return the figures of these names, removed from those still to be placed."""
    return [drawn.pop(name) for name in names if name in drawn]


def _block(
    anchor: str, title: str, figures: Sequence[Figure], tables: Sequence[Table | None], facts: Sequence[Fact]
) -> Block:
    """Return one block without the tables that there are no numbers for."""
    return Block(title, anchor, figures, [found for found in tables if found is not None], facts)
