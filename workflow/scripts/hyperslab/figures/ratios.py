"""Compression ratios: of the array and of its chunks filled up, to what is stored; errors beside them."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from hyperslab.figures.bars import (
    Part,
    beside,
    error_note,
    error_text,
    layout_rows,
    legend_of,
    sheet_height,
    stack,
)
from hyperslab.figures.sheet import absent, finish, start
from hyperslab.figures.view import View
from hyperslab.text import significant

COLUMNS = ["ratio_raw", "ratio_padded", "error_max"]


def ratios(view: View) -> pd.DataFrame:
    """Return layouts x `COLUMNS`, of the files with the whole array: median ratios,
    and the largest error of any.
    """
    rows = view.of_whole_arrays()
    rows = rows[rows["ratio_raw"].notna()]
    table: pd.DataFrame = rows.groupby("layout", observed=True).agg(
        {"ratio_raw": "median", "ratio_padded": "median", "error_max": "max"}
    )
    return table.loc[view.order(table.index), COLUMNS]


def draw(view: View, case: str = "") -> Figure:
    """Draw one bar and one mark a layout."""
    title = "Compression ratio by layout"
    table = ratios(view)
    if table.empty:
        return absent(view, title)
    layouts = list(table.index)
    figure = start(view, sheet_height(view, len(layouts)))
    axes = figure.subplots()
    part = Part("of the array", view.palette[9], 0 * table["ratio_raw"], table["ratio_raw"])
    limit = 1.05 * float(table[["ratio_raw", "ratio_padded"]].max().max())
    stack(axes, view, [part], limit, {})
    layout_rows(axes, view, layouts)
    (marks,) = axes.plot(
        table["ratio_padded"], range(len(layouts)), linestyle="", marker="D", markersize=4,
        color=view.palette[2], label="of its chunks, filled up at the edges",
    )  # fmt: skip
    axes.axvline(1, color=view.style["ink"], linewidth=1.3, label="no compression")
    beside(axes, view, "array, chunks", [_text(row) for _, row in table.iterrows()])
    axes.set_xlabel("bytes over bytes stored")
    return finish(
        figure, view, title, view.measurements, [error_note(table["error_max"])], [*legend_of([part]), marks]
    )


def _text(row: pd.Series) -> str:
    """Return both ratios, and the error of a lossy layout."""
    found = f"{significant(row['ratio_raw'])}×  {significant(row['ratio_padded'])}×"
    return found + error_text(row["error_max"])
