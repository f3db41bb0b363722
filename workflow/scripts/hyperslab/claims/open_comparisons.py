"""Which comparisons of a study are still open, and which cells decide them: for adaptive rounds.

A comparison is one of a claim that cannot be told yet, or the best layout of a recommendation against one
that cannot be told from it. The latter is decided, too, where both are surely as fast. What more rounds
cannot decide is no comparison here: counts, and claims that cannot be tested or lack results. Of a comparison
of many layouts only those get more rounds that may still decide it (claims/undecided.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hyperslab.claims.verdicts import NO_VERDICTS
from hyperslab.results.comparisons import MATTERS
from hyperslab.studies.claims.compared import cells_of

if TYPE_CHECKING:
    import pandas as pd

OPEN = "cannot tell"

# (site, layout, case)
Cell = tuple[str, str, str]


@dataclass(frozen=True)
class Comparison:
    """A comparison in words, the cells that it is made of, or of which more rounds may still decide it, and
    whether it is open. `rounds` are the most on which it rests, where not all of its cells have as many.
    """

    says: str
    cells: tuple[Cell, ...]
    open: bool
    rounds: int | None = None

    @property
    def sites(self) -> list[str]:
        """The sites of its cells."""
        return sorted({site for site, _, _ in self.cells})


def comparisons(
    claims: Sequence[Mapping[str, Any]],
    judged: Mapping[str, Any],
    recommendation: Mapping[str, Any] | None,
) -> list[Comparison]:
    """Return every comparison that rounds can decide.

    `claims` are those of the study, resolved, `judged` is the content of claims.json, `recommendation` that
    of recommendation.json, None where nothing is confirmed and so no pick has to be sure.
    """
    found = list(_of_claims(claims, judged))
    for site in recommendation["sites"] if recommendation else ():
        found += _of_pick(site)
    return found


def _of_claims(claims: Sequence[Mapping[str, Any]], judged: Mapping[str, Any]) -> Iterator[Comparison]:
    known = {claim["id"]: claim for claim in claims}
    for entry in judged["claims"]:
        for verdict in entry["verdicts"]:
            if verdict["comparisons"] and verdict["verdict"] not in NO_VERDICTS:
                yield from _of_verdict(known[entry["id"]], verdict)


def _of_verdict(claim: Mapping[str, Any], verdict: Mapping[str, Any]) -> Iterator[Comparison]:
    """Yield the comparisons of one claim at one site (or pair of sites): open only while the claim is."""
    sites = {"a": verdict["sites"][0], "b": verdict["sites"][-1]}
    timed = [
        (comparison, instance, result)
        for comparison, found in zip(claim["comparisons"], verdict["comparisons"], strict=True)
        for instance, result in zip(comparison["instances"], found["results"], strict=True)
        if comparison["judged"] and not comparison["exact"] and result["verdict"] not in NO_VERDICTS
    ]
    for comparison, instance, result in timed:
        open_ = verdict["verdict"] == OPEN and result["verdict"] == OPEN
        wanted = result.get("undecided") if open_ else None
        of_sides = cells_of(comparison, instance) if wanted is None else wanted
        cells = tuple(dict.fromkeys((sites[side], layout, case) for side, layout, case in of_sides))
        yield Comparison(f"{claim['id']}: {instance['says']}", cells, open_, result.get("most_rounds"))


def _of_pick(site: Mapping[str, Any]) -> Iterator[Comparison]:
    """Yield the best layout of a site against each other one that is small enough."""
    best = site["best"]
    cases = dict.fromkeys(key.split(" ")[0] for key in site["shares"])
    for entry in site["ranking"] if best else ():
        if entry["layout"] == best or not entry["fits"]:
            continue
        known = entry["low"] is not None
        # Both below what anybody notices: nothing differs, and no round would change that.
        same = entry["to_best"] == 1
        as_fast = same or (known and entry["low"] >= 1 / MATTERS and entry["high"] <= MATTERS)
        cells = tuple((site["site"], layout, case) for case in cases for layout in (best, entry["layout"]))
        yield Comparison(f"{best} against {entry['layout']}", cells, entry["tied"] and not as_fast)


def open_cells(found: Iterable[Comparison]) -> dict[str, list[tuple[str, str]]]:
    """Return the (layout, case) cells of all open comparisons by site, each once, in order.

    What many comparisons refer to is among them, as a side of each.
    """
    cells: dict[str, set[tuple[str, str]]] = {}
    for comparison in found:
        if comparison.open:
            for site, layout, case in comparison.cells:
                cells.setdefault(site, set()).add((layout, case))
    return {site: sorted(own) for site, own in sorted(cells.items())}


def rounds_of(comparison: Comparison, measured: Mapping[Cell, set[int]]) -> int:
    """Return on how many rounds a comparison rests; `measured` are `rounds_by_cell`.

    All of its cells have them, but for those of a decided one whose last rounds were of some of them.
    """
    if comparison.rounds and not comparison.open:
        return comparison.rounds
    return len(set.intersection(*(measured.get(cell, set()) for cell in comparison.cells)))


def rounds_by_cell(rows: pd.DataFrame) -> dict[Cell, set[int]]:
    """Return (site, layout, case) -> the numbers of its rounds, of rows that are main and not stale."""
    found: dict[Cell, set[int]] = {}
    distinct = rows[["site", "layout", "case", "round"]].drop_duplicates()
    for site, layout, case, number in distinct.itertuples(index=False):
        found.setdefault((str(site), str(layout), str(case)), set()).add(int(number))
    return found
