"""Time and speed-up of a reduction against the number of workers, as in the document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from hyperslab.figures.lines import look
from hyperslab.figures.scales import linear
from hyperslab.figures.sheet import absent, finish, start
from hyperslab.figures.view import View
from hyperslab.results.scaling import speedups
from hyperslab.results.statistics import round_words
from hyperslab.states import STATES
from hyperslab.studies.case_kinds import families
from hyperslab.studies.case_kinds.workers import DASK, PROCESSES, RANKS, WORKERS
from hyperslab.studies.summary import in_order
from hyperslab.text import span

# The name of this figure, by which kinds of cases ask for it.
FIGURE = "speedup"
# Dots alone are the ideal line.
DASHES: dict[str, Any] = {PROCESSES: "-", RANKS: (0, (4, 2)), DASK: (0, (6, 1.5, 1, 1.5))}


def times(view: View, cases: dict[int, str], layout: str, state: str) -> pd.DataFrame:
    """Return the number of workers (index) -> `mean` and `sd` in seconds over all repeats of all rounds."""
    found = {}
    for workers, case in sorted(cases.items()):
        rows = view.repeats(case, state)
        seconds = rows["time_s"][rows["layout"] == layout]
        if len(seconds):
            found[workers] = {"mean": seconds.mean(), "sd": seconds.std(ddof=1) if len(seconds) > 1 else 0.0}
    return pd.DataFrame.from_dict(found, orient="index", columns=["mean", "sd"])


def gains(view: View, cases: dict[int, str], layout: str, state: str) -> pd.DataFrame:
    """Return the speed-up by number of workers with its interval (see `hyperslab.results.scaling`)."""
    rows = view.summary[(view.summary["layout"] == layout) & (view.summary["state"] == state)]
    return speedups(rows, cases)


def draw(view: View, case: str) -> Figure:
    """Draw mean time above and speed-up below; one column a state, one line a layout and kind of workers."""
    teams = families(view.study["cases"], FIGURE)[case]
    every = [name for counts in teams.values() for name in counts.values()]
    rows = view.measurements[view.measurements["case"].isin(every)]
    title = f"{_title(view, case, every)}: time and speed-up"
    if rows.empty:
        return absent(view, title)
    states = in_order(set(rows["state"]), STATES)
    layouts = view.order(rows["layout"].unique())
    cores = int(rows["physical_cores"].median())
    most = max(number for counts in teams.values() for number in counts)
    figure = start(view, 5.4)
    panels = figure.subplots(2, len(states), sharex=True, sharey="row", squeeze=False)
    tops = []
    for column, state in enumerate(states):
        for number, layout in enumerate(layouts):
            for by, counts in teams.items():
                own = _look(view, by, number)
                tops.append(_time(panels[0, column], times(view, counts, layout, state), own, cores))
                _gain(panels[1, column], gains(view, counts, layout, state), own, cores)
        panels[0, column].set_title(STATES[state], fontweight="bold")
        for counts in {min(one): one for one in teams.values() if len(one) > 1}.values():
            _ideal(panels[1, column], view, min(counts), min(most, cores))
        for axes in panels[:, column]:
            _workers(axes, view, sorted({n for counts in teams.values() for n in counts}), cores)
    for axes in panels[-1]:
        axes.set_xlabel("workers")
    limit = 1.08 * max(tops)
    panels[0, 0].set_ylim(0, limit)
    linear(panels[0, 0].yaxis, limit, "time")
    panels[1, 0].set_ylim(bottom=0)
    panels[1, 0].set_ylabel("speed-up")
    handles = _legend(view, layouts, teams, most > cores)
    return finish(figure, view, title, rows, _notes(view, rows, cores, most), handles, star=False)


def _title(view: View, family: str, cases: Sequence[str]) -> str:
    """Return the title that the family's cases have in common."""
    return view.title(cases[0]).rpartition(", ")[0] or family


def _look(view: View, by: str, number: int) -> dict[str, Any]:
    """Return the look of a layout's line, whose dashes say by which kind of workers it is."""
    return {**look(view, number), "linestyle": DASHES[by]}


