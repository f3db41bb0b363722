"""What was measured, as comparisons ask for it: the logs of rounds by site, case, state and quantity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from hyperslab.claims.verdicts import Verdict
from hyperslab.results.comparisons import Floats
from hyperslab.results.scoring import site_state
from hyperslab.results.statistics import by_mean
from hyperslab.studies.claims.quantities import QUANTITIES, Quantity

# (weight, case, layout, state, quantity), on side "a" or "b" of a comparison.
Term = Sequence[Any]
Side = str
# (side, factor, terms) of the cells that are added up.
Sum = Sequence[tuple[Side, float, Sequence[Term]]]
# Repeats by site and case.
Rows = Mapping[str, Mapping[str, pd.DataFrame]]


# Below this a sum of weights is rounding, not a weight.
CANCELS = 1e-12


class Untestable(Exception):
    """Why a comparison cannot be made with the results that there are."""

    verdict: Verdict = "cannot be tested"


class NotMeasured(Untestable):
    """Which results a comparison lacks."""

    verdict: Verdict = "not measured"


def by_case(measurements: pd.DataFrame) -> dict[str, dict[str, pd.DataFrame]]:
    """Return the repeats of a study by site and case, as a Lookup takes them."""
    found: dict[str, dict[str, pd.DataFrame]] = {}
    # At once: to group the rows of each site by themselves takes as long for each.
    for (site, case), rows in measurements.groupby(["site", "case"], sort=False, observed=True):
        found.setdefault(site, {})[case] = rows
    return found


def per_round(rows: pd.DataFrame, quantity: Quantity) -> pd.DataFrame:
    """Return layouts x rounds of a quantity, from repeats of one site, case and state;
    NaN where not recorded.
    """
    total = sum(rows[name].to_numpy(dtype=float) for name in quantity.columns)
    geometric = quantity.take == "geometric mean"
    row, layouts = pd.factorize(rows["layout"], sort=True)
    place, rounds = pd.factorize(rows["round"], sort=True)
    # By number: groups by two columns, of which one is text, take several times as long.
    grouped = pd.Series(np.log(total) if geometric else total).groupby(row * len(rounds) + place)
    values = np.exp(grouped.mean()) if geometric else grouped.agg(quantity.take)
    table = np.full(len(layouts) * len(rounds), np.nan)
    table[values.index] = values
    grid = np.where(np.isfinite(table), table, np.nan).reshape(len(layouts), len(rounds))
    known = ~np.isnan(grid).all(axis=1)
    return pd.DataFrame(grid[known], layouts[known], rounds)


class Tables:
    """The repeats of a study by site and case, and what is made of them once for all of its claims."""

    def __init__(self, rows: Rows) -> None:
        """Take the repeats by site and case."""
        self.rows = rows
        self.rounds = cache(self._rounds)
        self.in_state = cache(self._in_state)
        self.logs = cache(self._logs)

    def of_case(self, site: str, case: str) -> pd.DataFrame:
        """Return the repeats of a case in all states; raises NotMeasured."""
        rows = self.rows.get(site, {}).get(case)
        if rows is None:
            raise NotMeasured(f"no valid results of case {case} at {site}")
        return rows

    def _rounds(self, site: str) -> frozenset[int]:
        """Return the rounds of all cases of a site."""
        tables = self.rows.get(site, {}).values()
        return frozenset(number for table in tables for number in table["round"].unique())

    def _in_state(self, site: str, case: str, state: str) -> tuple[pd.DataFrame, frozenset[int]]:
        """Return the repeats in a state, and the protocols older than today's that they were measured by."""
        rows = self.of_case(site, case)
        rows = rows[rows["state"] == site_state(rows, state)]
        if rows.empty:
            raise NotMeasured(f"case {case} was not measured in state {state} at {site}")
        older = rows["older_protocol"].dropna().astype(int) if "older_protocol" in rows else ()
        return rows, frozenset(older)

    def _logs(self, site: str, case: str, state: str, quantity: str) -> pd.DataFrame:
        """Return layouts x rounds of the logs of a quantity; raises Untestable."""
        known = QUANTITIES[quantity]
        # What a file holds does not depend on how it was read.
        rows = self.of_case(site, case) if known.of_file else self.in_state(site, case, state)[0]
        # Of a site that is held back a median is the time of a burst: reports and scores take means, too,
        # and at least what the limit alone takes.
        held = known.take == "median" and not known.exact and "throttled_s" in rows and by_mean(rows)
        if held:
            known = replace(known, take="mean")
        missing = [name for name in known.columns if name not in rows]
        values = pd.DataFrame() if missing else per_round(rows, known)
        if held and not missing and "time_s" in known.columns:
            limit = rows["throttled_s"].astype(float).fillna(0.0)
            values = np.fmax(values, per_round(rows.assign(time_s=limit), known))
        if values.empty:
            raise Untestable(f"{known.title} of case {case} was not recorded at {site}")
        with np.errstate(divide="ignore"):
            return np.log(values)


class Lookup:
    """The valid main rounds of a study at the sites that the sides of a comparison lie on.

    A sum of logs (a ratio, an exponent, a geometric mean over a grid) is formed within each round: what slows
    a whole round cancels there. Rounds of two sites pair by their number.
    """

    def __init__(self, tables: Tables, sites: Mapping[Side, str]) -> None:
        """Take the repeats, and the site of each side."""
        self._tables = tables
        self._sites = sites
        # Timing protocols older than today's under which some of what was looked at was measured.
        self.older_protocols: set[int] = set()
        self._rounds = sorted({number for site in set(sites.values()) for number in tables.rounds(site)})
        self._table = cache(self._make_table)

    def site(self, side: Side = "a") -> str:
        """Return the site that a side lies on."""
        return self._sites[side]

    def _make_table(self, site: str, case: str, state: str, quantity: str) -> dict[str, Floats]:
        """Return the logs of each layout in all rounds."""
        if not QUANTITIES[quantity].of_file:
            self.older_protocols |= self._tables.in_state(site, case, state)[1]
        logs = self._tables.logs(site, case, state, quantity)
        if list(logs.columns) != self._rounds:
            logs = logs.reindex(columns=self._rounds)
        return dict(zip(logs.index, logs.to_numpy(), strict=True))

    def _logs(self, site: str, case: str, layout: str, state: str, quantity: str) -> Floats:
        table = self._table(site, case, state, quantity)
        if layout not in table:
            raise NotMeasured(f"no valid results of layout {layout} in case {case} at {site}")
        return table[layout]

    def in_rounds(self, asked: Sum) -> Floats:
        """Return the sum of logs in each round, of shape (R,); NaN where a round lacks a part of it.

        Raises Untestable where a part was not measured at all, or nothing is divided by nothing.
        """
        weights: dict[tuple[Any, ...], float] = {}
        for side, factor, terms in asked:
            for weight, case, layout, state, quantity in terms:
                key: tuple[Any, ...] = (self._sites[side], case, layout, state, quantity)
                weights[key] = weights.get(key, 0.0) + factor * weight
        total: Floats = np.zeros(len(self._rounds))
        recorded = np.ones(len(self._rounds), bool)
        for key, weight in weights.items():
            logs = self._logs(*key)
            # What cancels was not asked for: a layout against itself, as part of two sets.
            if abs(weight) > CANCELS:
                recorded &= ~np.isnan(logs)
                with np.errstate(invalid="ignore"):
                    total = total + weight * logs
        total = np.where(recorded, total, np.nan)
        if recorded.any() and np.isnan(total[recorded]).all():
            raise Untestable("nothing to divide by: both counts are zero")
        return total
