"""Times by library setting, with the reads and writes that reached the kernel beside them."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hyperslab.figures.bars import Part, beside, layout_rows, readable_limit, row_height, stack
from hyperslab.figures.scales import linear
from hyperslab.figures.sheet import absent, finish, start
from hyperslab.figures.view import View
from hyperslab.states import STATES
from hyperslab.text import count, megabytes, seconds

# The core driver reads the whole file when it is opened, so the time of opening stands beside.
COUNTS = ["requested_reads", "requested_bytes", "requested_writes", "written_bytes", "open_s"]

# Above this share of the time, that of opening the file is worth a word.
OPENING = 0.1


def counted(view: View, case: str, state: str) -> pd.DataFrame:
    """Return layouts x `time_s` (pooled median) and the medians of `COUNTS`, of one case and state."""
    table = view.repeats(case, state).groupby("layout", observed=True)[COUNTS].median()
    table = table.assign(time_s=view.pooled(case, state)["pooled_median_s"])
    return table.loc[view.order(table.index)]


def states_of(view: View, case: str) -> list[str]:
    """Return the states of a case that were measured: writes first,
    and what a file that stays open shows last.
    """
    present = set(view.summary["state"][view.summary["case"] == case])
    return [state for state in ("write", view.cold, "warm", "session") if state in present]


def draw(view: View, case: str = "") -> Figure:
    """Draw one panel a case and state, one row a layout."""
    title = "Settings: times, and requests that reached the kernel"
    panels = [(name, state) for name in view.study["cases"] for state in states_of(view, name)]
    if not panels:
        return absent(view, title)
    tables = {key: counted(view, *key) for key in panels}
    heights = [0.75 + row_height(view, len(table)) * (len(table) + 1) for table in tables.values()]
    figure = start(view, sum(heights))
    drawn = figure.subplots(len(tables), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, ((name, state), table) in zip(drawn, tables.items(), strict=True):
        axes.set_title(f"{view.title(name)}, {STATES[state]}", fontweight="bold")
        _panel(axes, view, table)
    notes = [view.over_rounds(view.measurements), "counts: medians of the repeats", "MB = 10⁶ bytes"]
    return finish(figure, view, title, view.measurements, notes)


def _panel(axes: Axes, view: View, table: pd.DataFrame) -> None:
    """Draw the bars of one case and state, and what each layout asked for."""
    time = table["time_s"]
    limit = readable_limit(view, time, time)
    parts = [Part("time", view.palette[0], 0 * time, time)]
    stack(axes, view, parts, limit, {str(name): seconds(value) for name, value in time.items()})
    layout_rows(axes, view, list(table.index))
    beside(
        axes, view, "time; calls and bytes asked of the kernel", [_text(row) for _, row in table.iterrows()]
    )
    linear(axes.xaxis, limit, "time")


def _text(row: pd.Series) -> str:
    """Return what one layout took and asked for."""
    kinds = {"read": ("requested_reads", "requested_bytes"), "write": ("requested_writes", "written_bytes")}
    asked = [
        f"{count(round(row[calls]), word)} {megabytes(row[size])}"
        for word, (calls, size) in kinds.items()
        if row[calls] > 0
    ]
    opening = f" (open {seconds(row['open_s'])})" if row["open_s"] > OPENING * row["time_s"] else ""
    return f"{seconds(row['time_s'])}{opening}; {', '.join(asked) or 'nothing'}"
