"""One selection from coarse to fine: time of a cold read, and bytes requested, against the level."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hyperslab.figures.lines import entry, look
from hyperslab.figures.scales import BYTES, logarithmic
from hyperslab.figures.sheet import absent, finish, start
from hyperslab.figures.view import View
from hyperslab.studies.case_kinds import levels


def seconds(view: View, cases: dict[int, str]) -> pd.DataFrame:
    """Return the levels, coarsest first, x layouts: seconds of a cold read over all rounds."""
    found = {
        level: view.pooled(name, view.cold)["pooled_median_s"]
        for level, name in sorted(cases.items(), reverse=True)
    }
    table = pd.DataFrame(found).T
    return table[view.order(table.columns)]


def requested(view: View, cases: dict[int, str]) -> pd.DataFrame:
    """Return the levels, coarsest first, x layouts: bytes that a cold read asked the kernel for."""
    found = {
        level: view.repeats(name, view.cold).groupby("layout", observed=True)["requested_bytes"].median()
        for level, name in sorted(cases.items(), reverse=True)
    }
    table = pd.DataFrame(found).T
    return table[view.order(table.columns)]


def draw(view: View, case: str) -> Figure:
    """Draw times beside bytes, one line a layout; `case` is the family."""
    cases = levels(view.study["cases"])[case]
    first = view.title(cases[max(cases)])
    title = f"{first.rpartition(', ')[0] or case}: coarse to fine"
    rows = view.measurements[view.measurements["case"].isin(cases.values())]
    rows = rows[rows["state"] == view.cold]
    if rows.empty:
        return absent(view, title, view.nothing_cold(cases.values()))
    figure = start(view, 3.3)
    left, right = figure.subplots(1, 2)
    times, sizes = seconds(view, cases), requested(view, cases)
    panel(left, view, times)
    logarithmic(left.yaxis, times.stack().to_numpy(), f"time of a {view.cold} read")
    panel(right, view, sizes)
    logarithmic(right.yaxis, sizes.stack().to_numpy(), "bytes requested", BYTES)
    notes = [view.over_rounds(rows), "bytes: medians over all repeats"]
    handles = [entry(view, number, view.label(layout)) for number, layout in enumerate(times)]
    return finish(figure, view, title, rows, notes, handles)


def panel(axes: Axes, view: View, table: pd.DataFrame) -> None:
    """Draw the columns of a table, levels x layouts, as lines from coarse to fine."""
    places = range(len(table))
    for number, layout in enumerate(table):
        axes.plot(places, table[layout], **look(view, number))
    axes.set_xticks(places, [every(int(level)) for level in table.index])
    axes.set_xlabel("elements read, of those along each axis")


def every(level: int) -> str:
    """Return which of the elements along an axis a level has, in words."""
    return "all" if level == 0 else f"1 of {2**level}"
