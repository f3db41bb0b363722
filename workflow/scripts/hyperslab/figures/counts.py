"""Cold time against each of the four counts of bytes."""

from __future__ import annotations

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hyperslab.figures.lines import entry, look
from hyperslab.figures.scales import BYTES, logarithmic
from hyperslab.figures.sheet import absent, finish, start
from hyperslab.figures.view import View
from hyperslab.states import LIBRARY_COLD, STATES
from hyperslab.studies.case_kinds import kind_of

COUNTS = {
    "asked_bytes": "asked: the selection's bytes",
    "chunk_bytes": "chunk bytes: chunks touched, by arithmetic",
    "requested_bytes": "requested: from the kernel",
    "device_bytes": "device: read from the device",
}


def points_of(view: View) -> pd.DataFrame:
    """Return one row a layout and read case: both,
    `time_s` (the pooled median) and the median of each count.
    """
    tables = []
    for name, described in view.study["cases"].items():
        rows = view.repeats(name, view.cold)
        if not kind_of(described).reads_selections or rows.empty:
            continue
        counts = rows.groupby("layout", observed=True)[list(COUNTS)].median()
        medians = view.pooled(name, view.cold)["pooled_median_s"]
        tables.append(counts.assign(case=name, time_s=medians).reset_index())
    if not tables:
        return pd.DataFrame(columns=["layout", *COUNTS, "case", "time_s"])
    return pd.concat(tables, ignore_index=True)


def draw(view: View, case: str = "") -> Figure:
    """Draw four panels with one time axis; colour and marker tell the cases apart."""
    title = f"Time against four counts, {STATES[view.cold]}"
    table = points_of(view)
    if table.empty:
        return absent(view, title)
    figure = start(view, 6.3)
    panels = figure.subplots(2, 2, sharey=True)
    cases = list(dict.fromkeys(table["case"]))
    for axes, (count, words) in zip(panels.flat, COUNTS.items(), strict=True):
        axes.set_title(words, fontweight="bold")
        _panel(axes, view, table, count, cases)
    for axes in panels[:, 0]:
        logarithmic(axes.yaxis, table["time_s"], "time of one selection")
    for axes in panels[:, 1]:
        axes.set_ylabel("")
    handles = [entry(view, number, view.title(name), linestyle="") for number, name in enumerate(cases)]
    if view.pick in set(table["layout"]):
        ring = {"marker": "o", "markersize": 9, "markerfacecolor": "none", "color": view.style["ink"]}
        handles.append(Line2D([], [], linestyle="", label=f"{view.pick}, recommended", **ring))
    rows = view.measurements[view.measurements["state"] == view.cold]
    notes = ["one point a layout and case", "MB = 10⁶ bytes"]
    return finish(figure, view, title, rows, notes, handles, star=False)


def _panel(axes: Axes, view: View, table: pd.DataFrame, count: str, cases: list[str]) -> None:
    """Draw one count; points at zero have no place on a logarithmic axis and are counted instead."""
    known = table[table[count] > 0]
    axes.set_ylabel("")
    if known.empty:
        reason = "the file lies in memory" if view.cold == LIBRARY_COLD else "no bytes were counted here"
        if table[count].isna().all():
            reason = "not available on this file system"
        axes.set_xticks([])
        axes.text(0.5, 0.5, reason, transform=axes.transAxes, ha="center", color=view.style["muted"])
        axes.set_xlabel("")
        return
    looks = {name: look(view, number) for number, name in enumerate(cases)}
    sns.scatterplot(
        data=known, x=count, y="time_s", hue="case", style="case", hue_order=cases, style_order=cases,
        palette={name: own["color"] for name, own in looks.items()}, s=30, alpha=0.8,
        markers={name: own["marker"] for name, own in looks.items()},
        linewidth=0.4, legend=False, ax=axes,
    )  # fmt: skip
    chosen = known[known["layout"] == view.pick]
    ring = {"s": 95, "facecolor": "none", "edgecolor": view.style["ink"], "linewidth": 1.1}
    axes.scatter(chosen[count], chosen["time_s"], **ring)
    left_out = len(table) - len(known)
    label = f"bytes a selection{f' ({left_out} points at 0 or unknown not shown)' if left_out else ''}"
    logarithmic(axes.xaxis, known[count], label, BYTES)
