"""Time of one small dataset against how many the file has: writing each, and reading the latest."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hyperslab.figures.lines import entry, look
from hyperslab.figures.scales import logarithmic
from hyperslab.figures.sheet import absent, finish, start
from hyperslab.figures.view import View
from hyperslab.states import STATES
from hyperslab.studies import case_kinds
from hyperslab.studies.case_kinds import kind_of


def objects_of(view: View) -> pd.DataFrame:
    """Return one row a layout, state and number of objects: `objects` and `time_s`,
    of a write each object's share.

    A write's share is the durable time of the whole file over its objects (medians over all repeats).
    """
    cases = view.study["cases"].items()
    counts = {name: kind_of(case).arrays(case) for name, case in cases if kind_of(case).many_arrays}
    rows = view.measurements[view.measurements["case"].isin(counts)]
    if rows.empty:
        return pd.DataFrame(columns=["layout", "state", "objects", "time_s"])
    objects = rows["case"].map(counts).astype(float)
    each = rows["time_s"] / objects.where(rows["state"] == "write", 1.0)
    table = rows.assign(objects=objects, time_s=each)
    grouped = table.groupby(["layout", "state", "objects"], observed=True)["time_s"]
    found: pd.DataFrame = grouped.median().reset_index()
    return found


def draw(view: View, case: str = "") -> Figure:
    """Draw one panel a state, one line a layout."""
    title = "One small dataset in a file of many"
    table = objects_of(view)
    if table.empty:
        return absent(view, title)
    states = [state for state in ("write", "session", "warm", view.cold) if state in set(table["state"])]
    figure = start(view, 3.0 * -(-len(states) // 2) + 0.4)
    panels = figure.subplots(-(-len(states) // 2), 2, squeeze=False)
    layouts = view.order(table["layout"])
    for axes, state in zip(panels.flat, states, strict=False):
        _panel(view, axes, table[table["state"] == state], layouts, state)
    for axes in list(panels.flat)[len(states) :]:
        axes.set_visible(False)
    handles = [entry(view, number, view.label(name)) for number, name in enumerate(layouts)]
    rows = view.measurements[view.measurements["kind"].isin(case_kinds.names(lambda kind: kind.many_arrays))]
    notes = ["medians over all repeats", "writing: create to fsync of the whole file over its datasets"]
    return finish(figure, view, title, rows, notes, handles)


def _panel(view: View, axes: Axes, table: pd.DataFrame, layouts: Sequence[str], state: str) -> None:
    """Draw the lines of one state."""
    words = "writing one of them" if state == "write" else f"reading the latest, {STATES[state]}"
    axes.set_title(words, fontweight="bold")
    for number, name in enumerate(layouts):
        own = table[table["layout"] == name].sort_values("objects")
        axes.plot(own["objects"], own["time_s"], label=name, **look(view, number))
    logarithmic(axes.xaxis, table["objects"], "datasets in the file", (("", 1.0),))
    logarithmic(axes.yaxis, table["time_s"], "time of one", inches=2.4)
