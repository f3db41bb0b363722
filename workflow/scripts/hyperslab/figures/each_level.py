"""Sub-volumes that ranks write level by level: the time of each level, and its share of the bytes."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from hyperslab.figures.lines import entry, look
from hyperslab.figures.scales import BYTES, logarithmic
from hyperslab.figures.sheet import absent, finish, start
from hyperslab.figures.view import View
from hyperslab.studies.case_kinds import kind_of

# The name of this figure, by which kinds of cases ask for it.
FIGURE = "each_level"


def by_level(rows: pd.DataFrame) -> npt.NDArray[np.float64]:
    """Return the median time of each level, from 0, over repeats of one case and layout, in seconds."""
    told = [[float(one) for one in text.split()] for text in rows["time_by_level"]]
    found: npt.NDArray[np.float64] = np.median(np.array(told), axis=0)
    return found


def bytes_by_level(asked: float, levels: int, sample: float) -> npt.NDArray[np.float64]:
    """Return the bytes of each of so many levels, of `asked` in all: the finest has half of them, and so on.

    Where extents are no powers of two that is nearly so. A level that would have less than one `sample` is
    NaN: an array that fills a part of its bitmask has none in some levels, but for the first.
    """
    halvings = np.arange(levels, 0, -1, dtype=np.float64)
    halvings[0] = levels - 1
    found: npt.NDArray[np.float64] = asked / 2.0**halvings
    found[found < sample] = math.nan
    found[0] = np.fmax(found[0], sample)
    return found


def draw(view: View, case: str) -> Figure:
    """Draw times beside bytes, one line a way and number of ranks; `case` is the family."""
    # Writes in no levels have no text, or an empty one.
    rows = view.measurements[view.measurements["time_by_level"].fillna("").astype("str") != ""]
    members = [
        name for name, one in view.study["cases"].items()
        if one.get("family") == case and (rows["case"] == name).any()
    ]  # fmt: skip
    rows = rows[rows["case"].isin(members)]
    if rows.empty:
        return absent(view, f"{case}: time of each level")
    title = f"{view.title(members[0]).rsplit(', ', 2)[0]}: time of each level"
    figure = start(view, 3.3)
    left, right = figure.subplots(1, 2)
    lines: dict[str, npt.NDArray[np.float64]] = {}
    sizes: dict[float, npt.NDArray[np.float64]] = {}
    for name in members:
        for layout, mine in rows[rows["case"] == name].groupby("layout", observed=True, sort=False):
            times = by_level(mine)
            lines[f"{_words(view, name)}, {layout}"] = times
            asked = float(mine["asked_bytes"].median())
            sample = asked / math.prod(view.study["cases"][name]["shape"])
            sizes[asked] = bytes_by_level(asked, len(times), sample)
    for number, times in enumerate(lines.values()):
        left.plot(np.where(times > 0, times, np.nan), **look(view, number))
    logarithmic(left.yaxis, np.concatenate(list(lines.values())), "time to write the level")
    for size in sizes.values():
        right.plot(size, color=view.style["ink"], marker=".", linewidth=1.2)
    logarithmic(right.yaxis, np.concatenate(list(sizes.values())), "bytes of the level", BYTES)
    for axes in (left, right):
        _levels(axes)
    handles = [entry(view, number, name) for number, name in enumerate(lines)]
    notes = ["medians over all repeats, each level by its slowest rank; bytes by arithmetic"]
    return finish(figure, view, title, rows, notes, handles, star=False)


def _words(view: View, name: str) -> str:
    """Return the way of a case and its number of ranks."""
    case = view.study["cases"][name]
    ranks = view.title(name).rpartition(", ")[2]
    return f"{kind_of(case).apart(case, view.title(name))[1]}, {ranks}"


def _levels(axes: Axes) -> None:
    axes.set_xlabel("level")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
