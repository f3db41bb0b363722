"""Ragged rows: seconds against bytes for each layout, and file size over bytes, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hyperslab.figures.lines import entry, look
from hyperslab.figures.scales import BYTES, logarithmic
from hyperslab.figures.sheet import absent, finish, start
from hyperslab.figures.view import View
from hyperslab.states import STATES
from hyperslab.studies.case_kinds import kind_of

RATIO = "file over bytes of rows"
COLUMNS = ["layout", "panel", "bytes", "value"]


def rows_of(view: View) -> pd.DataFrame:
    """Return one row a panel, layout and size: `panel`, `layout`, `bytes` of all rows, `value`.

    The value is the median over all repeats of first call to close, in seconds, of warm reads of the calls
    alone; in the last panel the ratio of the file to the bytes of its rows. Panels of one size are left out
    where others have several.
    """
    tables = []
    for name, case in view.study["cases"].items():
        if kind_of(case).data_model != "rows":
            continue
        rows = view.measurements[view.measurements["case"] == name].assign(bytes=case["raw_bytes"])
        for state, some in rows.groupby("state", observed=True):
            tables.append(some.assign(panel=_panel_title(case, str(state)), value=_seconds(some, str(state))))
        # Files of several datasets, and those of one row a call, are no others.
        if len(rows) and _asks_all(case):
            ratio = rows.assign(panel=RATIO, value=rows["file_bytes"] / rows["bytes"])
            tables.append(ratio[ratio["state"] == ratio["state"].iloc[0]])
    if not tables:
        return pd.DataFrame(columns=COLUMNS)
    found = pd.concat(tables)
    grouped = found.groupby(["layout", "panel", "bytes"], observed=True, sort=False)["value"]
    table: pd.DataFrame = grouped.median().reset_index()
    sizes = table.groupby("panel")["bytes"].transform("nunique")
    return table[sizes > 1] if (sizes > 1).any() else table


def _asks_all(case: dict[str, object]) -> bool:
    """Return whether a case writes or reads all rows, once each."""
    rows = case.get("rows")
    return (
        isinstance(rows, dict)
        and "replaced" not in rows
        and rows.get("rows", "all") == "all"
        and rows.get("datasets", 1) == 1
        and not rows.get("growing")
    )


def _seconds(rows: pd.DataFrame, state: str) -> pd.Series:
    """Return the span of the source: first call to close of the file; of a warm read the calls."""
    if state == "write":
        parts: pd.Series = rows[["write_s", "flush_s", "close_s"]].sum(axis=1)
        return parts
    span: pd.Series = rows["time_s"] + (0 if state == "warm" else rows["close_s"].fillna(0))
    return span


def _panel_title(case: dict[str, object], state: str) -> str:
    """Return what is done in a panel: cases that differ in the number of rows alone share one."""
    rows = case.get("rows")
    asked = rows if isinstance(rows, dict) else {}
    if "replaced" in asked:
        return f"replacing {asked['replaced']:,} rows"
    if state == "write":
        call = asked.get("call")
        how = "all in one call" if call == "all" else f"{call:,} row{'s' if call != 1 else ''} a call"
        if "readers" in asked:
            return (
                f"appending, {how}, {asked['readers'] or 'no'} reader{'s' * (asked['readers'] != 1)} beside"
            )
        several = asked.get("datasets", 1)
        grown = "appending" if asked.get("growing") else "writing"
        return f"{grown}, {how}" + (f", {several} datasets" if several != 1 else "")
    several = asked.get("datasets", 1)
    first = f" of the first of {several} datasets" if several != 1 else ""
    what = {"all": "all rows", 1: "one row"}.get(asked.get("rows", "all"), f"{asked.get('rows')} rows")
    return f"reading {what}{first}{' anywhere' if asked.get('scattered') else ''}, {STATES[state]}"


def draw(view: View, case: str = "") -> Figure:
    """Draw one panel for each way of writing and reading, one line a layout, and one of file sizes."""
    title = "Ragged rows: time and file size against bytes"
    table = rows_of(view)
    if table.empty:
        return absent(view, title)
    panels = [name for name in dict.fromkeys(table["panel"]) if name != RATIO]
    panels += [RATIO] if (table["panel"] == RATIO).any() else []
    down = -(-len(panels) // 2)
    figure = start(view, 3.2 * down + 0.4)
    grid = figure.subplots(down, 2, squeeze=False)
    layouts = view.order(table["layout"])
    for axes, name in zip(grid.flat, panels, strict=False):
        _panel(view, axes, table[table["panel"] == name], layouts, name)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    handles = [entry(view, number, view.label(name)) for number, name in enumerate(layouts)]
    rows = view.measurements[view.measurements["case"].isin(view.study["cases"])]
    notes = [
        "medians over all repeats",
        "from the first call to the close of the file",
        "warm: the calls alone",
        "what was done at one size alone is left out" if table["bytes"].nunique() > 1 else "",
    ]
    return finish(figure, view, title, rows, notes, handles)


def _panel(view: View, axes: Axes, table: pd.DataFrame, layouts: Sequence[str], title: str) -> None:
    """Draw the lines of one panel."""
    axes.set_title(title, fontweight="bold")
    for number, name in enumerate(layouts):
        own = table[table["layout"] == name].sort_values("bytes")
        axes.plot(own["bytes"], own["value"], label=name, **look(view, number))
    logarithmic(axes.xaxis, table["bytes"], "bytes of all rows", BYTES, inches=3.0)
    if title == RATIO:
        logarithmic(axes.yaxis, table["value"], "ratio", (("×", 1.0),), inches=2.4)
    else:
        logarithmic(axes.yaxis, table["value"], "time", inches=2.4)
