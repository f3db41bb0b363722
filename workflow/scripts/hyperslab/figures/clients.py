"""Requests a second, and how long one takes, against the number of clients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator, StrMethodFormatter

from hyperslab.figures.lines import entry, look
from hyperslab.figures.scales import linear
from hyperslab.figures.sheet import absent, finish, start
from hyperslab.figures.view import View
from hyperslab.states import STATES
from hyperslab.studies.case_kinds import families
from hyperslab.studies.summary import in_order

# The name of this figure, by which kinds of cases ask for it.
FIGURE = "clients"


def served(view: View, counts: dict[int, str], layout: str, state: str) -> pd.DataFrame:
    """Return by number of clients (index): `rate` with `low` and `high` in requests a second, and `median`
    and `p95` of the latency in seconds.
    """
    found = {}
    for clients, case in sorted(counts.items()):
        pooled, rows = view.pooled(case, state), view.repeats(case, state)
        rows = rows[rows["layout"] == layout]
        if layout not in pooled.index or rows.empty:
            continue
        number, entry = rows["requests"].median(), pooled.loc[layout]
        found[clients] = {
            "rate": number / entry["pooled_median_s"],
            "low": number / entry["pooled_high_s"],
            "high": number / entry["pooled_low_s"],
            "median": rows["answer_median_s"].median(),
            "p95": rows["answer_p95_s"].median(),
        }
    return pd.DataFrame.from_dict(found, orient="index", columns=["rate", "low", "high", "median", "p95"])


def draw(view: View, case: str) -> Figure:
    """Draw requests a second above and latencies below; one column a state, one line a layout."""
    teams = families(view.study["cases"], FIGURE)[case]
    counts = {number: name for team in teams.values() for number, name in team.items()}
    rows = view.measurements[view.measurements["case"].isin(counts.values())]
    first = next(iter(counts.values()))
    title = f"{view.title(first).rpartition(', ')[0] or case}: requests of several clients"
    if rows.empty:
        return absent(view, title)
    states, layouts = in_order(set(rows["state"]), STATES), view.order(rows["layout"].unique())
    figure = start(view, 5.0)
    panels = figure.subplots(2, len(states), sharex=True, sharey="row", squeeze=False)
    apart = _apart(sorted(counts), len(layouts))
    longest = 0.0
    for column, state in enumerate(states):
        above, below = panels[:, column]
        for number, layout in enumerate(layouts):
            table = served(view, counts, layout, state)
            if table.empty:
                continue
            own = look(view, number)
            # Beside each other, so that none hides another.
            shift = apart * (number - (len(layouts) - 1) / 2)
            _rates(above, table, own, shift)
            _latencies(below, table, own, shift)
            longest = max(longest, float(table["p95"].max()))
        above.set_title(STATES[state], fontweight="bold")
        below.set_xlabel("clients")
        for axes in (above, below):
            _clients(axes, sorted(counts))
    for axes in panels[:, 0]:
        # Ticks that a panel's height decides change once margins are found, and these cut wider numbers.
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    panels[0, 0].set_ylim(bottom=0)
    panels[0, 0].set_ylabel("requests a second")
    panels[0, 0].yaxis.set_major_formatter(StrMethodFormatter("{x:,.6g}"))
    panels[1, 0].set_ylim(0, 1.08 * longest)
    linear(panels[1, 0].yaxis, 1.08 * longest, "latency")
    handles = [entry(view, number, view.label(layout)) for number, layout in enumerate(layouts)]
    notes = [
        view.over_rounds(rows),
        f"{rows['requests'].median():,.0f} requests a run",
        "latency: median, and 95 % of the requests within the line above it",
    ]
    return finish(figure, view, title, rows, notes, handles, star=False)


def _apart(counts: list[int], layouts: int) -> float:
    """Return how far from each other layouts of one number of clients lie, so that all are at its tick."""
    nearest = float(np.diff(np.log2(counts)).min()) if len(counts) > 1 else 1.0
    return min(0.06, 0.55 * nearest / layouts)


def _rates(axes: Axes, table: pd.DataFrame, own: dict[str, Any], shift: float) -> None:
    x, rate = _places(table) + shift, table["rate"].to_numpy()
    error = np.nan_to_num(np.abs(table[["low", "high"]].to_numpy() - rate[:, None])).T
    axes.errorbar(x, rate, yerr=error, elinewidth=1, capsize=3, zorder=3, **own)


def _latencies(axes: Axes, table: pd.DataFrame, own: dict[str, Any], shift: float) -> None:
    x, middle = _places(table) + shift, table["median"].to_numpy()
    error = np.array([np.zeros(len(table)), np.maximum(table["p95"].to_numpy() - middle, 0)])
    axes.errorbar(x, middle, yerr=error, elinewidth=1, capsize=3, zorder=3, **own)


def _places(table: pd.DataFrame) -> Any:
    """Return where numbers of clients lie: each doubling as far from the one before."""
    return np.log2(table.index.to_numpy(dtype=float))


def _clients(axes: Axes, numbers: list[int]) -> None:
    """Put a tick at each number of clients."""
    places = [float(np.log2(number)) for number in numbers]
    axes.xaxis.set_major_locator(FixedLocator(places))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda place, _: f"{2**place:.0f}"))
    axes.set_xlim(min(places) - 0.3, max(places) + 0.3)
