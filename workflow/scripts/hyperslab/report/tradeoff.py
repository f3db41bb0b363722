"""The numbers of the trade-off: times of the two cases that it shows, and which layouts no other beats."""

from __future__ import annotations

from typing import Any

from hyperslab import text as fmt
from hyperslab.report.data import Data
from hyperslab.report.model import Cell, Table, table
from hyperslab.results.front import FRONT, tradeoff
from hyperslab.states import cold_of
from hyperslab.studies.summary import case_title, in_order

# How a layout is on the Pareto front (results/front.py), in words.
ON_FRONT = {"": "no", "drawn": "yes", "case": "for another case", "size": "for its size", "both": "for both"}


def tradeoff_table(data: Data, site: str, pick: str | None) -> Table | None:
    """Return the times of the two cases of the trade-off, cold and warm, with the Pareto front."""
    cases = [case for case in data.study["tradeoff"] if case in data.study["cases"]]
    here = data.summary_of(site)
    if len(cases) < 2 or here.empty:
        return None
    states = [name for name in (cold_of(here["state"]), "warm") if name]
    choice = data.choice(site)
    points = {name: found for name in states if len(found := tradeoff(choice, here, cases, name))}
    layouts = in_order({layout for found in points.values() for layout in found.index}, data.study["layouts"])
    body = []
    for layout in layouts:
        row: list[Any] = [layout]
        for found in points.values():
            there = layout in found.index
            row += [fmt.seconds(found.loc[layout, case]) if there else fmt.ABSENT for case in cases]
            front = str(found.loc[layout, FRONT]) if there else ""
            row.append(Cell(ON_FRONT[front], "", "good" if front else ""))
        body.append(row)
    if not body:
        return None
    columns = ["Layout"]
    for name in points:
        columns += [f"#{case_title(data.study, case)}, {name}" for case in cases] + [f"Pareto front, {name}"]
    note = (
        "What a request waits for, cold with opening. On the Pareto front no other layout is as fast in both "
        "cases and faster in one, or none is once the other cases that count, and sizes of files that differ "
        "by 2 % or more, are looked at, too."
    )
    return table("Trade-off", columns, body, note, folded=True, pick=pick)
