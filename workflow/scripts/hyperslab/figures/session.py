"""The document's figure: minimum, median, mean and maximum of a session as stacked bars."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hyperslab.figures.bars import Part, beside, layout_rows, legend_of, readable_limit, sheet_height, stack
from hyperslab.figures.scales import linear
from hyperslab.figures.sheet import absent, finish, start
from hyperslab.figures.view import View
from hyperslab.states import LIBRARY_COLD, STATES
from hyperslab.studies.case_kinds import kind_of
from hyperslab.text import count, listing, seconds, span

COLUMNS = ["min_s", "median_s", "mean_s", "max_s", "first_selection_s"]


def state_of(view: View, case: str) -> str:
    """Return the session, or the first state of a case that names no session."""
    states = view.study["cases"][case]["states"]
    first = "session" if "session" in states else states[0]
    return view.cold if first == "cold" else str(first)


def statistics(view: View, case: str, state: str) -> pd.DataFrame:
    """Return layouts x `COLUMNS` in seconds: the median over the rounds of each statistic of one round."""
    rows = view.rounds(case, state)
    table: pd.DataFrame = rows.groupby("layout", observed=True)[COLUMNS].median()
    return table.loc[view.order(table.index)]


def parts_of(view: View, table: pd.DataFrame) -> list[Part]:
    """Return the stack: to the minimum, on to the median, the mean and the maximum.

    A mean below the median has no part of its own (it lies inside the median's).
    """
    blue, _, green, red, lilac = view.palette[:5]
    mean = table[["median_s", "mean_s"]].max(axis=1)
    return [
        Part("minimum", blue, 0 * table["min_s"], table["min_s"]),
        Part("median", red, table["min_s"], table["median_s"]),
        Part("mean", green, table["median_s"], mean),
        Part("maximum", lilac, mean, table["max_s"]),
    ]


def draw(view: View, case: str) -> Figure:
    """Draw the stacked bars of one case, with a session's first selection as a mark of its own."""
    state = state_of(view, case)
    title = f"{view.title(case)}: {STATES[state]}, minimum to maximum by layout"
    table = statistics(view, case, state)
    if table.empty:
        return absent(view, title)
    figure = start(view, sheet_height(view, len(table)))
    axes = figure.subplots()
    limit = readable_limit(view, table["max_s"], table["mean_s"])
    parts = parts_of(view, table)
    texts = {str(layout): _text(row, limit) for layout, row in table.iterrows()}
    stack(axes, view, parts, limit, texts)
    layout_rows(axes, view, list(table.index))
    beside(axes, view, "median", [seconds(value) for value in table["median_s"]])
    linear(axes.xaxis, limit, f"time of one {_timed(view, case)}")
    handles = [*legend_of(parts), *_marks(axes, view, table, limit)]
    return finish(
        figure, view, title, view.repeats(case, state), _notes(view, case, state, table, limit), handles
    )


def _timed(view: View, case: str) -> str:
    """Return what a repeat of a case times, in a word."""
    return kind_of(view.study["cases"][case]).timed


def _text(row: pd.Series, limit: float) -> str:
    """Return what is written on a bar beyond the axis."""
    first = f", first {seconds(row['first_selection_s'])}" if row["first_selection_s"] > limit else ""
    return f"max {seconds(row['max_s'])}{first}"


def _marks(axes: Axes, view: View, table: pd.DataFrame, limit: float) -> list[Line2D]:
    """Draw a diamond at a session's first selection, a white tick at each mean below its median;
    returns their legend.
    """
    diamond: dict[str, Any] = {
        "marker": "D", "markersize": 4.2, "markerfacecolor": "white", "markeredgecolor": view.style["ink"],
    }  # fmt: skip
    tick: dict[str, Any] = {"marker": "|", "markersize": 8, "markeredgewidth": 1.8}
    rows = pd.Series(range(len(table)), index=table.index)
    low = table["mean_s"].where(table["mean_s"] < table["median_s"])
    handles = []
    for label, values, look, colour in (
        ("first selection", table["first_selection_s"], diamond, view.style["ink"]),
        ("mean below the median", low, tick, "white"),
    ):
        seen = values[values <= limit]
        axes.plot(seen, rows[seen.index], linestyle="", zorder=5, color=colour, label=label, **look)
        if len(seen):
            shade = view.style["muted"] if colour == "white" else colour
            handles.append(Line2D([], [], linestyle="", color=shade, label=label, **look))
    return handles


def _notes(view: View, case: str, state: str, table: pd.DataFrame, limit: float) -> list[str]:
    """Return how the numbers were pooled, and what is special here."""
    rows = view.rounds(case, state)
    rounds, repeats = rows.groupby("layout", observed=True)["round"].nunique(), rows["n"].max()
    timed = count(int(repeats), _timed(view, case))
    pooled = f"each statistic of a round's {timed}; of these the median over {span(rounds, 'round')}"
    missing = len(set(view.study["cases"][case]["layouts"]).difference(table.index))
    unranked = [name for name in table.index if name in (view.choice.get("left_out") or {})]
    return [
        f"{count(missing, 'layout')} not measured" if missing else "",
        f"not ranked, the ranking says why: {listing(unranked)}" if unranked else "",
        pooled if rounds.max() > 1 else f"{timed} in one round",
        "pale bars run beyond the axis" if (table["max_s"] > limit).any() else "",
        "the file lies in memory, nothing was evicted" if view.cold == LIBRARY_COLD else "",
    ]
