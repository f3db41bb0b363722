"""Rates of parallel access: one panel an operation, one bar a way to the file and number of ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import StrMethodFormatter

from hyperslab.figures.sheet import absent, finish, start
from hyperslab.figures.view import View
from hyperslab.states import COLD_STATES
from hyperslab.studies.case_kinds import kind_of, shown_by

# The name of this figure, by which kinds of cases ask for it.
FIGURE = "parallel"
# What tells layouts apart.
HATCHES = ("", "//", "..", "xx", "--", "\\\\", "oo", "++", "||", "**")
OPERATIONS = {"write": "durable write", **{state: f"read, {state}" for state in (*COLD_STATES, "warm")}}


def rates(view: View, family: str, state: str) -> pd.DataFrame:
    """Return one row a case and layout: `way` in words, `workers`, `layout`, and `rate`, `low`,
    `high` in MB/s (10^6).
    """
    found = []
    for name in _members(view, family):
        case = view.study["cases"][name]
        volume = view.repeats(name, state)["asked_bytes"].median()
        for layout, entry in view.pooled(name, state).iterrows():
            pooled = [volume / entry[f"pooled_{part}_s"] / 1e6 for part in ("median", "high", "low")]
            found.append((_way(view, name), case["workers"], layout, *pooled))
    return pd.DataFrame(found, columns=["way", "workers", "layout", "rate", "low", "high"])


def _way(view: View, name: str) -> str:
    """Return in which way the ranks of a case reach the file, in words."""
    case = view.study["cases"][name]
    return kind_of(case).apart(case, view.title(name))[1]


def _members(view: View, family: str) -> list[str]:
    """Return the names of the cases of a family, in the order of the study."""
    cases = shown_by(view.study["cases"], FIGURE)
    return [name for name, case in cases.items() if case["family"] == family]


def draw(view: View, case: str) -> Figure:
    """Draw the rates of one family of cases."""
    cases = _members(view, case)
    rows = view.measurements[view.measurements["case"].isin(cases)]
    title = f"{view.title(cases[0]).rsplit(', ', 2)[0]}: rates"
    if rows.empty:
        return absent(view, title)
    states = [state for state in OPERATIONS if (rows["state"] == state).any()]
    tables = {state: rates(view, case, state) for state in states}
    ways = [way for way in dict.fromkeys(_way(view, name) for name in cases)
            if any((table["way"] == way).any() for table in tables.values())]  # fmt: skip
    layouts = view.order(rows["layout"].unique())
    looks = {
        (way, layout): {"color": view.tints[number % 10], "hatch": HATCHES[place % len(HATCHES)]}
        for number, way in enumerate(ways)
        for place, layout in enumerate(layouts)
    }
    figure = start(view, 3.2)
    panels = figure.subplots(1, len(states), squeeze=False)[0]
    for axes, (state, table) in zip(panels, tables.items(), strict=True):
        _panel(axes, view, table, looks)
        axes.set_title(OPERATIONS[state], fontweight="bold")
    panels[0].set_ylabel("rate [MB/s]")
    cores = int(rows["physical_cores"].median())
    most = max(table["workers"].max() for table in tables.values())
    handles = [
        Patch(
            facecolor=look["color"], hatch=look["hatch"], edgecolor="white", label=_name(way, layout, tables)
        )
        for (way, layout), look in looks.items()
        if any(((table["way"] == way) & (table["layout"] == layout)).any() for table in tables.values())
    ]
    notes = [
        view.over_rounds(rows),
        f"{cores} physical cores" + ("; beyond them nothing is claimed (pale)" if most > cores else ""),
    ]
    return finish(figure, view, title, rows, notes, [*handles, _whiskers(view)], star=False)


def _name(way: str, layout: str, tables: Mapping[str, pd.DataFrame]) -> str:
    """Return what a bar is called: its way, and its layout where the way was measured with several."""
    several = {one for table in tables.values() for one in table["layout"][table["way"] == way]}
    return way if len(several) == 1 else f"{way}, {layout}"


def _whiskers(view: View) -> Line2D:
    return Line2D([], [], color=view.style["ink"], marker="|", linestyle="-", label="95 % interval")


def _panel(axes: Axes, view: View, table: pd.DataFrame, looks: dict[tuple[str, str], dict[str, Any]]) -> None:
    """Draw a group of bars for each number of ranks; those beyond the physical cores are pale."""
    cores = view.measurements["physical_cores"].median()
    numbers = sorted(table["workers"].unique())
    present = [key for key in looks if ((table["way"] == key[0]) & (table["layout"] == key[1])).any()]
    width = 0.8 / max(1, len(present))
    for place, (way, layout) in enumerate(present):
        bars = table[(table["way"] == way) & (table["layout"] == layout)]
        x = [numbers.index(workers) - 0.4 + (place + 0.5) * width for workers in bars["workers"]]
        error = np.abs(bars[["low", "high"]].to_numpy() - bars[["rate"]].to_numpy()).T
        drawn = axes.bar(
            x, bars["rate"], 0.92 * width, yerr=np.nan_to_num(error), label=way, zorder=3, edgecolor="white",
            error_kw={"elinewidth": 1, "ecolor": view.style["ink"], "zorder": 4}, **looks[way, layout],
        )  # fmt: skip
        for bar, workers in zip(drawn, bars["workers"], strict=True):
            bar.set_alpha(view.style["pale"] if workers > cores else 1.0)
    axes.set_xticks(range(len(numbers)), [f"{number} rank{'s' if number > 1 else ''}" for number in numbers])
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.6g}"))
    axes.grid(axis="x", visible=False)
