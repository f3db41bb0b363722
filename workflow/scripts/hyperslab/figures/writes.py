"""Durable write times by strategy and layout, beside a plain write and fsync of the same bytes."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from hyperslab.figures.bars import Part, beside, layout_rows, legend_of, readable_limit, row_height, stack
from hyperslab.figures.scales import linear
from hyperslab.figures.sheet import absent, finish, start
from hyperslab.figures.view import View
from hyperslab.studies.case_kinds import kind_of
from hyperslab.text import megabytes, seconds

UPLOAD = "upload"
SPLIT = {
    "create and write": ["create_s", "write_s"],
    "flush": ["flush_s"],
    "close": ["close_s"],
    "fsync": ["fsync_s"],
    # Into an object store.
    UPLOAD: ["upload_s"],
}


def durable(view: View, case: str) -> pd.DataFrame:
    """Return layouts x (`time_s` and the parts of `SPLIT`) in seconds.

    `time_s` is the pooled median of the durable time; its parts are their shares of the summed times, because
    medians of parts do not add up to the median of the whole. Also `reference_s`, the median.
    """
    rows = view.repeats(case, "write")
    whole = view.pooled(case, "write")["pooled_median_s"]
    columns = [column for parts in SPLIT.values() for column in parts]
    sums = rows.groupby("layout", observed=True)[columns].sum()
    shares = pd.DataFrame({name: sums[parts].sum(axis=1) for name, parts in SPLIT.items()})
    shares = shares.div(shares.sum(axis=1), axis=0)
    table = shares.mul(whole, axis=0).assign(time_s=whole)
    table["reference_s"] = rows.groupby("layout", observed=True)["reference_s"].median()
    return table.loc[view.order(table.index)]


def draw(view: View, case: str = "") -> Figure:
    """Draw one panel a write case; panels that write equally much share their axis."""
    title = "Durable time of a write by strategy and layout"
    cases = [name for name, described in view.study["cases"].items() if kind_of(described).writes_array]
    tables = {name: durable(view, name) for name in cases if len(view.rounds(name, "write"))}
    if not tables:
        return absent(view, title)
    rows = view.measurements
    rows = rows[rows["case"].isin(tables) & (rows["state"] == "write")]
    heights = [0.75 + row_height(view, len(table)) * (len(table) + 1) for table in tables.values()]
    figure = start(view, sum(heights))
    panels = figure.subplots(len(tables), 1, squeeze=False, height_ratios=heights)[:, 0]
    written = rows.groupby("case", observed=True)["asked_bytes"].median()
    limits = {
        size: readable_limit(view, *_lengths([tables[name] for name in tables if written[name] == size]))
        for size in set(written)
    }
    # By name: what went into an object store has a part more than what did not.
    parts: dict[str, Part] = {}
    for axes, (name, table) in zip(panels, tables.items(), strict=True):
        axes.set_title(f"{view.title(name)}: {megabytes(written[name])}", fontweight="bold")
        reference = view.repeats(name, "write")["reference_s"]
        parts |= {part.name: part for part in _panel(axes, view, table, limits[written[name]], reference)}
    ink = view.style["ink"]
    handles = [
        *legend_of([parts[name] for name in SPLIT if name in parts]),
        Line2D([], [], color=ink, linewidth=1.5, label="plain write and fsync, median"),
        Patch(color=ink, alpha=0.12, linewidth=0, label="its quartiles"),
    ]
    return finish(
        figure, view, title, rows, [view.over_rounds(rows), "parts by their share of the time"], handles
    )


def _lengths(tables: list[pd.DataFrame]) -> tuple[pd.Series, pd.Series]:
    """Return what an axis has to hold: every bar, and every bar with every reference."""
    whole = pd.concat([table["time_s"] for table in tables])
    return pd.concat([whole, *(table["reference_s"] for table in tables)]), whole


def _panel(axes: Axes, view: View, table: pd.DataFrame, limit: float, reference: pd.Series) -> list[Part]:
    """Return the bars of one strategy and the line of the plain write."""
    palette = view.palette
    tints = (palette[9], palette[8], palette[4], palette[0], palette[5])
    parts, start_at = [], 0 * table["time_s"]
    for name, colour in zip(SPLIT, tints, strict=True):
        if name == UPLOAD and not table[name].any():
            continue
        parts.append(Part(name, colour, start_at, start_at + table[name]))
        start_at = start_at + table[name]
    stack(axes, view, parts, limit, {str(name): seconds(value) for name, value in table["time_s"].items()})
    layout_rows(axes, view, list(table.index))
    middle, low, high = reference.quantile([0.5, 0.25, 0.75])
    axes.axvspan(low, high, color=view.style["ink"], alpha=0.12, linewidth=0, zorder=0)
    axes.axvline(middle, color=view.style["ink"], linewidth=1.5, label="reference")
    axes.set_xlim(0, limit)
    ratios = table["time_s"] / table["reference_s"]
    texts = [f"{seconds(time)}  {ratio:.2f}×" for time, ratio in zip(table["time_s"], ratios, strict=True)]
    beside(axes, view, "time, × plain", texts)
    linear(axes.xaxis, limit, "create to upload" if table[UPLOAD].any() else "create to fsync")
    return parts
