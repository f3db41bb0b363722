"""The opening where nothing is recommended because nothing is read: the fastest and slowest of every case."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from hyperslab import text as fmt
from hyperslab.report.data import Data
from hyperslab.report.model import Cell, Table, table
from hyperslab.report.numbers import pooled
from hyperslab.states import STATES
from hyperslab.studies.case_kinds import kind_of
from hyperslab.studies.summary import case_title, in_order

NOTE = (
    "The fastest in each state, with its typical time (geometric mean over the rounds of a round's median, "
    "of a session's geometric mean, of the mean of throttled cold reads and writes) and its own 95 % "
    "interval, and the slowest. The fastest of many flatters itself: whether two differ, the claims and "
    "tables below say."
)
# Title of a contest -> its cases, each with what sets it apart from the others ("" where layouts do).
Contests = dict[str, dict[str, str]]


def reads(study: Mapping[str, Any]) -> bool:
    """Return whether selections are read."""
    return any(kind_of(case).reads_selections for case in study["cases"].values())


def recommends(data: Data) -> bool:
    """Return whether there is something to recommend: selections are read, or what a mix names decides."""
    return reads(data.study) or any(data.choice(site).get("pick") for site in data.sites)


def fastest_table(data: Data) -> Table:
    """Return one row a site and case, one column a state.

    Layouts compete with each other; in parallel cases interfaces do, too, in reductions numbers of workers.
    """
    states = in_order(set(data.summary["state"]), STATES)
    rows: list[list[Any]] = []
    for site, (title, cases) in itertools.product(data.sites, _contests(data.study).items()):
        cells = [_cell(_ranked(data, site, cases, state)) for state in states]
        if any(cell.text != fmt.ABSENT for cell in cells):
            rows.append([site, title, *cells])
    columns = ["Site", "Case", *(state.capitalize() for state in states)]
    nothing = [Cell("no valid results", "", "unknown"), *[fmt.ABSENT] * (len(columns) - 1)]
    return table("The fastest of each case", columns, rows or [nothing], NOTE)


def _contests(study: Mapping[str, Any]) -> Contests:
    found: Contests = {}
    for name, case in study["cases"].items():
        title, apart = kind_of(case).apart(case, case_title(study, name))
        if not apart and title in found:
            title = f"{title} ({name})"
        found.setdefault(title, {})[name] = apart
    return found


def _ranked(
    data: Data, site: str, cases: Mapping[str, str], state: str
) -> list[tuple[str, Mapping[str, Any]]]:
    """Return what competes in one state and its summary, the fastest first."""
    rows = data.summary_of(site)
    several = len(data.study["layouts"]) > 1
    found = [
        (", ".join(filter(None, [apart, str(layout) if several or not apart else ""])), entry)
        for case, apart in cases.items()
        for layout, entry in pooled(rows[rows["case"] == case], state).iterrows()
    ]
    return sorted(found, key=lambda named: named[1]["pooled_median_s"])


def _cell(ranked: list[tuple[str, Mapping[str, Any]]]) -> Cell:
    """Return the fastest with time and interval, and the slowest with its time."""
    if not ranked:
        return Cell(fmt.ABSENT)
    (fastest, best), (slowest, worst) = ranked[0], ranked[-1]
    spread = fmt.time_interval(best["pooled_low_s"], best["pooled_high_s"])
    time = fmt.seconds(best["pooled_median_s"])
    note = f"{time} ({spread})" if spread else time
    last = f"; slowest {slowest}, {fmt.seconds(worst['pooled_median_s'])}" if len(ranked) > 1 else ""
    return Cell(fastest, note + last)
