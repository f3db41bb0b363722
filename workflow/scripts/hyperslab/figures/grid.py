"""Heat maps over the two chunk extents of a grid: cold and warm medians."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from hyperslab.figures.scales import tick, unit_for
from hyperslab.figures.sheet import absent, finish, start
from hyperslab.figures.view import View
from hyperslab.states import STATES
from hyperslab.text import seconds, significant


def table_of(medians: pd.Series, grid: Mapping[str, Any]) -> pd.DataFrame:
    """Return the values of the first variable (rows) x of the second (columns),
    or one row of the only one: seconds.
    """
    values = [_place(extents) for extents in grid["layouts"].values()]
    rows, columns = (list(dict.fromkeys(place)) for place in zip(*values, strict=True))
    table = pd.DataFrame(np.nan, index=rows, columns=columns)
    for (row, column), layout in zip(values, grid["layouts"], strict=True):
        table.loc[row, column] = medians.get(layout, np.nan)
    return table


def _place(extents: list[int]) -> tuple[int | str, int]:
    """Return the row and column of a layout in the table of its grid."""
    return (extents[0] if len(extents) > 1 else "", extents[-1])


def draw(view: View, case: str) -> Figure:
    """Draw cold on the left, warm on the right; one row of panels a grid."""
    title = f"{view.title(case)}: time over the grid"
    wanted = [state for state in view.study["cases"][case]["states"] if state != "session"]
    states = [view.cold if state == "cold" else str(state) for state in wanted]
    medians = {state: view.pooled(case, state)["pooled_median_s"] for state in states}
    grids = [
        grid
        for grid in view.study["grids"]
        if any(set(grid["layouts"]).intersection(values.index) for values in medians.values())
    ]
    if not grids:
        return absent(view, title)
    tables = [[table_of(medians[state], grid) for state in states] for grid in grids]
    heights = [0.75 + 0.36 * max(2, len(row[0])) for row in tables]
    figure = start(view, sum(heights))
    panels = figure.subplots(len(grids), len(states), squeeze=False, height_ratios=heights)
    for down, grid in enumerate(grids):
        for across, state in enumerate(states):
            axes = panels[down, across]
            _panel(axes, view, tables[down][across], grid, medians[state])
            several = f"{grid['name']}, " if len(grids) > 1 else ""
            heading = f"{several}{STATES[state]} [{_unit(tables[down][across])[0]}]"
            axes.set_title(heading + _references(view, medians[state]))
    rows = view.measurements[(view.measurements["case"] == case) & view.measurements["state"].isin(states)]
    notes = [view.over_rounds(rows), "each panel has its own colours"]
    star = any(view.pick in grid["layouts"] for grid in grids)
    if star:
        notes.insert(0, f"framed: {view.pick}, recommended at {view.site}")
    return finish(figure, view, title, rows, notes, star=False)


def _unit(table: pd.DataFrame) -> tuple[str, float]:
    """Return the unit that suits the middle of a table."""
    return unit_for(float(table.stack().median()) if table.notna().any(axis=None) else 1.0)


def _references(view: View, medians: pd.Series) -> str:
    """Return the medians of the layouts outside the grid that others are compared with."""
    named = {"contiguous": view.contiguous, "automatic": view.automatic}
    texts = [f"{word} {seconds(medians[name])}" for word, name in named.items() if name in medians]
    return f"\n{', '.join(texts)}" if texts else ""


def _panel(axes: Axes, view: View, table: pd.DataFrame, grid: Mapping[str, Any], medians: pd.Series) -> None:
    """Draw one heat map with its colour bar, the recommended cell framed."""
    _, size = _unit(table)
    known = table.stack()
    known = known[known > 0]
    if known.empty:
        known = pd.Series([1.0])
    low, high = float(known.min()), float(known.max())
    # A scale needs two ends, also where all values are the same.
    norm = LogNorm(low / 1.02, high * 1.02)
    words = table.map(lambda value: significant(value / size))
    axes.set_facecolor("#f2f2f2")
    sns.heatmap(
        table, ax=axes, norm=norm, cmap=view.style["heat"], annot=words, fmt="", linewidths=1,
        linecolor="white", annot_kws={"fontsize": view.style["font_size"] - 0.5},
        cbar_kws={"pad": 0.015, "aspect": 28, "fraction": 0.05},
    )  # fmt: skip
    _missing(axes, view, table)
    colour_bar = axes.collections[0].colorbar
    assert colour_bar is not None
    _colour_bar(colour_bar.ax, view, low, high, medians)
    variables = grid["variables"]
    axes.set_ylabel(variables[0] if len(variables) > 1 else "")
    axes.set_xlabel(variables[-1])
    axes.grid(False)
    axes.tick_params(left=False, bottom=False)
    axes.tick_params(axis="y", labelrotation=0)
    axes.tick_params(axis="x", labelrotation=0)
    if view.pick in grid["layouts"]:
        row, column = _place(grid["layouts"][view.pick])
        corner = (list(table.columns).index(column), list(table.index).index(row))
        for colour, width in (("white", 4.5), ("black", 2.2)):
            look: dict[str, Any] = {"edgecolor": colour, "linewidth": width, "zorder": 5}
            axes.add_patch(Rectangle(corner, 1, 1, fill=False, clip_on=False, **look))


def _missing(axes: Axes, view: View, table: pd.DataFrame) -> None:
    """Write a dash in each cell that has not been measured; the heat map leaves those out."""
    for row, column in np.argwhere(table.isna().to_numpy()):
        axes.text(column + 0.5, row + 0.5, "–", ha="center", va="center", color=view.style["muted"])


def _colour_bar(bar: Axes, view: View, low: float, high: float, medians: pd.Series) -> None:
    """Write numbers with units, and draw a line at the contiguous layout where it lies within the colours."""
    digits = (1.0, 2.0, 5.0) if high / low < 200 else (1.0, 3.0) if high / low < 2000 else (1.0,)
    bar.yaxis.set_major_locator(LogLocator(subs=digits))
    bar.yaxis.set_minor_locator(NullLocator())
    bar.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
    value = medians.get(view.contiguous, np.nan)
    if low <= value <= high:
        for colour, width in (("white", 4.0), ("black", 1.8)):
            bar.axhline(value, color=colour, linewidth=width)
