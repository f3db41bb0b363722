"""A small study with known numbers for the tests of figures, and how to find things on a figure."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from hyperslab import figures
from hyperslab.figures import FigureData
from hyperslab.results.recommend import recommend
from hyperslab.results.scoring import absolute_score, matched_score
from hyperslab.results.statistics import summarise
from hyperslab.results.tables import tidy

GRID = {f"{m}x{m}x{n}": [m, n] for m in (2, 4) for n in (64, 128, 256)}
LAYOUTS = ["contiguous", "auto", *GRID]
SHAPE = [8, 8, 1024]
RAW = 2 * math.prod(SHAPE)
READ = {"kind": "read", "states": ["cold", "warm", "session"], "shape": SHAPE, "layouts": LAYOUTS}
STUDY: dict[str, Any] = {
    "shape": SHAPE,
    "layouts": LAYOUTS,
    "grids": [{"name": "{m}x{m}x{n}", "variables": ["m", "n"], "layouts": GRID}],
    "cases": {
        "slices": {**READ, "title": "All slices"},
        "spectra": {**READ, "title": "Spectra"},
        "whole": {**READ, "title": "At once", "kind": "write", "states": ["write"]},
    },
    "score": True,
    "tradeoff": ["slices", "spectra"],
}
CRITERIA = [
    {"case": "slices", "state": "session", "statistic": "median_s", "below": 0.004},
    {"case": "spectra", "state": "session", "statistic": "median_s", "below": 0.004},
    {"statistic": "file_bytes", "below": 1.2 * RAW, "title": "small file"},
]
# Seconds of slices and of spectra: small n suits the former; large n and contiguous suit the latter.
SPEED = {"contiguous": (0.9, 0.0004), "auto": (0.006, 0.005)} | {
    name: (0.001 * n / 64 / m, 0.008 * 64 / n) for name, (m, n) in GRID.items()
}
WRITE = {"create_s": 0.1, "flush_s": 0.1, "close_s": 0.02, "fsync_s": 0.3}


def write_seconds(layout: str) -> float:
    """Seconds inside the write calls of a layout."""
    return 0.2 + 0.05 * LAYOUTS.index(layout)


def _cell(site: str, layout: str, round_: int) -> dict[str, Any]:
    """What all rows of a cell have in common."""
    number = LAYOUTS.index(layout)
    index = 0 if layout == "contiguous" else 1000 * (number + 1)
    padding = 0 if layout == "contiguous" else 5000 * number
    values = GRID.get(layout, [None, None])
    return {
        "study": "s", "site": site, "layout": layout, "phase": "main", "round": round_,
        "noisy": round_ == 2, "overlap": False, "stale": False,
        "file_bytes": RAW + padding + index + 100, "data_bytes": RAW, "remainder_bytes": 100,
        "padding_bytes": padding, "padding_predicted_bytes": padding,
        "index_bytes": index, "index_predicted_bytes": index, "grid_m": values[0], "grid_n": values[1],
    }  # fmt: skip


def _reads(site: str, layout: str, round_: int) -> list[dict[str, Any]]:
    """Repeats of the two read cases: sessions fall, with a spike in their third selection."""
    rows = []
    number, cold = LAYOUTS.index(layout), "library-cold" if site == "memory" else "cold"
    for (column, case), (state, repeats) in itertools.product(
        enumerate(("slices", "spectra")), ((cold, 4), ("warm", 4), ("session", 5))
    ):
        base = SPEED[layout][column] * (1 + 0.02 * round_) * (0.1 if state == "warm" else 1)
        for repeat in range(repeats):
            falling = 1 + 0.5 / (repeat + 1) if state == "session" else 1 + 0.01 * repeat
            row = {
                "case": case, "kind": "read", "state": state, "repeat": repeat,
                "time_s": base * falling * (3 if state == "session" and repeat == 2 else 1),
                "asked_bytes": 1e3 * (column + 1), "chunk_bytes": 1e5 + 1e3 * number,
                "requested_bytes": 2e5 + 1e3 * number, "device_bytes": 3e5 if site == "disk" else 0,
            }  # fmt: skip
            rows.append({**_cell(site, layout, round_), **row})
    return rows


def _writes(site: str, layout: str, round_: int) -> list[dict[str, Any]]:
    """Two writes; their files have another index than row-major insertion would give."""
    parts = {**WRITE, "write_s": write_seconds(layout)}
    common = _cell(site, layout, round_)
    row = {
        "case": "whole", "kind": "write", "state": "write", "time_s": sum(parts.values()),
        "reference_s": 0.4 + 0.01 * round_, "asked_bytes": RAW, "index_bytes": common["index_bytes"] + 7,
    }  # fmt: skip
    return [{**common, **row, **parts, "repeat": repeat} for repeat in range(2)]


@cache
def repeats(*sites: str) -> pd.DataFrame:
    """The table of repeats of these sites, by default of both; not to be changed in place."""
    cells = itertools.product(sites or ("disk", "memory"), LAYOUTS, range(3))
    return tidy([row for cell in cells for row in (*_reads(*cell), *_writes(*cell))])


def data_of(table: pd.DataFrame, **changes: Any) -> FigureData:
    """Everything that figures need, of a table of repeats, but for a score, which one of them shows."""
    summary = summarise(table[~table["stale"]])
    told = {"pick": "4x4x128", "runner_up": "4x4x256", "size_bound_bytes": 1.15 * RAW}
    chosen = [
        {**entry.to_dict(), **told}
        for entry in recommend(summary, contiguous="contiguous", automatic="auto")
        if entry.pick
    ]
    recommendation = {"contiguous": "contiguous", "automatic": "auto", "sites": chosen}
    return dataclasses.replace(FigureData(table, summary, {}, recommendation, STUDY), **changes)


@cache
def data() -> FigureData:
    """The study as measured, with its score."""
    found = data_of(repeats())
    absolute = absolute_score(found.summary, CRITERIA).to_json(orient="records")
    matched = matched_score(found.summary, CRITERIA, 2, None, ["4x4x128"])
    score = {
        "criteria": CRITERIA,
        "published": ["4x4x128"],
        "absolute": json.loads(absolute),
        "matched": [entry.to_dict() for entry in matched],
    }
    return dataclasses.replace(found, score=score)


@cache
def picture(name: str, site: str = "disk") -> Figure:
    """A figure of the study as measured, drawn once for all tests that look at it."""
    return figures.draw(name, site, data())


def statistic(column: str, case: str = "slices", state: str = "session") -> pd.Series:
    """Layout -> median over the rounds of a column of the summary of the disk."""
    rows = data().summary
    rows = rows[(rows["site"] == "disk") & (rows["case"] == case) & (rows["state"] == state)]
    return rows.groupby("layout")[column].median()


def pooled(case: str, state: str) -> pd.Series:
    """Layout -> pooled median at the disk, in seconds."""
    return statistic("pooled_median_s", case, state)


def texts(figure: Figure) -> str:
    """Every word on a figure, line breaks as spaces."""
    # Small print is written from the last line up.
    found = [text.get_text() for text in reversed(figure.texts)]
    for legend in figure.legends:
        found += [text.get_text() for text in legend.get_texts()]
    for axes in figure.axes:
        found += [axes.get_title(loc="left"), axes.get_xlabel(), axes.get_ylabel()]
        found += [text.get_text() for text in (*axes.texts, *axes.get_yticklabels(), *axes.get_xticklabels())]
    return " ".join(" ".join(found).split())


def bars(axes: Axes) -> dict[str, list[Rectangle]]:
    """Part of a stack -> its bars, in the order of the rows."""
    named = {str(found.get_label()): found for found in axes.containers}
    return {name: list(found.patches) for name, found in named.items() if isinstance(found, BarContainer)}


def line(axes: Axes, label: str) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates of the line of this label."""
    (found,) = (drawn for drawn in axes.lines if drawn.get_label() == label)
    return np.asarray(found.get_xdata(), dtype=float), np.asarray(found.get_ydata(), dtype=float)


def row(axes: Axes, layout: str) -> int:
    """The row of a layout, by the names beside the axis."""
    return [text.get_text().removeprefix("★ ") for text in axes.get_yticklabels()].index(layout)
