"""Where and how to keep an array: the time of an answer against what a month costs."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from hyperslab.figures.labels import place
from hyperslab.figures.scales import logarithmic
from hyperslab.figures.sheet import absent, finish, lay_out, start
from hyperslab.figures.view import View, look
from hyperslab.results.front import pareto
from hyperslab.results.prices import answer_words, asked_rows, month_costs, state_of_answers
from hyperslab.results.statistics import by_mean

AXES = ["month", "seconds"]


def points_of(view: View) -> pd.DataFrame:
    """Return a row a point: `layout` and `site`, `month` in money, `seconds` of an answer, whether it is on
    the `front`, the `state` in which it was asked, whether a limit has `held` that back so that times are
    means, and the `name` to be written beside it.

    Of all sites where the study wants them together; those of others are named with their site.
    """
    views = [view]
    if view.study["prices"].get("together"):
        sites = sorted({str(site) for site in view.data.measurements["site"]} - {view.site})
        views += [look(site, view.data) for site in sites]
    found = []
    for each in views:
        table = month_costs(each.measurements, each.study, each.site)[AXES].dropna()
        # What costs nothing at these prices has no place on an axis of powers.
        table = table[table["month"] > 0]
        table = table.loc[each.order(table.index)].rename_axis("layout").reset_index()
        own = each is view
        names = [view.label(name) if own else f"{name} at {each.site}" for name in table["layout"]]
        asked = asked_rows(each.measurements, each.study["prices"])
        state = str(state_of_answers(asked))
        held = by_mean(asked[asked["state"] == state])
        found.append(table.assign(site=each.site, name=names, state=state, held=held))
    points = pd.concat(found, ignore_index=True)
    return points.assign(front=pareto(points, AXES) if len(points) else pd.Series(dtype=bool))


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
    colours = [_colour(view, row) for _, row in table.iterrows()]
    for colour, (_, row) in zip(colours, table.iterrows(), strict=True):
        inside = colour if row["site"] == view.site else "white"
        axes.plot(
            [row["month"]],
            [row["seconds"]],
            "o",
            color=colour,
            markerfacecolor=inside,
            markersize=7,
            zorder=3,
        )
    logarithmic(
        axes.xaxis, table["month"], f"what a month costs [{prices['currency']}]", (("", 1.0),), inches=6
    )
    logarithmic(axes.yaxis, table["seconds"], "time of an answer", inches=3.2)
    answers = " or ".join(map(answer_words, dict.fromkeys(table["state"])))
    notes = [
        f"a month: storage, what runs for it, and {prices['questions']:,} questions",
        f"an answer: {answers}; geometric mean over the cases",
        "times: means where a limit holds reads back, else medians" if table["held"].any() else "",
        f"prices: {prices['source']}, {prices['date']}",
        "left and down is better",
        "hollow: at another site" if table["site"].nunique() > 1 else "",
    ]
    finish(figure, view, title, view.measurements, notes)
    # Names can only be placed when the axes have their final place.
    lay_out(figure)
    points = {str(number): (float(row["month"]), float(row["seconds"])) for number, row in table.iterrows()}
    names = [
        (str(number), row["name"], view.role_colour(row["layout"]) if row["site"] == view.site else colour)
        for (number, row), colour in zip(table.iterrows(), colours, strict=True)
    ]
    place(axes, points, names, view.style["font_size"] - 1, [points[str(number)] for number in front.index])
    return figure


def _colour(view: View, row: pd.Series) -> str:
    """Return the colour of a point: that of its layout's role here, of plain text on the front, else pale."""
    if row["site"] == view.site and view.role(row["layout"]):
        return view.role_colour(row["layout"])
    return str(view.style["ink" if row["front"] else "muted"])
