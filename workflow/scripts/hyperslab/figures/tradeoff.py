"""The trade-off at a glance: milliseconds of one case against those of another, and the size of the file.

The front is that over all cases that count and the size. Its part in the two cases that are drawn is joined;
what is on it only for another case or its size is a hollow point.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hyperslab.figures.labels import place
from hyperslab.figures.scales import BYTES, linear, logarithmic
from hyperslab.figures.sheet import absent, finish, lay_out, start
from hyperslab.figures.view import ROLES, View
from hyperslab.results.comparisons import of_average_round, of_rounds
from hyperslab.results.front import FRONT, counted, tradeoff
from hyperslab.results.requests import request_times
from hyperslab.results.two_copies import AND
from hyperslab.states import STATES
from hyperslab.text import listing, megabytes

# Where a study has no more layouts, each is named, on the front or not.
NAMED_ALL = 10
# So many names have room; of more, what is on the front only for another case or its size goes without.
NAMED_MOST = 18
# So many letters of a title fit beside an axis.
MOST_LETTERS = 42
# Why a layout is on the front that another beats in the two cases.
FOR_WHAT = {"case": "another case", "size": "its size", "both": "both together"}
PLAIN_SIZE = 5.5


def requests_of(view: View, case: str, state: str) -> pd.DataFrame:
    """Return what a request waits for by layout, in seconds: `value`, and the ends of its 95 % interval."""
    times = request_times(view.summary, (case, state))
    logs = np.log(times)
    value, low, high = of_average_round(of_rounds(logs), logs)
    columns = {"value": value, "low": low, "high": high}
    return pd.DataFrame({name: np.exp(ends) for name, ends in columns.items()}, index=times.index)


def points_of(view: View, cases: list[str], state: str) -> pd.DataFrame:
    """Return the layouts measured in both cases, in the study's order, as `hyperslab.results.front.tradeoff`
    has them.
    """
    table = tradeoff(view.choice, view.summary, cases, state)
    return table.loc[view.order(table.index)]


def draw(view: View, case: str = "") -> Figure:
    """Draw times on the left, sizes of files on the right; the times are cold ones where there are any."""
    cases = [name for name in view.study["tradeoff"] if name in view.study["cases"]][:2]
    title = f"{view.title(cases[0])} against {view.title(cases[1])}"
    tables = {state: points_of(view, cases, state) for state in (view.cold, "warm", "session")}
    state = next((state for state, table in tables.items() if len(table)), None)
    if state is None:
        return absent(view, title)
    table = tables[state]
    named = _named(view, table)
    lines = sum(_label(view, name).count("\n") + 1 for name in named)
    figure = start(view, max(4.0, 0.28 * lines + 1.0))
    left, right = figure.subplots(1, 2, width_ratios=[1.7, 1])
    intervals = {name: requests_of(view, name, state).loc[table.index] for name in cases}
    _times(left, view, intervals, table)
    left.set_title(STATES[state], fontweight="bold")
    _sizes(right, view, cases[0], state, named)
    right.set_title("file", fontweight="bold")
    rows = view.measurements[view.measurements["case"].isin(cases) & (view.measurements["state"] == state)]
    waits = "what a request waits for, opening included" if state == view.cold else "what a request waits for"
    drawn = any(ends["low"].notna().any() for ends in intervals.values())
    thin = "lines: 95 % intervals of the rounds" if drawn else ""
    notes = [waits, view.over_rounds(rows), "left and down is faster", thin]
    if further := [
        view.title(name) for name, _ in counted(view.choice, view.summary, state) if name not in cases
    ]:
        notes.append(f"other cases that count: {listing(further)}")
    finish(figure, view, title, rows, notes, _legend(view, table))
    # Names can only be placed when the axes have their final place.
    lay_out(figure)
    points = {str(name): (float(row[cases[0]]), float(row[cases[1]])) for name, row in table.iterrows()}
    front = [points[str(name)] for name in table[table[FRONT] == "drawn"].sort_values(cases).index]
    texts = [(name, _label(view, name), view.role_colour(name)) for name in named]
    place(left, points, texts, view.style["font_size"] - 1, front)
    return figure


def _label(view: View, name: str) -> str:
    """Return a layout's label, of two copies on two lines: on one it would cover the points of others."""
    return view.label(name).replace(AND, "\nand ")


def _named(view: View, table: pd.DataFrame) -> list[str]:
    """Return the layouts that are named: all where they are few, else those with a role or on the front."""
    few = len(table) <= NAMED_ALL
    first = {name for name in table.index if few or view.role(name) or table.loc[name, FRONT] == "drawn"}
    more = first | {name for name in table.index if table.loc[name, FRONT]}
    return [str(name) for name in table.index if name in (more if len(more) <= NAMED_MOST else first)]


