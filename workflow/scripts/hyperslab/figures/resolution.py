"""Views that become finer: time and bytes until each level is there, and what some levels show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from hyperslab.figures.levels import every, panel
from hyperslab.figures.lines import entry
from hyperslab.figures.scales import BYTES, logarithmic
from hyperslab.figures.sheet import absent, finish, start
from hyperslab.figures.view import View
from hyperslab.results.resolution import Picture, by_level, pictures, typical
from hyperslab.results.statistics import by_mean

# Inches of the panels, and of a row of pictures with its words.
PANELS, PICTURES = 3.1, 1.75


def draw(view: View, case: str) -> Figure:
    """Draw times beside bytes, one line a layout, above pictures of the levels of one slice."""
    title = f"{view.title(case)}: from the first picture to the finest"
    rows = view.repeats(case, view.cold)
    levels = by_level(rows)
    if levels.empty:
        return absent(view, title, view.nothing_cold([case]))
    shown = _rows_of_pictures(view, case)
    figure = start(view, PANELS + PICTURES * len(shown))
    # Apart, or the words beside the right panel would make room between the pictures.
    heights = [PANELS, *[PICTURES] * len(shown)]
    parts: Any = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)
    above, *below = parts[:, 0]
    left, right = above.subplots(1, 2)
    # Where a limit holds reads back a median time is that of a burst; bytes know no bursts.
    held = by_mean(view.rounds(case, view.cold))
    times = _ordered(view, typical(levels, "so_far_time_s", held))
    sizes = _ordered(view, typical(levels, "so_far_requested_bytes"))
    panel(left, view, times)
    logarithmic(left.yaxis, times.stack().to_numpy(), f"time until it is there, {view.cold}")
    panel(right, view, sizes)
    logarithmic(right.yaxis, sizes.stack().to_numpy(), "bytes requested until then", BYTES)
    for part, (words, found) in zip(below, shown, strict=True):
        for axes, picture in zip(part.subplots(1, len(found), squeeze=False)[0], found, strict=True):
            axes.imshow(
                picture.pixels, cmap="cividis", vmin=0, vmax=255, interpolation="nearest", aspect="auto"
            )
            axes.set_title(f"{every(picture.level)}{words}")
            axes.set_xticks([])
            axes.set_yticks([])
    notes = [
        view.over_rounds(rows),
        "bytes: medians in place of means" if held else "",
        "levels one after the other on one open file; times with opening, bytes without",
    ]
    handles = [entry(view, number, view.label(layout)) for number, layout in enumerate(times)]
    return finish(figure, view, title, rows, notes, handles)


def _ordered(view: View, table: pd.DataFrame) -> pd.DataFrame:
    return table[view.order(table.columns)]


def _rows_of_pictures(view: View, case: str) -> list[tuple[str, Sequence[Picture]]]:
    """Return the pictures of the first layout that has some, and of the first that shows something else.

    A pyramid of means shows other values than every so many elements of the array.
    """
    here = view.measurements[view.measurements["case"] == case]
    found = pictures(here)
    different: list[tuple[str, Sequence[Picture]]] = []
    for layout in view.order(found):
        kept = found[layout]
        same = any(_alike(kept, others) for _, others in different)
        if kept and not same:
            different.append((f", {layout}", kept))
    return [("", different[0][1])] if len(different) == 1 else different[:2]


def _alike(some: Sequence[Picture], others: Sequence[Picture]) -> bool:
    return [one.pixels.tobytes() for one in some] == [one.pixels.tobytes() for one in others]
