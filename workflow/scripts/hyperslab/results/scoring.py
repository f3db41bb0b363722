"""Scores: how many criteria of a study a layout meets, as bounded and matched to what the site can do."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from hyperslab.results.adjusted import adjusted_means
from hyperslab.results.columns import CARRIED, MEASUREMENTS
from hyperslab.results.statistics import by_round, typical_column
from hyperslab.states import cold_of
from hyperslab.studies.criteria import label

TIME_STATISTICS = ("min_s", "q1_s", "median_s", "q3_s", "mean_s", "max_s", "first_access_s")
FILE_STATISTICS = tuple(name for name in CARRIED if MEASUREMENTS[name].unit == "bytes")


@dataclass(frozen=True)
class Criterion:
    """`statistic` of a case in a state is less than `below`: seconds, or bytes of the file (no state)."""

    statistic: str
    below: float
    case: str | None = None
    state: str | None = None
    title: str | None = None

    @property
    def timed(self) -> bool:
        """Whether the bound is a time."""
        return self.statistic in TIME_STATISTICS

    @property
    def label(self) -> str:
        """The name of the criterion's column in a score table: its title, or else the criterion in words."""
        return label(self.statistic, self.below, self.case, self.state, self.title)


@dataclass(frozen=True)
class MatchedScore:
    """The score of a site's grid when all time bounds are multiplied by one factor.

    `factor` is the smallest at which `target` layouts meet every criterion (None where there is none, with
    the `reason`); `binding_case` and `binding_layout` are met last, where a time equals its scaled bound,
    which counts as met here. `layouts` have full marks (more than `target` in a tie), `published` is the
    overlap with the published list, `thresholds` the bound of each criterion as scaled, `scores` the
    criteria met per layout.
    """

    site: str
    state: str | None
    target: int
    factor: float | None = None
    reason: str | None = None
    binding_case: str | None = None
    binding_layout: str | None = None
    layouts: tuple[str, ...] = ()
    published: tuple[str, ...] = ()
    thresholds: Mapping[str, float] | None = None
    scores: Mapping[str, int] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return what json.dumps accepts."""
        result: dict[str, Any] = plain(self)
        return result


def plain(value: Any) -> Any:
    """Return `value` (dataclass, mapping, sequence, scalar) as json.dumps takes it;
    NaN and infinity become None.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_criteria(criteria: Iterable[Mapping[str, Any]]) -> list[Criterion]:
    """Return the criteria from a study's data; the keys are the fields of `Criterion`.

    A bound on the file has no state (one that is given is ignored), and without a case it holds for the files
    of the cases whose times have bounds. Raises ValueError for an unknown statistic, a time without case or
    state, a bound that is not positive, and for two criteria with one label.
    """
    result = [Criterion(**dict(entry)) for entry in criteria]
    result = [c if c.timed else dataclasses.replace(c, state=None) for c in result]
    for criterion in result:
        if not criterion.timed and criterion.statistic not in FILE_STATISTICS:
            allowed = ", ".join(TIME_STATISTICS + FILE_STATISTICS)
            raise ValueError(f"unknown statistic {criterion.statistic!r} in a criterion; allowed: {allowed}")
        if criterion.timed and not (criterion.case and criterion.state):
            raise ValueError(f"a criterion on {criterion.statistic} needs a case and a state")
        if not (math.isfinite(criterion.below) and criterion.below > 0):
            raise ValueError(f"criterion '{criterion.label}': the bound must be positive and finite")
    if len({criterion.label for criterion in result}) < len(result):
        raise ValueError("two criteria are the same or have the same title")
    return result


def bounds_words(score: Mapping[str, Any], short: bool = False) -> str:
    """Return whose bounds decide a score that is not matched; `short` for a heading. `score` is the content
    of score.json.
    """
    if score.get("published"):
        return "as published"
    return "own bounds" if short else "with the study's own bounds"


def site_state(rows: pd.DataFrame, state: str) -> str:
    """Return `state` as the site of `rows` knows it:
    on a memory file system "cold" is called "library-cold".
    """
    return (cold_of(rows["state"]) or state) if state == "cold" else state


def criterion_values(rows: pd.DataFrame, criterion: Criterion, criteria: Sequence[Criterion]) -> pd.Series:
    """Return layout -> geometric mean over rounds of the criterion's statistic, adjusted where layouts do not
    all have the same rounds; a throttled median is one of bursts, so that there the mean stands for it (see
    `statistics.summarise`). A session's is its own, as published.

    `rows` are one site and phase of a summary; `criteria`, all of the score, say whose files count: another
    case may be measured on an array of another shape.
    """
    cases = {criterion.case} if criterion.case else {other.case for other in criteria if other.timed}
    if cases:
        rows = rows[rows["case"].isin(cases)]
    if criterion.timed:
        rows = rows[rows["state"] == site_state(rows, str(criterion.state))]
    median = criterion.statistic == "median_s" and criterion.state != "session"
    name = typical_column(rows) if median else criterion.statistic
    if not criterion.timed:
        return rows.groupby("layout", observed=True)[name].median()
    with np.errstate(divide="ignore"):
        logs = np.log(by_round(rows, name))
    found: pd.Series = np.exp(adjusted_means(logs))
    return found


