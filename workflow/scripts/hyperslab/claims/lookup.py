"""What was measured, as comparisons ask for it: families of rounds by site, case, state and quantity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from hyperslab.claims.families import Family, Interval, combine, spread_over_rounds
from hyperslab.results.scoring import site_state
from hyperslab.studies.claims.quantities import QUANTITIES, Quantity

# (weight, case, layout, state, quantity), on side "a" or "b" of a comparison.
Term = Sequence[Any]
Side = str
# (side, factor, terms) of the cells that are added up.
Sum = Sequence[tuple[Side, float, Sequence[Term]]]


class Untestable(Exception):
    """Why a comparison cannot be made with the results that there are."""


def per_round(rows: pd.DataFrame, quantity: Quantity) -> pd.DataFrame:
    """Return layouts x rounds of a quantity, from repeats of one site, case and state;
    NaN where not recorded.
    """
    total = rows[list(quantity.columns)].sum(axis=1, skipna=False)
    values = total.groupby([rows["layout"], rows["round"]], sort=True).agg(quantity.take)
    table = values.unstack("round")
    return table.where(np.isfinite(table)).dropna(how="all")


class Lookup:
    """The valid main rounds of a study at the sites that the sides of a comparison lie on."""

    def __init__(self, measurements: pd.DataFrame, sites: Mapping[Side, str]) -> None:
        self._rows = {site: measurements[measurements["site"] == site] for site in set(sites.values())}
        self._sites = sites
        # Timing protocols older than today's under which some of what was looked at was measured.
        self.older_protocols: set[int] = set()
        self._family = cache(self._make_family)

    def site(self, side: Side = "a") -> str:
        """Return the site that a side lies on."""
        return self._sites[side]

    def _make_family(self, site: str, case: str, state: str, quantity: str) -> Family:
        rows = self._rows[site]
        rows = rows[rows["case"] == case]
        if rows.empty:
            raise Untestable(f"no valid results of case {case} at {site}")
        known = QUANTITIES[quantity]
        # What a file holds does not depend on how it was read.
        if quantity not in STATELESS:
            rows = rows[rows["state"] == site_state(rows, state)]
            if rows.empty:
                raise Untestable(f"case {case} was not measured in state {state} at {site}")
            if "older_protocol" in rows:
                self.older_protocols |= set(rows["older_protocol"].dropna().astype(int))
        missing = [name for name in known.columns if name not in rows]
        values = pd.DataFrame() if missing else per_round(rows, known)
        if values.empty:
            raise Untestable(f"{known.title} of case {case} was not recorded at {site}")
        return Family(values)

    def family(self, side: Side, term: Term) -> Family:
        """Return the family of a term; raises Untestable where it, or the term's layout, was not measured."""
        _, case, layout, state, quantity = term
        site = self._sites[side]
        family = self._family(site, case, state, quantity)
        if layout not in family.values.index:
            raise Untestable(f"no valid results of layout {layout} in case {case} at {site}")
        return family

    def _weights(self, asked: Sum) -> dict[Family, dict[str, float]]:
        """Return the terms of several cells, each with a factor, by family and layout."""
        found: dict[Family, dict[str, float]] = {}
        for side, factor, terms in asked:
            for term in terms:
                own = found.setdefault(self.family(side, term), {})
                own[term[2]] = own.get(term[2], 0.0) + factor * term[0]
        # What cancels was not asked for: a layout against itself, as part of two sets.
        return {
            family: kept
            for family, own in found.items()
            if (kept := {name: weight for name, weight in own.items() if weight})
        }

    def log_sums(
        self, asked: Sequence[Sum], alpha: float, exact: bool, these_rounds: bool = False
    ) -> list[Interval]:
        """Return the weighted sums of the logs of cells: with joint t intervals,
        or for counts with their range.
        """
        weights = [self._weights(one) for one in asked]
        if exact:
            return [spread_over_rounds(own) if own else Interval(0.0, 0.0, 0.0) for own in weights]
        return combine(weights, alpha, these_rounds)


# Quantities of the file alone.
STATELESS = frozenset(
    {
        "file_bytes",
        "data_bytes",
        "padding_bytes",
        "index_bytes",
        "remainder_bytes",
        "chunks",
        "ratio_raw",
        "ratio_padded",
    }
)
