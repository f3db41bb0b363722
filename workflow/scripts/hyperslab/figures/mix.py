"""At which mix of requests another layout is better: expected time over one share, or the best over two."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib import patheffects
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from hyperslab.figures.scales import logarithmic
from hyperslab.figures.sheet import absent, finish, start
from hyperslab.figures.view import View
from hyperslab.results.requests import case_times, entry_of, question_of
from hyperslab.text import percent

TITLE = "Which layout for which mix of requests"
STEPS = 200
Floats = npt.NDArray[np.float64]


def expected(view: View) -> pd.DataFrame:
    """Return layouts whose file is small enough x cases that count: seconds of a request, at least the floor.

    From the rounds that chose the layout; empty where nothing was recommended.
    """
    choice = view.choice
    if not choice.get("ranking"):
        return pd.DataFrame()
    asked = question_of(choice)
    rows = {
        str(entry["layout"]): case_times(entry["times"], asked)
        for entry in choice["ranking"]
        if entry["fits"]
    }
    table = pd.DataFrame.from_dict(rows, orient="index")
    known = [case for case in view.study["cases"] if case in table]
    return table[known].loc[view.order(table.index)]


def draw(view: View, case: str = "") -> Figure:
    """Draw lines for two cases that count, a triangle for three (the first three of more)."""
    times = expected(view)
    if times.empty:
        return absent(view, TITLE)
    if times.shape[1] < 2 or len(times) < 2:
        return absent(view, TITLE, "There are no two cases and layouts to choose between.")
    if times.to_numpy().max() <= times.to_numpy().min():
        floor = f"{view.choice['imperceptible_ms']:g} ms"
        return absent(
            view, TITLE, f"With no layout does a request take longer than {floor}: nobody would notice."
        )
    shown = times.iloc[:, :3]
    figure = start(view, 3.6 if shown.shape[1] == 2 else 4.4)
    axes = figure.subplots()
    handles = _lines(axes, view, shown) if shown.shape[1] == 2 else _triangle(axes, view, shown)
    rows = view.measurements[view.measurements["case"].isin(shown.columns)]
    floor = f"a time under {view.choice['imperceptible_ms']:g} ms counts as this"
    notes = ["from the rounds that chose the layout", floor]
    if len(times.columns) > 3:
        notes.append(f"without {', '.join(view.title(name) for name in times.columns[3:])}")
    return finish(figure, view, TITLE, rows, notes, handles)


def _colours(view: View, names: list[str]) -> dict[str, str]:
    """Return a colour for each layout: that of its role, else one of the others in turn."""
    free = iter(view.palette[4:] * len(names))
    return {name: view.role_colour(name) if view.role(name) else next(free) for name in names}


def _lines(axes: Axes, view: View, times: pd.DataFrame) -> list[Artist]:
    """Draw the expected time over the share of the second case, and where the best layout changes."""
    first, second = times.columns
    share = np.linspace(0, 1, STEPS + 1)
    mean: Floats = times[[first]].to_numpy() * (1 - share) + times[[second]].to_numpy() * share
    best = mean.argmin(axis=0)
    wanted = [str(times.index[number]) for number in dict.fromkeys(best)]
    wanted += [name for name in times.index if view.role(name) and name not in wanted]
    colours = _colours(view, wanted)
    handles: list[Artist] = []
    drawn = mean[[times.index.get_loc(name) for name in wanted]]
    for name, row in zip(wanted, drawn, strict=True):
        front = name == view.pick
        thick = 2.4 if front else 1.4
        axes.plot(100 * share, row, color=colours[name], linewidth=thick, zorder=4 if front else 3)
        handles.append(Line2D([], [], color=colours[name], linewidth=thick, label=view.label(name)))
    logarithmic(axes.yaxis, pd.Series(drawn.ravel()), "expected time", inches=3.0)
    axes.set_xlim(0, 100)
    axes.set_xlabel(f"share of {view.title(second)} (%), the rest {view.title(first)}")
    for at in np.flatnonzero(np.diff(best)):
        # Lines cross between two steps.
        one, other = times.iloc[best[at]], times.iloc[best[at + 1]]
        less, more = other[first] - one[first], one[second] - other[second]
        place = less / (less + more)
        said = percent(place, 0 if 0.05 < place < 0.95 else 1)
        _mark(axes, view, place, said, ":", (1, -10))
    if view.choice["rule"] == "mix":
        _mark(axes, view, _given(view, times)[1], "the study's mix", "-", (0, 4))
    return handles


def _mark(axes: Axes, view: View, place: float, words: str, line: str, at: tuple[float, float]) -> None:
    """Draw a vertical line at a share, with words at its top (1) or foot (0), so many points away."""
    colour = view.style["muted"]
    axes.axvline(100 * place, color=colour, linewidth=0.8, linestyle=line)
    axes.annotate(
        words, (100 * place, at[0]), xycoords=("data", "axes fraction"), xytext=(3, at[1]),
        textcoords="offset points", color=colour, fontsize=view.style["font_size"] - 1,
    )  # fmt: skip


def _given(view: View, times: pd.DataFrame) -> list[float]:
    """Return the shares of the shown cases in the study's mix, adding up to 1; equal without one."""
    shares: Mapping[str, float] = view.choice["shares"]
    own = [sum(value for key, value in shares.items() if entry_of(key)[0] == case) for case in times]
    return [value / sum(own) for value in own]


