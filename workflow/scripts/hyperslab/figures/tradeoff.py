"""The trade-off between two cases: a scatter with its Pareto front, cold beside warm."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hyperslab.figures.labels import place
from hyperslab.figures.scales import logarithmic
from hyperslab.figures.sheet import absent, finish, lay_out, start
from hyperslab.figures.view import View
from hyperslab.results.recommend import pareto
from hyperslab.results.tables import STATES


def points_of(view: View, cases: list[str], state: str) -> pd.DataFrame:
    """Layouts measured in both cases x (the two cases: pooled medians in seconds; `front`: bool)."""
    table = pd.DataFrame({case: view.pooled(case, state)["pooled_median_s"] for case in cases}).dropna()
    table["front"] = pareto(table, cases) if len(table) else pd.Series(dtype=bool)
    return table.loc[view.order(table.index)]


def draw(view: View, case: str = "") -> Figure:
    """Both states side by side, each with its own axes."""
    cases = [name for name in view.study["tradeoff"] if name in view.study["cases"]][:2]
    title = f"Trade-off: {view.title(cases[0])} against {view.title(cases[1])}"
    tables = {state: points_of(view, cases, state) for state in (view.cold, "warm")}
    tables = {state: table for state, table in tables.items() if len(table)}
    if not tables:
        return absent(view, title)
    figure = start(view, 4.7)
    panels = figure.subplots(1, len(tables), squeeze=False)[0]
    for axes, (state, table) in zip(panels, tables.items(), strict=True):
        _panel(axes, view, cases, table)
        axes.set_title(STATES[state], fontweight="bold")
    rows = view.measurements[view.measurements["case"].isin(cases) & view.measurements["state"].isin(tables)]
    finish(
        figure, view, title, rows, [view.over_rounds(rows), "left and down is faster"], _legend(view, tables)
    )
    # Names can only be placed when the axes have their final place.
    lay_out(figure)
    for axes, table in zip(panels, tables.values(), strict=True):
        points = {str(name): (float(row[cases[0]]), float(row[cases[1]])) for name, row in table.iterrows()}
        names = [(name, view.label(name), view.role_colour(name)) for name in points if view.role(name)]
        names += [
            (name, name, view.style["ink"])
            for name in points
            if table.loc[name, "front"] and not view.role(name)
        ]
        front = [points[str(name)] for name in table[table["front"]].sort_values(cases).index]
        place(axes, points, names, view.style["font_size"] - 1, front)
    return figure


def _panel(axes: Axes, view: View, cases: list[str], table: pd.DataFrame) -> None:
    """All points, the front joined from the fastest in the first case to the fastest in the second."""
    first, second = cases
    front = table[table["front"]].sort_values([first, second])
    axes.plot(
        front[first], front[second], color=view.style["ink"], linewidth=1.2, zorder=2, label="Pareto front"
    )
    for names, colour, size, order in (
        (table.index[~table["front"]], view.style["muted"], 26, 3),
        (front.index, view.style["ink"], 42, 4),
    ):
        sns.scatterplot(
            data=table.loc[names], x=first, y=second, color=colour, s=size, ax=axes, zorder=order,
            legend=False,
        )  # fmt: skip
    for layout in table.index:
        if view.role(layout):
            marker = "*" if layout == view.pick else "s"
            size = 190 if layout == view.pick else 52
            x, y = table.loc[layout, cases]
            axes.scatter(
                x, y, s=size, marker=marker, color=view.role_colour(layout), zorder=6, edgecolor="white",
                linewidth=0.8,
            )  # fmt: skip
    logarithmic(axes.xaxis, table[first], f"{view.title(first)}: median time")
    logarithmic(axes.yaxis, table[second], f"{view.title(second)}: median time")


def _legend(view: View, tables: Mapping[str, pd.DataFrame]) -> list[Line2D]:
    """What lines and points are."""
    ink = view.style["ink"]
    roles = {view.role(name) for table in tables.values() for name in table.index}
    handles = [
        Line2D([], [], color=ink, marker="o", markersize=6, linewidth=1.2, label="Pareto front"),
        Line2D(
            [], [], color=view.style["muted"], marker="o", markersize=5, linestyle="", label="other layouts"
        ),
    ]
    for role, colour, marker, size, label in (
        ("pick", view.palette[0], "*", 12, "recommended"),
        ("contiguous", view.palette[3], "s", 6, "contiguous"),
        ("automatic", view.palette[2], "s", 6, "automatic chunks"),
    ):
        if role in roles:
            handles.append(
                Line2D([], [], color=colour, marker=marker, markersize=size, linestyle="", label=label)
            )
    return handles
