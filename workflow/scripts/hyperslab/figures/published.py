"""A source's published table beside what was measured here: total and write time, and file size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hyperslab.figures.bars import Part, beside, layout_rows, legend_of, readable_limit, row_height, stack
from hyperslab.figures.scales import linear
from hyperslab.figures.sheet import absent, finish, start
from hyperslab.figures.view import View
from hyperslab.text import megabytes, seconds

COLUMNS = ["total_s", "write_s", "file_bytes"]


def measured(view: View, case: str) -> pd.DataFrame:
    """Return layouts x `COLUMNS`: medians over all repeats of a write case."""
    rows = view.repeats(case, "write")
    table: pd.DataFrame = rows.groupby("layout", observed=True)[COLUMNS].median()
    return table.loc[view.order(table.index)]


def printed(published: Mapping[str, Mapping[str, Any]], layouts: list[str]) -> pd.DataFrame:
    """Return the same of the source, NaN where it has no number."""
    rows = {name: [published.get(name, {}).get(column, math.nan) for column in COLUMNS] for name in layouts}
    return pd.DataFrame.from_dict(rows, orient="index", columns=COLUMNS).astype(float)


def draw(view: View, case: str = "") -> Figure:
    """Draw one row a layout, what was measured on the left and what was published on the right."""
    title = f"Measured and published: {view.title(case)}"
    here = measured(view, case)
    if here.empty:
        return absent(view, title)
    there = printed(view.study["published"][case], list(here.index))
    figure = start(view, 0.8 + row_height(view, len(here)) * (len(here) + 1))
    left, right = figure.subplots(1, 2, sharey=True)
    parts = _panel(left, view, here, "measured here")
    layout_rows(left, view, list(here.index))
    _panel(right, view, there, "published")
    right.tick_params(labelleft=False)
    notes = [
        "total: create (open), write and close, without fsync; medians over all repeats",
        "each side has an axis of its own",
        "MB = 10⁶ bytes",
    ]
    return finish(figure, view, title, view.repeats(case, "write"), notes, legend_of(parts))


def _panel(axes: Axes, view: View, table: pd.DataFrame, title: str) -> list[Part]:
    """Return the bars of one side: write calls, then the rest of the total."""
    axes.set_title(title, fontweight="bold")
    # A total without its write time is one bar of the rest.
    write = table["write_s"].fillna(0).clip(upper=table["total_s"].fillna(0))
    total = table["total_s"].fillna(0)
    palette = view.palette
    parts = [
        Part("write calls", palette[0], 0 * total, write),
        Part("open, flush and close", palette[1], write, total),
    ]
    limit = readable_limit(view, total[total > 0], total[total > 0])
    stack(axes, view, parts, limit, {str(name): seconds(value) for name, value in total.items()})
    texts = [
        f"{seconds(row.total_s)}, {seconds(row.write_s)}; {megabytes(row.file_bytes)}"
        if row.total_s > 0
        else ""
        for row in table.itertuples()
    ]
    beside(axes, view, "total, write; file", texts)
    linear(axes.xaxis, limit, "time")
    return parts
