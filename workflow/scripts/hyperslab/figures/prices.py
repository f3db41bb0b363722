"""Where and how to keep an array: the time of an answer against what a month costs."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from hyperslab.figures.labels import place
from hyperslab.figures.scales import logarithmic
from hyperslab.figures.sheet import absent, finish, lay_out, start
from hyperslab.figures.view import View
from hyperslab.results.front import pareto
from hyperslab.results.prices import month_costs

AXES = ["month", "seconds"]


def points_of(view: View) -> pd.DataFrame:
    """Return by layout (index) `month` in money, `seconds` of an answer, and whether it is on the `front`."""
    table = month_costs(view.measurements, view.study, view.site)[AXES].dropna()
    # What costs nothing at these prices has no place on an axis of powers.
    table = table[table["month"] > 0]
    table["front"] = pareto(table, AXES) if len(table) else pd.Series(dtype=bool)
    return table.loc[view.order(table.index)]


def draw(view: View, case: str = "") -> Figure:
    """Draw one point a layout, each with its name, and the layouts that no other beats joined by a line."""
    title = "Where and how to keep it"
    table, prices = points_of(view), view.study["prices"]
    if table.empty:
        return absent(view, title)
    figure = start(view, 4.2)
    axes = figure.subplots()
    front = table[table["front"]].sort_values(AXES)
    axes.plot(front["month"], front["seconds"], color=view.style["ink"], linewidth=1.0, zorder=2)
    for layout, row in table.iterrows():
        colour = (
            view.role_colour(str(layout)) if row["front"] or view.role(str(layout)) else view.style["muted"]
        )
        axes.plot([row["month"]], [row["seconds"]], "o", color=colour, markersize=7, zorder=3)
    logarithmic(
        axes.xaxis, table["month"], f"what a month costs [{prices['currency']}]", (("", 1.0),), inches=6
    )
    logarithmic(axes.yaxis, table["seconds"], "time of an answer", inches=3.2)
    notes = [
        f"a month: storage, what runs for it, and {prices['questions']:,} questions",
        "an answer: geometric mean over the cases, opening included",
        f"prices: {prices['source']}, {prices['date']}",
        "left and down is better",
    ]
    finish(figure, view, title, view.measurements, notes)
    # Names can only be placed when the axes have their final place.
    lay_out(figure)
    points = {str(name): (float(row["month"]), float(row["seconds"])) for name, row in table.iterrows()}
    names = [(name, view.label(name), view.role_colour(name)) for name in points]
    place(axes, points, names, view.style["font_size"] - 1, [points[str(name)] for name in front.index])
    return figure
