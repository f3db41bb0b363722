"""The tables behind a page, cleaned once: names as text, stale rows apart, confirming rounds summarised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from hyperslab.results.recommendation import choice_of
from hyperslab.results.statistics import summarise
from hyperslab.results.tables import completed, named
from hyperslab.studies.summary import Meta

# (site, layout, case, round) with rounds written r0, r1, ... (main) and c0, c1, ... (confirm).
PlannedCell = tuple[str, str, str, str]
CELL = ["site", "layout", "case", "phase", "round"]


# name, caption, file: figures are named "session-<case>", "ramp-<case>", "grid-<case>", or after a block.
FigureFile = tuple[str, str, str | Path]


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What a page is made from: `study_meta` of the study, its tables, and what its JSON files hold.

    `measurements` are one row a repeat, stale rows included; `summary` is that of the main rounds;
    `confirmation` the repeats of the confirming rounds (columns of `measurements`), or None; `figures` per
    site, in order; `expected` every planned cell; `claims` the content of claims.json;
    `front_door` the address of the page of all claims, "" for a page that stands alone; `rounds` the content
    of rounds.json, None where no rounds are added.
    """

    study: Meta
    measurements: pd.DataFrame
    summary: pd.DataFrame
    context: Sequence[Mapping[str, Any]]
    score: Mapping[str, Any]
    recommendation: Mapping[str, Any]
    confirmation: pd.DataFrame | None
    figures: Mapping[str, Sequence[FigureFile]]
    expected: Sequence[PlannedCell]
    claims: Mapping[str, Any] | None = None
    front_door: str = ""
    rounds: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Data:
    """What every part of the page is made from.

    `rows` are all repeats of both phases, `fresh` those that are not stale; `summary` and `confirmed` are one
    row a round (see `hyperslab.results.statistics`), of the choosing and of the confirming rounds.
    """

    study: Meta
    rows: pd.DataFrame
    fresh: pd.DataFrame
    summary: pd.DataFrame
    confirmed: pd.DataFrame
    context: Sequence[Mapping[str, Any]]
    score: Mapping[str, Any]
    recommendation: Mapping[str, Any]
    expected: Sequence[PlannedCell]
    sites: Sequence[str]
    rounds: Mapping[str, Any] | None = None

    def main(self, site: str) -> pd.DataFrame:
        """Return the repeats of a site's choosing rounds that are not stale."""
        return self._mains.get(site, self.fresh.iloc[:0])

    @cached_property
    def _mains(self) -> Mapping[str, pd.DataFrame]:
        """The same by site: some twenty tables of a page are made of them."""
        rows = self.fresh[self.fresh["phase"] == "main"]
        return {str(site): here for site, here in rows.groupby("site", sort=False, observed=True)}

    def summary_of(self, site: str, phase: str = "main") -> pd.DataFrame:
        """Return the summary of one site in one phase, "main" or "confirm"."""
        source = self.confirmed if phase == "confirm" else self.summary
        return source[source["site"] == site]

    @cached_property
    def confirming_rounds(self) -> Mapping[tuple[str, ...], int]:
        """How many confirming rounds there are of each site, layout, case and state."""
        keys = ["site", "layout", "case", "state"]
        cells = self.confirmed[[*keys, "round"]].drop_duplicates()
        return Counter(zip(*(cells[key] for key in keys), strict=True))

    def choice(self, site: str) -> Mapping[str, Any]:
        """Return the recommendation of a site; empty where there is none."""
        return choice_of(self.recommendation, site)

    def references(self) -> list[tuple[str, str | None]]:
        """Return what the pick is compared with: words for it,
        and the layout's name (None: not in the study).
        """
        automatic = self.recommendation.get("automatic")
        filters = self.study["layouts"].get(automatic, {}).get("filters")
        words = "automatic chunks" + (f" with {filters}" if filters else "")
        return [("contiguous", self.recommendation.get("contiguous")), (words, automatic)]


def gather(given: Inputs) -> Data:
    """Return the tables as `Data`; sites in the order in which plan, figures and results name them."""
    confirmation = given.confirmation
    rows = completed(given.measurements).reset_index(drop=True)
    rows = rows[rows["phase"] == "main"] if confirmation is not None else rows
    if confirmation is not None and len(confirmation):
        again = named(confirmation)
        rows = pd.concat([rows, again[again["phase"] == "confirm"]], ignore_index=True)
    fresh = rows[~rows["stale"].astype(bool)]
    cells = [
        (str(site), str(layout), str(case), str(round_)) for site, layout, case, round_ in given.expected
    ]
    sites = (
        [cell[0] for cell in cells]
        + list(given.figures)
        + list(rows["site"])
        + [entry["site"] for entry in given.context]
    )
    summary = named(given.summary).reset_index(drop=True)
    return Data(
        given.study,
        rows,
        fresh,
        summary[summary["phase"] == "main"],
        summarise(fresh[fresh["phase"] == "confirm"]),
        given.context,
        given.score,
        given.recommendation,
        cells,
        list(dict.fromkeys(str(name) for name in sites)),
        given.rounds,
    )


def medians(rows: pd.DataFrame, by: Sequence[str], columns: Sequence[str]) -> pd.DataFrame:
    """Return the median of each column for each group, NaN where nothing was recorded."""
    return rows.groupby(list(by), sort=False, observed=True)[list(columns)].median()