def _look(view: View, layout: str, front: str) -> tuple[str, str, float]:
    """Return colour, marker and its size of a layout."""
    if role := view.role(layout):
        number, marker, size, _ = ROLES[role]
        return view.palette[number], marker, size
    return view.style["ink"] if front else view.style["muted"], "o", PLAIN_SIZE


def _times(axes: Axes, view: View, intervals: Mapping[str, pd.DataFrame], table: pd.DataFrame) -> None:
    """Draw all points with their `intervals` by case (`requests_of`), the front joined from the fastest in
    one case to that in the other.
    """
    first, second = intervals
    front = table[table[FRONT] == "drawn"].sort_values([first, second])
    axes.plot(
        front[first], front[second], color=view.style["ink"], linewidth=1.2, zorder=2, label="Pareto front"
    )
    for layout, row in table.iterrows():
        name, (x, y) = str(layout), (float(row[first]), float(row[second]))
        colour, marker, size = _look(view, name, row[FRONT])
        hollow = row[FRONT] in FOR_WHAT and not view.role(name)
        above = 6 if view.role(name) else 4
        for case, ends in ((first, "x"), (second, "y")):
            low, high = intervals[case].loc[layout, ["low", "high"]]
            if pd.notna(low) and pd.notna(high):
                line = ([low, high], [y, y]) if ends == "x" else ([x, x], [low, high])
                axes.plot(*line, color=colour, linewidth=0.8, alpha=0.5, zorder=above - 1)
        axes.plot(
            [x], [y], marker=marker, markersize=size, color="white" if hollow else colour, zorder=above,
            markeredgecolor=colour if hollow else "white", markeredgewidth=1.2 if hollow else 0.8,
            linestyle="", label=name,
        )  # fmt: skip
    # The limits hold every interval, too.
    known = {case: ends[["value", "low", "high"]].to_numpy().ravel() for case, ends in intervals.items()}
    words = {case: textwrap.fill(view.title(case), MOST_LETTERS) for case in intervals}
    logarithmic(axes.xaxis, known[first], words[first], inches=3.4)
    logarithmic(axes.yaxis, known[second], words[second], inches=3.2)


def _sizes(axes: Axes, view: View, case: str, state: str, named: list[str]) -> None:
    """Draw a bar for each layout, in the colours of the points."""
    sizes = view.pooled(case, state)["file_bytes"].reindex(named)
    for row, (name, size) in enumerate(sizes.items()):
        colour, _, _ = _look(view, str(name), "")
        axes.barh(row, size, color=colour, height=0.62, alpha=0.85)
        axes.annotate(
            megabytes(size), (size, row), xytext=(3, 0), textcoords="offset points", va="center",
            fontsize=view.style["font_size"] - 1,
        )  # fmt: skip
    axes.set_yticks(range(len(named)), [_label(view, name) for name in named])
    for text, name in zip(axes.get_yticklabels(), named, strict=True):
        text.set_linespacing(0.95)
        text.set_color(view.role_colour(name))
        text.set_fontweight("bold" if view.role(name) else "normal")
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    limit = 1.45 * float(sizes.max())
    axes.set_xlim(0, limit)
    linear(axes.xaxis, limit, "file size", BYTES)


def _legend(view: View, table: pd.DataFrame) -> list[Line2D]:
    """Return what lines and points are."""
    ink, muted = view.style["ink"], view.style["muted"]
    handles = [
        Line2D([], [], color=ink, marker="o", markersize=6, linewidth=1.2, label="on the front of both")
    ]
    hollow = {front for name, front in table[FRONT].items() if front in FOR_WHAT and not view.role(str(name))}
    if hollow:
        words = " or ".join(FOR_WHAT[front] for front in FOR_WHAT if front in hollow)
        handles += [
            Line2D([], [], color="white", marker="o", markersize=5, markeredgecolor=ink, markeredgewidth=1.2,
                   linestyle="", label=f"on the front only for {words}")
        ]  # fmt: skip
    if any(not front and not view.role(str(name)) for name, front in table[FRONT].items()):
        handles += [
            Line2D([], [], color=muted, marker="o", markersize=5, linestyle="", label="other layouts")
        ]
    roles = {view.role(name) for name in table.index}
    for role, (number, marker, size, words) in ROLES.items():
        if role in roles:
            colour = view.palette[number]
            handles.append(
                Line2D([], [], color=colour, marker=marker, markersize=size - 2, linestyle="", label=words)
            )
    return handles
