"""The page of all claims, from every claims.json and the claims that have no results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hyperslab import text as fmt
from hyperslab.report import templates
from hyperslab.report.claims import groups, lies_on, rows
from hyperslab.report.claims_model import ClaimsPage
from hyperslab.report.model import Figure, embed
from hyperslab.studies import figures
from hyperslab.studies.claims.schema import NO_STUDY


def anchor(study: str, site: str, figure: str) -> str:
    """Return the place of a figure on the page."""
    return f"figure-{study}-{site}-{figure}"


def build(
    judged: Sequence[Mapping[str, Any]],
    pending: Sequence[Mapping[str, Any]],
    files: Iterable[str],
    reports: Iterable[Mapping[str, str]] = (),
) -> ClaimsPage:
    """Return the page from the content of every claims.json, the claims without results, figure files and
    the studies whose reports are its neighbours.

    A figure's path ends in STUDY/figures/SITE/NAME.svg; it is embedded once, where a claim shows it, but for
    those that are in a neighbour.
    """
    neighbours = {report["study"]: report["title"] for report in reports}
    paths = map(Path, files)
    drawn = {anchor(path.parts[-4], path.parent.name, path.stem): path for path in paths}
    embedded: dict[str, Figure] = {}

    def place(study: str, site: str, figure: str) -> str | None:
        name = anchor(study, site, figure)
        if name in drawn and study in neighbours:
            return f"{study}/report.html#{templates.figure_anchor(site, figure)}"
        if name in drawn and name not in embedded:
            title = f"{study}, {site}. {figures.caption(figure)}"
            embedded[name] = embed(figure, title, drawn[name])
        return f"#{name}" if name in drawn else None

    contents = [*judged, *pending]
    made = rows(contents, place)
    claims = {(content["study"], claim["id"]): claim for content in contents for claim in content["claims"]}
    sources = {row.anchor: claims[row.study, row.claim]["source"] for row in made}
    names = [content["study"] for content in pending if content["study"] != NO_STUDY]
    # A claim may have been judged before anything was measured for it.
    measured = [_where(content) for content in judged if content["sites"]]
    return ClaimsPage(groups(made, sources), list(embedded.items()), measured, names, neighbours)


def _where(content: Mapping[str, Any]) -> str:
    """Return a study and where it was measured: "openmsi-baseline at disk (ext4) and memory (tmpfs)"."""
    sites = [f"{site} ({lies_on(facts)})" for site, facts in content["sites"].items()]
    return f"{content['study']} at {fmt.listing(sites)}"
