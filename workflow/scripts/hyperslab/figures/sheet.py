"""The sheet that a figure lies on: title and legend above, small print below, all placed in inches."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from hyperslab.figures.view import View

CELL = ["layout", "case", "round"]
MARGIN, TITLE, LINE = 0.06, 0.30, 0.215
# How wide a letter is of its size, about.
PLAIN, BOLD = 0.53, 0.62


def start(view: View, body: float) -> Figure:
    """Return an empty figure of the page's width; `body` inches without title, legend and small print."""
    return Figure(figsize=(view.style["width"], body), layout="constrained")


def finish(
    figure: Figure,
    view: View,
    title: str,
    rows: pd.DataFrame,
    notes: Sequence[str] = (),
    handles: Sequence[Artist] = (),
    alarms: Sequence[str] = (),
    star: bool = True,
) -> Figure:
    """Add the title with the site, `alarms` in red, the legend `handles`, and the small print.

    The small print is what the star means (where a layout of `rows` has it), `notes`, and how many cells of
    `rows` (repeats) are flagged.
    """
    style = view.style
    width, body = figure.get_size_inches()
    small = _small_print(view, rows, notes, star)
    heading = textwrap.wrap(f"{title} · {view.site}", _letters(view, BOLD, 2))
    red = [line for alarm in alarms for line in textwrap.wrap(alarm, _letters(view))]
    columns = _legend_columns(view, [str(handle.get_label()) for handle in handles])
    legend = -(-len(handles) // columns)
    above = TITLE + LINE * (len(heading) - 1)
    head = above + LINE * (len(red) + legend) + MARGIN
    foot = 0.17 * len(small) + MARGIN
    height = head + body + foot
    figure.set_size_inches(width, height)
    left, middle = MARGIN / width, 1 - (MARGIN + above / 2) / height
    figure.text(left, middle, "\n".join(heading), weight="bold", size=style["font_size"] + 2, va="center")
    for number, line in enumerate(red):
        place = 1 - (above + LINE * (number + 0.5)) / height
        figure.text(left, place, line, color=style["alarm"], weight="bold", va="center")
    if handles:
        below = 1 - (above + LINE * (len(red) + legend / 2)) / height
        figure.legend(
            handles=list(handles), loc="center left", bbox_to_anchor=(0, below), ncols=columns,
            borderaxespad=0, borderpad=0.3, handlelength=1.6, columnspacing=1.6,
        ).set_in_layout(False)  # fmt: skip
    for number, line in enumerate(reversed(small)):
        bottom = (MARGIN + 0.17 * number) / height
        figure.text(left, bottom, line, size=style["font_size"] - 1, color=style["muted"], va="baseline")
    for text in figure.texts:
        text.set_in_layout(False)
    engine = figure.get_layout_engine()
    if isinstance(engine, ConstrainedLayoutEngine):
        engine.set(rect=(0, foot / height, 1, body / height))
    return figure


def lay_out(figure: Figure) -> None:
    """Give every part of `figure` its final place, which nothing that is added later changes."""
    # The layout needs the extents of texts, which this canvas knows, and that nothing is drawn.
    FigureCanvasAgg(figure)
    engine = figure.get_layout_engine()
    if engine is not None and figure.axes:
        engine.execute(figure)
    figure.set_layout_engine("none")


def absent(view: View, title: str, reason: str = "Not measured here.") -> Figure:
    """Return a figure that says why there is none."""
    figure = start(view, 0.4)
    figure.text(MARGIN / view.style["width"], 0.3, reason, color=view.style["muted"])
    return finish(figure, view, title, view.measurements.iloc[:0])


def _letters(view: View, share: float = PLAIN, larger: float = -1) -> int:
    """Return how many letters fit into a line: of small print, or of letters that are `share` of their size
    wide, where that is so many points `larger` than the usual one.
    """
    return int(view.style["width"] * 72 / (share * (view.style["font_size"] + larger)))


def _legend_columns(view: View, labels: Sequence[str]) -> int:
    """Return the columns of the fewest rows that fit the page; Matplotlib fills a legend column by column."""
    letter = view.style["font_size"] / 72
    lengths = np.array([len(label) for label in labels])
    for rows in range(1, len(labels)):
        columns = -(-len(labels) // rows)
        widest = [int(part.max()) for part in np.array_split(lengths, columns)]
        if sum(4.2 * letter + 0.58 * letter * width for width in widest) <= view.style["width"]:
            return columns
    return 1


def _small_print(view: View, rows: pd.DataFrame, notes: Sequence[str], star: bool) -> list[str]:
    """Return the lines below a figure."""
    texts = [f"★ recommended at {view.site}"] if star and view.pick in set(rows["layout"]) else []
    texts += [note for note in notes if note]
    cells = rows.drop_duplicates(CELL)
    for flag, words in (("noisy", "flagged as noisy"), ("overlap", "overlapping another timed job")):
        if flagged := int(cells[flag].sum()):
            texts.append(f"{flagged} of {len(cells)} cells {words}, kept")
    return textwrap.wrap("  ·  ".join(texts), _letters(view))
