"""Advice at a glance: milliseconds of each read against the size of the file, measured and predicted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hyperslab.figures.scales import BYTES, logarithmic
from hyperslab.figures.sheet import absent, finish, start
from hyperslab.figures.tradeoff import requests_of
from hyperslab.figures.view import View
from hyperslab.text import listing

# Panels side by side; further reads stand in the table alone.
MOST_PANELS = 4
# role -> number in the palette, marker, its size in points, words
ROLES = {
    "advised": (0, "*", 14.0, "advised"),
    "today": (3, "s", 8.0, "today's layout"),
    "rival": (1, "^", 7.0, "measured rivals"),
    "copies": (2, "D", 7.0, "two copies in one file"),
}


def draw(view: View, prediction: Mapping[str, Any]) -> Figure:
    """Draw a panel for each of the first reads; `prediction` is the content of prediction.json."""
    state = "warm" if prediction["state"] == "warm" else view.cold
    title = "Time of a read against the size of the file"
    asked = [read["name"] for read in prediction["reads"] if read["name"] in view.study["cases"]]
    cases, rest = asked[:MOST_PANELS], asked[MOST_PANELS:]
    measured = set(view.summary["layout"])
    if not measured or not cases:
        return absent(view, title)
    figure = start(view, 3.6)
    panels = figure.subplots(1, len(cases), squeeze=False)[0]
    for axes, case in zip(panels, cases, strict=True):
        _panel(axes, view, case, state, prediction)
    rows = view.measurements[view.measurements["case"].isin(cases)]
    notes = [
        f"what a {state} read waits for, opening included" if state != "warm" else "warm reads",
        view.over_rounds(rows[rows["state"] == state]),
        "left and down is better",
        f"without {listing(rest)}: in the table alone" if rest else "",
    ]
    finish(figure, view, title, rows, notes, _legend(view, prediction), star=False)
    return figure


def _role(view: View, layout: str, prediction: Mapping[str, Any]) -> str:
    if layout == view.pick:
        return "advised"
    pairs = (site["copies"] for site in prediction["sites"].values())
    if layout in {pair["layout"] for pair in pairs if pair}:
        return "copies"
    return "today" if layout == prediction["today"] else "rival"


def _panel(axes: Axes, view: View, case: str, state: str, prediction: Mapping[str, Any]) -> None:
    """Draw one read: predictions hollow, what was measured filled, with its interval."""
    here = prediction["sites"][view.site]
    predicted = {
        one["layout"]: (one["file_bytes"], one["times"][case])
        for one in [*here["predicted"], *here["measured"]]
    }
    muted = view.style["muted"]
    points = pd.DataFrame(predicted, index=["bytes", "seconds"]).T
    axes.plot(
        points["bytes"], points["seconds"], marker="o", markersize=5, linestyle="", color=muted,
        markerfacecolor="none", markeredgewidth=0.8, zorder=2,
    )  # fmt: skip
    times = requests_of(view, case, state)
    sizes = view.pooled(case, state)["file_bytes"]
    for layout, row in times.iterrows():
        number, marker, size, _ = ROLES[_role(view, str(layout), prediction)]
        colour, x = view.palette[number], float(sizes[layout])
        if pd.notna(row["low"]) and pd.notna(row["high"]):
            axes.plot([x, x], [row["low"], row["high"]], color=colour, linewidth=1.0, alpha=0.6, zorder=4)
        axes.plot(
            [x], [row["value"]], marker=marker, markersize=size, color=colour, linestyle="", zorder=5,
            markeredgecolor="white", markeredgewidth=0.8,
        )  # fmt: skip
    inches = view.style["width"] / MOST_PANELS
    logarithmic(axes.xaxis, [*points["bytes"], *sizes], "file size", BYTES, inches=inches)
    known = times[["value", "low", "high"]].to_numpy().ravel()
    logarithmic(axes.yaxis, [*points["seconds"], *known], "", inches=3.0)
    axes.set_title(case, fontweight="bold")


def _legend(view: View, prediction: Mapping[str, Any]) -> list[Line2D]:
    here = {_role(view, layout, prediction) for layout in set(view.summary["layout"])}
    handles = [
        Line2D(
            [], [], color=view.palette[number], marker=marker, markersize=size - 2, linestyle="", label=words
        )
        for role, (number, marker, size, words) in ROLES.items()
        if role in here
    ]
    hollow = Line2D(
        [], [], color=view.style["muted"], marker="o", markersize=5, linestyle="", markerfacecolor="none",
        label="predicted, not measured so",
    )  # fmt: skip
    return [*handles, hollow]