def _points(axes: Axes, x: Any, y: Any, error: Any, own: dict[str, Any], cores: int) -> None:
    """Draw a line with error bars; what lies above the physical cores is hollow."""
    axes.plot(x, y, **{**own, "marker": ""}, zorder=3)
    bare = {**own, "linestyle": ""}
    axes.errorbar(x, y, yerr=error, **{**bare, "marker": ""}, elinewidth=1, capsize=3, zorder=3)
    inside = np.asarray(x) <= cores
    for part, face in ((inside, own["color"]), (~inside, "white")):
        axes.plot(np.asarray(x)[part], np.asarray(y)[part], **bare, markerfacecolor=face, zorder=4)


def _time(axes: Axes, table: pd.DataFrame, own: dict[str, Any], cores: int) -> float:
    """Draw mean and deviation; returns the highest point drawn."""
    if table.empty:
        return 0.0
    _points(axes, table.index.to_numpy(), table["mean"].to_numpy(), table["sd"].to_numpy(), own, cores)
    return float((table["mean"] + table["sd"]).max())


def _gain(axes: Axes, table: pd.DataFrame, own: dict[str, Any], cores: int) -> None:
    if table.empty:
        return
    ratio = table["ratio"].to_numpy(dtype=float)
    bounds = table.reindex(columns=["low", "high"]).to_numpy(dtype=float)
    # Without an interval there is no bar.
    error = np.nan_to_num(np.abs(bounds - ratio[:, None])).T
    _points(axes, table["workers"].to_numpy(), ratio, error, own, cores)


def _ideal(axes: Axes, view: View, fewest: int, last: int) -> None:
    """Draw the line of as much more speed as there are more workers than the fewest."""
    if last > fewest:
        axes.plot([fewest, last], [1, last / fewest], color=view.style["ink"], linewidth=1, linestyle=":",
                  label="ideal", zorder=2)  # fmt: skip


def _workers(axes: Axes, view: View, numbers: Sequence[int], cores: int) -> None:
    """Put a tick at each number of workers, and shade what lies above the physical cores."""
    axes.xaxis.set_major_locator(FixedLocator(list(numbers)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    right = max(numbers) + 0.5
    axes.set_xlim(0.5, right)
    if right > cores + 0.5:
        axes.axvspan(
            cores + 0.5, right, color=view.style["ink"], alpha=0.07, linewidth=0, zorder=0, label="beyond"
        )


def _legend(
    view: View, layouts: Sequence[str], teams: dict[str, dict[int, str]], beyond: bool
) -> list[Line2D | Patch]:
    ink = view.style["ink"]
    handles: list[Line2D | Patch] = [
        Line2D([], [], **_look(view, PROCESSES, number), label=view.label(layout))
        for number, layout in enumerate(layouts)
    ]
    if teams.keys() - {PROCESSES}:
        handles += [Line2D([], [], color=ink, linestyle=DASHES[by], label=WORKERS[by][-1]) for by in teams]
    handles.append(Line2D([], [], color=ink, linewidth=1, linestyle=":", label="ideal"))
    if beyond:
        handles.append(Patch(color=ink, alpha=0.07, linewidth=0, label="more workers than physical cores"))
    return handles


def _notes(view: View, rows: pd.DataFrame, cores: int, most: int) -> list[str]:
    rounds = rows.groupby(["case", "layout", "state"], observed=True)["round"].nunique()
    counted = rows.groupby(["case", "layout", "state", "round"], observed=True).size().max()
    gain = f"speed-up: ratio of the rounds' {round_words(rows)}"
    interval = f"{gain} with its 95 % interval, adjusted over the numbers of workers"
    return [
        f"time: mean ± standard deviation of {counted} repeats in each of {span(rounds, 'round')}"
        if rounds.max() > 1
        else f"time: mean ± standard deviation of {counted} repeats",
        interval if rounds.max() > 2 else f"{gain}; no interval under 3 rounds",
        f"{cores} physical cores" + ("; beyond them nothing is claimed" if most > cores else ""),
    ]