def needed_factors(relative: pd.DataFrame) -> pd.Series:
    """Return layout -> the factor on all time bounds from which on it meets them, least first.

    `relative` is layouts x criteria, each time over its bound; a layout without all its times never does.
    """
    return relative.max(axis=1, skipna=False).dropna().sort_values(kind="stable")


def absolute_score(
    summary: pd.DataFrame, criteria: Iterable[Mapping[str, Any]], phase: str = "main"
) -> pd.DataFrame:
    """Return one row a site x layout: `site`, `layout`, a bool column a criterion (label),
    `score` and `missing`.

    A criterion whose statistic was not measured there is not met, and counted in `missing`. The published
    score uses the session state: the statistic is then the geometric mean over rounds of the sessions'
    medians.
    """
    known = read_criteria(criteria)
    tables = []
    for site, rows in summary[summary["phase"] == phase].groupby("site", sort=True, observed=True):
        layouts = sorted(set(rows["layout"]))
        values = {entry: criterion_values(rows, entry, known).reindex(layouts) for entry in known}
        table = pd.DataFrame({"site": site, "layout": layouts})
        for entry, measured in values.items():
            table[entry.label] = (measured < entry.below).to_numpy(dtype=bool)
        table["score"] = table[[entry.label for entry in known]].sum(axis=1).astype(int)
        table["missing"] = sum((measured.isna().to_numpy() for measured in values.values()), start=0)
        tables.append(table)
    if not tables:
        return pd.DataFrame(columns=["site", "layout", *(entry.label for entry in known), "score", "missing"])
    return pd.concat(tables, ignore_index=True)


def matched_score(
    summary: pd.DataFrame,
    criteria: Iterable[Mapping[str, Any]],
    target: int = 8,
    layouts: Sequence[str] | None = None,
    published: Sequence[str] = (),
    phase: str = "main",
) -> list[MatchedScore]:
    """Return, per site, the one factor on all time bounds at which `target` layouts of the grid meet all
    criteria.

    The criteria are the absolute score's; their time bounds are held against the site's cold state whatever
    state they name (writes keep theirs), and their file bounds are not scaled. `layouts` is the grid, by
    default every layout with a `grid_m`.
    """
    if target < 1:
        raise ValueError("target must be at least 1")
    known = read_criteria(criteria)
    in_phase = summary[summary["phase"] == phase]
    return [
        _match_site(str(site), rows, known, target, layouts, published)
        for site, rows in in_phase.groupby("site", sort=True, observed=True)
    ]


def matched_of(score: Mapping[str, Any], site: str) -> Mapping[str, Any]:
    """Return the matched score of a site from the content of score.json; empty where there is none."""
    return next((entry for entry in score.get("matched", []) if entry["site"] == site), {})


def _match_site(
    site: str,
    rows: pd.DataFrame,
    criteria: Sequence[Criterion],
    target: int,
    layouts: Sequence[str] | None,
    published: Sequence[str],
) -> MatchedScore:
    """Return the matched score of one site; `rows` are its summary in one phase."""
    state = cold_of(rows["state"])
    cold = [c if c.state == "write" else dataclasses.replace(c, state=state) for c in criteria]
    times = [c for c in cold if c.timed]
    files = [c for c in criteria if not c.timed]

    def none(reason: str) -> MatchedScore:
        return MatchedScore(site, state, target, reason=reason)

    if state is None:
        return none("nothing was measured cold")
    if not times:
        return none("no criterion bounds a time")
    if layouts is None:
        layouts = sorted(set(rows["layout"][rows["grid_m"].notna()])) if "grid_m" in rows else []
    grid = sorted(set(layouts))
    sizes = {i: criterion_values(rows, c, criteria).reindex(grid) < c.below for i, c in enumerate(files)}
    fits = pd.DataFrame(sizes, index=grid)
    small = fits.all(axis=1)
    if small.sum() < target:
        return none(f"{small.sum()} of {len(grid)} layouts pass the file bounds, {target} are needed")
    relative = {i: criterion_values(rows, c, criteria).reindex(grid) / c.below for i, c in enumerate(times)}
    ratios = pd.DataFrame(relative, index=grid)
    needed = needed_factors(ratios[small])
    if len(needed) < target:
        return none(f"{len(needed)} layouts pass the file bounds and have all times, {target} are needed")
    factor, binding = float(needed.iloc[target - 1]), str(needed.index[target - 1])
    full = tuple(str(name) for name in sorted(needed.index[needed <= factor]))
    scores = (ratios <= factor).sum(axis=1) + fits.sum(axis=1)
    return MatchedScore(
        site, state, target, factor,
        binding_case=times[int(ratios.loc[binding].argmax())].case,
        binding_layout=binding,
        layouts=full,
        published=tuple(name for name in full if name in set(published)),
        thresholds={c.label: c.below * factor for c in times} | {c.label: c.below for c in files},
        scores={str(name): int(value) for name, value in scores.items()},
    )  # fmt: skip
