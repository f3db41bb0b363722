"""The ramp of a session: its selections in the order in which they ran."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hyperslab.figures.scales import logarithmic
from hyperslab.figures.sheet import absent, finish, start
from hyperslab.figures.view import View
from hyperslab.text import count, span

FEW = 6
DASHES: dict[str, Any] = {"cold": (0, (5, 3)), "warm": (0, (1, 2))}


def lines(view: View, case: str) -> pd.DataFrame:
    """Return the selections (rows) x layouts: seconds, the geometric mean over the rounds."""
    rows = view.repeats(case, "session")
    logs = rows.assign(log=np.log(rows["time_s"]))
    means = logs.pivot_table(index="repeat", columns="layout", values="log", observed=True)
    table: pd.DataFrame = np.exp(means)
    return table[view.order(table.columns)]


def shown(view: View, layouts: list[str]) -> list[str]:
    """Return the layouts with a panel: all where they are few, else those with a role and the runner-up."""
    if len(layouts) <= FEW:
        return layouts
    wanted = [view.pick, view.choice.get("runner_up"), view.contiguous, view.automatic]
    return [name for name in dict.fromkeys(wanted) if name in layouts] or layouts[:FEW]


def draw(view: View, case: str) -> Figure:
    """Draw one panel a layout that is shown, the others grey behind it; thin lines are the rounds."""
    title = f"{view.title(case)}: the session in order"
    rows = view.repeats(case, "session")
    if rows.empty:
        return absent(view, title)
    table = lines(view, case)
    layouts = shown(view, list(table))
    columns = {4: 2, 6: 3}.get(len(layouts), len(layouts))
    down = math.ceil(len(layouts) / columns)
    figure = start(view, 0.35 + (2.5 if down == 1 else 2.05 * down))
    panels = figure.subplots(down, columns, sharex=True, sharey=True, squeeze=False)
    for axes, layout in zip(panels.flat, layouts, strict=True):
        _panel(axes, view, case, layout, table, rows[rows["layout"] == layout])
    states = [view.pooled(case, state)["pooled_median_s"] for state in (view.cold, "warm")]
    medians = [state[name] for state in states for name in layouts if name in state]
    for axes in panels[:, 0]:
        logarithmic(axes.yaxis, [*rows["time_s"], *medians], "time of one selection")
    for axes in panels[-1]:
        axes.set_xlabel("selection in the session" if columns < 4 else "selection")
    rounds = rows.groupby("layout", observed=True)["round"].nunique()
    each = f"{count(len(table.columns), 'layout')} in {span(rounds, 'round')}"
    notes = [each if rounds.max() > 1 else "one round"]
    handles = _legend(view, case, len(table.columns) > 1)
    return finish(figure, view, title, rows, notes, handles)


def _panel(axes: Axes, view: View, case: str, layout: str, table: pd.DataFrame, rows: pd.DataFrame) -> None:
    """Draw the ramp of one layout before those of the others."""
    style = view.style
    colour = view.role_colour(layout) if view.role(layout) else view.palette[4]
    for other in table.columns.drop(layout):
        axes.plot(table.index + 1, table[other], color=style["faint"], linewidth=0.6, zorder=1, label="other")
    for number, one in rows.sort_values("repeat").groupby("round", observed=True):
        look: dict[str, Any] = {"color": colour, "linewidth": 0.7, "alpha": 0.6, "zorder": 3}
        axes.plot(one["repeat"] + 1, one["time_s"], label=f"round {number}", **look)
    axes.plot(table.index + 1, table[layout], color=colour, linewidth=1.8, zorder=4, label="mean")
    for state, dashes in DASHES.items():
        pooled = view.pooled(case, view.cold if state == "cold" else state)["pooled_median_s"]
        if layout in pooled:
            axes.axhline(pooled[layout], color=style["ink"], linewidth=1, linestyle=dashes, zorder=2)
    axes.set_title(view.label(layout), color=colour, fontweight="bold")
    axes.set_xlim(0, len(table) + 1)


def _legend(view: View, case: str, others: bool) -> list[Line2D]:
    """Return what the lines are."""
    ink = view.style["ink"]
    handles = [
        Line2D([], [], color=ink, linewidth=1.8, label="geometric mean of the rounds"),
        Line2D([], [], color=ink, linewidth=0.7, alpha=0.6, label="one round"),
    ]
    handles += (
        [Line2D([], [], color=view.style["faint"], linewidth=0.8, label="other layouts")] if others else []
    )
    for state, dashes in DASHES.items():
        name = view.cold if state == "cold" else state
        if len(view.rounds(case, name)):
            handles.append(Line2D([], [], color=ink, linewidth=1, linestyle=dashes, label=f"typical {name}"))
    return handles