def _triangle(axes: Axes, view: View, times: pd.DataFrame) -> list[Artist]:
    """Draw the best layout at every mix of three cases; a corner is one case alone."""
    across, third = np.meshgrid(np.linspace(0, 1, STEPS + 1), np.linspace(0, 1, STEPS + 1))
    # Corners at (0, 0), (1, 0) and (1/2, 1).
    second = across - third / 2
    first = 1 - second - third
    inside = (first >= -1e-9) & (second >= -1e-9)
    best = (np.stack([first, second, third], axis=-1) @ times.to_numpy().T).argmin(axis=-1)
    found = [int(number) for number in np.unique(best[inside])]
    names = [str(times.index[number]) for number in found]
    colours = _colours(view, names)
    numbers = np.full(best.shape, np.nan)
    for position, number in enumerate(found):
        numbers[inside & (best == number)] = position
    axes.imshow(
        numbers, origin="lower", extent=(0, 1, 0, 1), aspect=0.82, interpolation="nearest", alpha=0.75,
        cmap=ListedColormap([colours[name] for name in names]), vmin=-0.5, vmax=len(names) - 0.5,
    )  # fmt: skip
    outline = [patheffects.withStroke(linewidth=2.5, foreground="white")]
    for position, name in enumerate(names):
        spots = np.argwhere(numbers == position)
        row, column = spots[np.abs(spots - spots.mean(axis=0)).sum(axis=1).argmin()] / STEPS
        if len(spots) > 0.01 * inside.sum():
            axes.text(
                column, row + 0.06, view.label(name), ha="center", va="center", weight="bold",
                path_effects=outline, fontsize=view.style["font_size"],
            )  # fmt: skip
    places = ((0, -0.03, "top"), (1, -0.03, "top"), (0.5, 1.02, "bottom"))
    for case, (left, height, side) in zip(times, places, strict=True):
        axes.text(left, height, f"only {view.title(str(case))}", ha="center", va=side)
    look = {"color": view.style["ink"], "markerfacecolor": "white", "marker": "o", "linestyle": ""}
    _, along, up = _given(view, times)
    axes.plot([along + up / 2], [up], markersize=7, **look)
    axes.set_axis_off()
    said = "the study's mix" if view.choice["rule"] == "mix" else "each as often as the others"
    areas = [Patch(color=colours[name], alpha=0.75, label=view.label(name)) for name in names]
    return [*areas, Line2D([], [], label=said, **look)]
