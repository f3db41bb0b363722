"""The score: criteria met by each layout, as the study bounds them and matched in selectivity."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from hyperslab.figures.bars import layout_rows, part_groups, row_height
from hyperslab.figures.scales import tick
from hyperslab.figures.sheet import absent, finish, start
from hyperslab.figures.view import View
from hyperslab.results.scoring import Criterion, bounds_words, criterion_values, matched_of, read_criteria
from hyperslab.text import listing, megabytes

STATISTICS = {"mean_s": "mean", "max_s": "maximum", "min_s": "minimum", "first_access_s": "first access"}


def words(criteria: Sequence[Criterion]) -> list[str]:
    """Return each criterion's title, or what it bounds, with its bound; where several read alike, with the
    state of a time or the case of a file, too.
    """
    plain = [_words(criterion) for criterion in criteria]
    return [
        f"{said} ({apart})" if plain.count(said) > 1 and (apart := one.state or one.case) else said
        for one, said in zip(criteria, plain, strict=True)
    ]


def _words(criterion: Criterion) -> str:
    if not criterion.timed:
        return criterion.title or f"file < {megabytes(criterion.below)}"
    # A median needs no word: it is what a time means here.
    statistic = f" {STATISTICS[criterion.statistic]}" if criterion.statistic in STATISTICS else ""
    return criterion.title or f"{criterion.case}{statistic} < {tick(criterion.below)}"


def absolute(view: View, criteria: Sequence[Criterion]) -> pd.DataFrame:
    """Return layouts x criteria (labels): whether each is met as the study bounds it."""
    rows = [entry for entry in view.data.score.get("absolute", []) if entry["site"] == view.site]
    table = pd.DataFrame(rows, columns=["layout", *(entry.label for entry in criteria)]).set_index("layout")
    return table.loc[view.order(table.index)].astype(bool)


def matched(view: View, criteria: Sequence[Criterion]) -> pd.DataFrame:
    """Return the layouts of the grid x criteria (labels): whether each is met with the site's factor.

    The rules are those of `hyperslab.results.scoring.matched_score`, whose result gives factor, state and
    layouts.
    """
    entry = matched_of(view.data.score, view.site)
    met: dict[str, pd.Series] = {}
    layouts = view.order(entry.get("scores") or {})
    if not layouts:
        return pd.DataFrame(columns=[criterion.label for criterion in criteria])
    for criterion in criteria:
        keeps = not criterion.timed or criterion.state == "write"
        held = criterion if keeps else dataclasses.replace(criterion, state=entry["state"])
        values = criterion_values(view.summary, held, criteria).reindex(layouts)
        ratio = values / criterion.below
        met[criterion.label] = ratio <= entry["factor"] if criterion.timed else ratio < 1
    return pd.DataFrame(met, index=layouts)


def draw(view: View, case: str = "") -> Figure:
    """Draw the absolute score on the left, the matched one on the right, one block a criterion."""
    title = "Score: criteria met by layout"
    criteria = read_criteria(view.data.score.get("criteria", []))
    table = absolute(view, criteria)
    if table.empty:
        return absent(view, title, "No score was made here.")
    entry = matched_of(view.data.score, view.site)
    layouts = list(table.index)
    figure = start(view, 0.75 + row_height(view, len(layouts)) * (len(layouts) + 1))
    left, right = figure.subplots(1, 2, sharey=True)
    published = [name for name in view.data.score.get("published", []) if name in layouts]
    word = bounds_words(view.data.score, short=True)
    states = {criterion.state for criterion in criteria if criterion.timed}
    _panel(left, view, table, layouts, published, f"{word} ({listing(sorted(map(str, states)))})")
    layout_rows(left, view, layouts)
    # The right panel shares its rows with the left one; only its grid needs saying again.
    right.grid(False, axis="y")
    if entry.get("factor") is None:
        right.set_axis_off()
        reason = textwrap.fill(f"Not matched: {entry.get('reason') or 'no result'}.", 50)
        right.text(0.02, 0.5, reason, transform=right.transAxes, va="center")
    else:
        part_groups(right, view, layouts)
        matching = matched(view, criteria)
        _panel(right, view, matching, layouts, published, _heading(view, entry))
    handles: list[Any] = [
        Patch(color=colour, linewidth=0, label=said)
        for said, colour in zip(words(criteria), cycle(view.tints), strict=False)
    ]
    if published:
        handles.append(Line2D([], [], linestyle="", **_diamond(view), label="full marks in the publication"))
    notes = [
        _overlap(entry, published),
        "no number: outside the matched grid" if _outside(entry, layouts) else "",
    ]
    return finish(figure, view, title, view.measurements, notes, handles)


def _diamond(view: View) -> dict[str, Any]:
    """Return the mark of a published layout."""
    return {"marker": "D", "markersize": 5, "color": view.style["ink"]}


def _heading(view: View, entry: Mapping[str, Any]) -> str:
    """Return λ and what binds."""
    binding = f"{entry['binding_case']}, met last by {entry['binding_layout']}"
    return f"matched ({entry['state']}): λ = {entry['factor']:.4g}\nbinding: {binding}"


def _overlap(entry: Mapping[str, Any], published: Sequence[str]) -> str:
    """Return how many published layouts have full marks when matched."""
    if not published or entry.get("factor") is None:
        return ""
    both = len(entry.get("published") or [])
    return f"{both} of the {len(published)} published layouts have full marks when matched"


def _outside(entry: Mapping[str, Any], layouts: Sequence[str]) -> bool:
    """Return whether some layout has no matched score though others have."""
    return entry.get("factor") is not None and bool(set(layouts).difference(entry.get("scores") or {}))


def _panel(
    axes: Axes, view: View, met: pd.DataFrame, layouts: Sequence[str], published: Sequence[str], heading: str
) -> None:
    """Draw a block for each criterion that is met, side by side, opaque for full marks."""
    total = len(met.columns)
    scores = met.sum(axis=1)
    row = {name: position for position, name in enumerate(layouts)}
    for layout, verdicts in met.iterrows():
        place, name = 0, str(layout)
        opacity = 1.0 if scores[layout] == total else view.style["pale"]
        for (criterion, passed), colour in zip(verdicts.items(), cycle(view.tints), strict=False):
            if passed:
                axes.barh(
                    row[name], 1, left=place, height=0.72, color=colour, alpha=opacity, label=str(criterion),
                    edgecolor="white", linewidth=0.8,
                )  # fmt: skip
                place += 1
        weight = "bold" if scores[layout] == total else "normal"
        axes.text(place + 0.08, row[name], str(int(scores[layout])), va="center_baseline", fontweight=weight)
    if published:
        axes.plot(
            [total + 0.45] * len(published), [row[name] for name in published], linestyle="", **_diamond(view)
        )
    axes.set_xlim(0, total + 0.65)
    axes.set_xticks(range(total + 1))
    axes.set_xlabel(f"criteria met of {total}")
    axes.set_title(heading, fontweight="bold")
