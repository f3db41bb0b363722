"""File sizes: data, padding, index and remainder, and whether the index is the computed one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

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
from hyperslab.figures.scales import BYTES, linear, logarithmic
from hyperslab.figures.sheet import absent, finish, start
from hyperslab.figures.view import View
from hyperslab.results.file_sizes import of_whole_files
from hyperslab.studies import case_kinds
from hyperslab.text import count, megabytes

PARTS = ("data", "padding", "index", "remainder")
# A part that only some studies have.
LEVELS = "coarser levels"
COMPUTED = {
    "padding_bytes": "padding_predicted_bytes",
    "index_bytes": "index_predicted_bytes",
    "pyramid_bytes": "pyramid_predicted_bytes",
}
COLUMNS = ["file_bytes", "files", *(f"{part}_bytes" for part in PARTS), "pyramid_bytes"]
COLUMNS += [*COMPUTED.values(), "error_max"]


def files(view: View) -> pd.DataFrame:
    """Return layouts x `COLUMNS` in bytes, of the files that hold the whole array;
    those of read cases go first.

    The index of a file that a write case made is not computed (NaN): it depends on the order in which the
    strategy inserts chunks.
    """
    rows = of_whole_files(view.of_whole_arrays())
    written = _written(rows)
    computed = rows["index_predicted_bytes"].mask(written)
    rows = rows.assign(index_predicted_bytes=computed, files=rows["files"].fillna(1), second=written)
    rows = rows.sort_values("second", kind="stable")
    # An error is of what was read: of all files of a layout the largest counts.
    rows = rows.assign(error_max=rows.groupby("layout", observed=True)["error_max"].transform("max"))
    table: pd.DataFrame = rows.drop_duplicates("layout").set_index("layout")[COLUMNS]
    return table.loc[view.order(table.index)]


def _written(rows: pd.DataFrame) -> pd.Series:
    """Return which rows are of files that cases made; the generator makes others, chunk by chunk in order."""
    return rows["kind"].isin(case_kinds.names(lambda kind: kind.makes_its_file))


def disagreements(view: View) -> dict[str, list[str]]:
    """Return layout -> what its files report otherwise than computed, in words; of every case and round.

    The index of a file that a write case made is not compared, see `files`.
    """
    found: dict[str, list[str]] = {}
    for column, computed in COMPUTED.items():
        rows = view.measurements
        rows = rows[~_written(rows)] if column == "index_bytes" else rows
        wrong = rows[rows[computed].notna() & (rows[column] != rows[computed])]
        for layout, row in wrong.drop_duplicates("layout").set_index("layout").iterrows():
            text = f"{column.removesuffix('_bytes')} {row[column]:,.0f} bytes, computed {row[computed]:,.0f}"
            found.setdefault(str(layout), []).append(text)
    return found


def draw(view: View, case: str = "") -> Figure:
    """Draw stacked sizes with the baseline on the left, the index by itself on the right."""
    title = "File size by layout"
    table = files(view)
    if table.empty:
        return absent(view, title)
    layouts = list(table.index)
    figure = start(view, sheet_height(view, len(layouts)))
    left, right = figure.subplots(1, 2, width_ratios=[2.3, 1], sharey=True)
    parts = _parts(view, table)
    limit = 1.03 * float(table["file_bytes"].max())
    stack(left, view, parts, limit, {})
    layout_rows(left, view, layouts)
    handles = [*legend_of(parts), *_lines(left, view, table, limit)]
    beside(left, view, "file", [_size(view, table, name) for name in layouts])
    linear(left.xaxis, limit, "file size", BYTES)
    wrong = disagreements(view)
    handles += _index(right, view, table, wrong)
    alarms = [
        f"File and arithmetic disagree, {view.label(name)}: {'; '.join(texts)}"
        for name, texts in wrong.items()
    ]
    if len(alarms) > 4:
        alarms = [*alarms[:3], f"and {len(alarms) - 3} more layouts"]
    known = int(table["index_predicted_bytes"].notna().sum())
    agree = f"padding and index are as computed for {known} of {len(table)} layouts" if known else ""
    rest = "no ring: the index depends on the order of insertion" if known < len(table) else ""
    notes = ["MB = 10⁶ bytes", "" if wrong else agree, rest, error_note(table["error_max"])]
    return finish(figure, view, title, view.measurements, notes, handles, alarms)


def _parts(view: View, table: pd.DataFrame) -> list[Part]:
    """Return the parts, one behind the other; coarser levels where a layout has some."""
    palette = view.palette
    tints = dict(zip(PARTS, (palette[9], palette[1], palette[2], view.style["muted"]), strict=True))
    columns = {name: f"{name}_bytes" for name in PARTS}
    if (table["pyramid_bytes"] > 0).any():
        # Behind the array and its padding.
        names = [*PARTS[:2], LEVELS, *PARTS[2:]]
        tints, columns = {**tints, LEVELS: palette[4]}, {**columns, LEVELS: "pyramid_bytes"}
        tints = {name: tints[name] for name in names}
    parts, start_at = [], 0 * table["file_bytes"]
    for name, colour in tints.items():
        end = start_at + table[columns[name]].fillna(0)
        parts.append(Part(name, colour, start_at, end))
        start_at = end
    return parts


def _lines(axes: Axes, view: View, table: pd.DataFrame, limit: float) -> list[Line2D]:
    """Return the contiguous file as baseline and the bound of the recommendation; their legend."""
    lines = []
    if view.contiguous in table.index:
        baseline = float(table.loc[view.contiguous, "file_bytes"])
        lines.append((baseline, "contiguous baseline", "-"))
    bound = view.choice.get("size_bound_bytes")
    if bound and bound <= limit:
        lines.append((float(bound), "bound of the recommendation", ":"))
    ink = view.style["ink"]
    return [axes.axvline(x, color=ink, linewidth=1.3, linestyle=dash, label=name) for x, name, dash in lines]


def _size(view: View, table: pd.DataFrame, layout: str) -> str:
    """Return a file's size, by how much it exceeds the contiguous one, and the error of a lossy layout.

    Where any layout has several files, also how many it has.
    """
    size, files, error = table.loc[layout, ["file_bytes", "files", "error_max"]]
    lost = error_text(error)
    lost += f"  {count(int(files), 'file')}" if (table["files"] > 1).any() else ""
    if view.contiguous not in table.index or layout == view.contiguous:
        return f"{megabytes(size)}{lost}"
    more = size / table.loc[view.contiguous, "file_bytes"] - 1
    return f"{megabytes(size)}  {more:+z.1%}{lost}".replace("%", " %")


def _index(axes: Axes, view: View, table: pd.DataFrame, wrong: dict[str, list[str]]) -> list[Line2D]:
    """Draw a dot at the index that the file reports in a ring at the computed one; red where they differ."""
    rows = pd.Series(range(len(table)), index=table.index)
    measured, computed = table["index_bytes"], table["index_predicted_bytes"]
    odd = [name for name in wrong if name in table.index]
    logarithmic(axes.xaxis, pd.concat([measured, computed]), "chunk index", BYTES, inches=2.4)
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", left=False, labelleft=False)
    drawn = []
    for label, values, look in (
        (
            "index computed",
            computed[computed > 0],
            {"marker": "o", "markersize": 8, "markerfacecolor": "none"},
        ),
        ("index in the file", measured[measured > 0], {"marker": "o", "markersize": 3.6}),
    ):
        style: dict[str, Any] = {"linestyle": "", "color": view.palette[2], "label": label, **look}
        (line,) = axes.plot(values, rows[values.index], **style)
        drawn.append(line)
    middle = float(np.sqrt(np.prod(axes.get_xlim())))
    for name in odd:
        axes.axhspan(rows[name] - 0.45, rows[name] + 0.45, color=view.style["alarm"], alpha=0.2, linewidth=0)
        on_right = max(measured[name], computed[name]) < middle
        _note(axes, rows[name], "disagrees", on_right, color=view.style["alarm"], fontweight="bold")
    for name in measured[measured == 0].index.difference(odd):
        _note(axes, rows[name], "no index", False, color=view.style["muted"], fontsize="small")
    return drawn


def _note(axes: Axes, row: int, text: str, on_right: bool, **look: Any) -> None:
    """Write words at an end of a row."""
    axes.annotate(
        text, (int(on_right), row), xycoords=("axes fraction", "data"), xytext=(-5 if on_right else 5, 0),
        textcoords="offset points", ha="right" if on_right else "left", va="center_baseline", **look,
    )  # fmt: skip
