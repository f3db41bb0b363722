"""The page of an advice: the sentence, the picture, then what was probed, predicted and verified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from hyperslab import text as fmt
from hyperslab.report import advice_remarks, advice_sentence, advice_tables, advice_whole, copies
from hyperslab.report.answer import ranked
from hyperslab.report.data import Data
from hyperslab.report.model import Fact, Figure, Table
from hyperslab.report.quoted import times


@dataclass(frozen=True)
class SiteAdvice:
    """The advice for one site, as texts; `code` is how two copies are read, [] where they do not pay."""

    site: str
    sentence: str
    remarks: Sequence[str]
    figure: Figure
    verified: Table | None
    whole: Table | None
    copies: str
    code: Sequence[str]
    probed: Sequence[Fact]
    filters: Table | None
    predicted: Table


@dataclass(frozen=True)
class AdvicePage:
    """Everything a reader sees, as texts."""

    title: str
    study: str
    sites: Sequence[SiteAdvice]
    remarks: Sequence[str]
    timeline: Sequence[Fact]


def build(
    data: Data, prediction: Mapping[str, Any], figures: Mapping[str, Figure], ended: float
) -> AdvicePage:
    """Return the page of a study's data and its prediction.json; `ended` is when it was there first, seconds
    since 1970.
    """
    return AdvicePage(
        title=str(data.study["title"]),
        study=str(data.study["name"]),
        sites=[_site(data, prediction, site, figures[site]) for site in prediction["sites"]],
        remarks=list(advice_remarks.remarks(data, prediction)),
        timeline=advice_tables.timeline(data, prediction, ended),
    )


def _site(data: Data, prediction: Mapping[str, Any], site: str, figure: Figure) -> SiteAdvice:
    """Return the advice for one site."""
    choice, here = data.choice(site), prediction["sites"][site]
    estimated, second, code = pd.DataFrame(), "", list[str]()
    remarks = []
    if choice.get("pick") is not None:
        found = times(data, site, "main")
        estimated = advice_whole.estimates(found, here)
        pair = _pair(prediction, site, str(choice["pick"]))
        second, code = _copies(data, prediction, site, found, pair)
        remarks = [
            advice_whole.sentence(estimated, choice, prediction, site),
            advice_remarks.chosen_by(choice),
            advice_remarks.drawn(here),
            advice_remarks.in_memory(prediction, site, ranked(choice, choice["pick"])),
            advice_remarks.plug_ins(
                prediction, [choice["pick"], *([pair["layout"]] if pair and second else [])]
            ),
        ]
    # Between passes of the verification sites are probed again (hyperslab.add_rounds).
    probes = [*here["probes"], *(data.rounds or {}).get("probes", {}).get(site, [])]
    return SiteAdvice(
        site=site,
        sentence=advice_sentence.sentence(data, prediction, site, choice, estimated),
        remarks=list(filter(None, remarks)),
        figure=figure,
        verified=advice_tables.verified(data, prediction, site, choice),
        whole=advice_whole.estimate_table(estimated, fmt.shape(prediction["shape"])),
        copies=second,
        code=code,
        probed=advice_tables.probed(probes, data.fresh[data.fresh["site"] == site]),
        filters=advice_tables.filters(here),
        predicted=advice_tables.predicted(prediction, here),
    )


def _pairs(prediction: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the two copies of every site, by the names of their layouts: all sites measure them."""
    found = (one["copies"] for one in prediction["sites"].values())
    return {pair["layout"]: pair for pair in found if pair}


def _pair(prediction: Mapping[str, Any], site: str, pick: str) -> Mapping[str, Any] | None:
    """Return the two copies that a site is told of: those advised, whichever site's, or its own, if any."""
    own: Mapping[str, Any] | None = prediction["sites"][site]["copies"]
    return _pairs(prediction).get(pick, own)


def _copies(
    data: Data,
    prediction: Mapping[str, Any],
    site: str,
    found: pd.DataFrame,
    pair: Mapping[str, Any] | None,
) -> tuple[str, list[str]]:
    """Return the second answer, two copies in one file, and how they are read; "" where these do not pay."""
    choice, rows = data.choice(site), data.main(site)
    if not pair or not (rows["layout"] == pair["layout"]).any():
        return "", []
    picked = choice["pick"] == pair["layout"]
    # Rewritten are HDF5 files alone, and values that lie in them.
    rewritten = "::" in prediction["array"] and prediction.get("rewritable", True)
    own = prediction["file"] if rewritten else ""
    study, layout = data.study["name"], "recommended" if picked else pair["layout"]
    file = f"results/{study}/layout/{layout}.h5" if own else ""
    code = copies.lines(prediction, pair, file)
    command = f"make rewrite STUDY={study}" + ("" if picked else f" LAYOUT={layout}")
    if picked:
        where = f" SITE={site}" if len(prediction["sites"]) > 1 else ""
        made = f"`{command}{where}` writes your file with both. " if own else ""
        return f"{made}Both copies are read so:", code
    size = float(rows[rows["layout"] == pair["layout"]]["file_bytes"].median())
    better = copies.pays(found, choice, pair["layout"], _pairs(prediction), size)
    if better is None:
        return "", []
    return copies.sentence(found, pair, *better, size, prediction["raw_bytes"], command if own else ""), code
