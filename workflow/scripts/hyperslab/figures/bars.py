"""Horizontal bars, one row a layout: rows with names, stacks, and bars that run beyond the axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.text import Text

from hyperslab.figures.view import View
from hyperslab.text import NUMBER_LOST, significant

MANY = 12


@dataclass(frozen=True)
class Part:
    """One part of stacked bars: its name, its colour, and where it starts and ends in each row."""

    name: str
    colour: str
    start: pd.Series
    end: pd.Series


def row_height(view: View, rows: int) -> float:
    """Return how many inches a row takes."""
    return float(view.style["row_many"] if rows > MANY else view.style["row"])


def sheet_height(view: View, rows: int) -> float:
    """Return the inches of a figure with so many rows, its axis and its title."""
    return 0.65 + row_height(view, rows) * (rows + 1)


def error_note(errors: pd.Series) -> str:
    """Return what ± means beside a row; empty where no layout has an error."""
    return "±: largest error of a lossy layout; others are exact" if errors.notna().any() else ""


def error_text(error: float) -> str:
    """Return the largest error beside a row, in words where it is infinite; empty where a layout is exact."""
    if math.isnan(error):
        return ""
    return f"  {NUMBER_LOST}" if math.isinf(error) else f"  ± {significant(error)}"


def layout_rows(axes: Axes, view: View, layouts: Sequence[str]) -> None:
    """Give each layout a row from the top, named; the names with a role are bold."""
    axes.set_yticks(range(len(layouts)), [view.label(name) for name in layouts])
    axes.set_ylim(len(layouts) - 0.4, -0.6)
    axes.grid(False, axis="y")
    for name, text in zip(layouts, axes.get_yticklabels(), strict=True):
        if view.role(name):
            text.set_fontweight("bold")
    part_groups(axes, view, layouts)


def part_groups(axes: Axes, view: View, layouts: Sequence[str]) -> None:
    """Draw a thin line between the values of a grid's first variable, where there are many rows."""
    if len(layouts) <= MANY:
        return
    first = {
        name: (number, values[0] if len(values) > 1 else "")
        for number, grid in enumerate(view.study["grids"])
        for name, values in grid["layouts"].items()
    }
    for row in range(1, len(layouts)):
        if first.get(layouts[row]) != first.get(layouts[row - 1]):
            axes.axhline(row - 0.5, color=view.style["faint"], linewidth=0.6, zorder=0)


def readable_limit(view: View, whole: pd.Series, usual: pd.Series) -> float:
    """Return the end of an axis that suits most bars.

    It holds the whole of half of them (of three quarters where they are few), and what is `usual` of three
    quarters. Where no bar is much longer than that, it holds them all.
    """
    whole, usual = whole.dropna(), usual.dropna()
    if whole.empty:
        return 1.0
    suits = 1.1 * max(whole.quantile(0.5 if len(whole) > MANY else 0.75), usual.quantile(0.75))
    return float(suits if whole.max() > view.style["cut"] * suits else 1.04 * whole.max())


def stack(axes: Axes, view: View, parts: Sequence[Part], limit: float, texts: Mapping[str, str]) -> None:
    """Stack bars by layout up to `limit`; one beyond it is pale and carries its text of `texts`."""
    layouts = list(parts[0].end.index)
    ends = pd.concat([part.end for part in parts], axis=1).max(axis=1)
    beyond = [bool(value > limit) for value in ends]
    positions = np.arange(len(layouts))
    for part in parts:
        drawn = axes.barh(
            positions, part.end - part.start, left=part.start, height=0.72, color=part.colour, linewidth=0,
            label=part.name,
        )  # fmt: skip
        for bar, pale in zip(drawn.patches, beyond, strict=True):
            bar.set_alpha(view.style["pale"] if pale else 1.0)
    axes.set_xlim(0, limit)
    for row, layout in enumerate(layouts):
        if beyond[row]:
            _inside(axes, limit, row, f"{texts[layout]} →")


def _inside(axes: Axes, limit: float, row: int, text: str) -> Text:
    """Return the words at the right end of a row, on the bar."""
    return axes.annotate(
        text, (limit, row), xytext=(-3, 0), textcoords="offset points", ha="right", va="center_baseline",
        fontsize="small", zorder=6,
        bbox={"boxstyle": "square,pad=0.12", "facecolor": "white", "alpha": 0.75, "linewidth": 0},
    )  # fmt: skip


def beside(axes: Axes, view: View, head: str, texts: Sequence[str]) -> None:
    """Write a column of words right of the rows, under its head."""
    place: dict[str, Any] = {
        "transform": axes.get_yaxis_transform(),
        "va": "center_baseline",
        "fontsize": "small",
    }
    axes.text(1.012, -0.95, head, **place, color=view.style["muted"])
    for row, text in enumerate(texts):
        axes.text(1.012, row, text, **place)


def legend_of(parts: Sequence[Part]) -> list[Patch]:
    """Return opaque patches for a legend, whatever the bars are."""
    return [Patch(color=part.colour, label=part.name, linewidth=0) for part in parts]
