"""Which layout to use: the fastest over the study's cases within a size, and what cannot be told from it.

The objective of a layout is the weighted geometric mean, over cases and states, of its time relative to the
best layout for that case. Its logarithm in one round is a weighted sum of log medians, so rounds carry its
error as they do for a single time (`statistics.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from hyperslab.results.block_model import MIN_ROUNDS, BlockFit, Floats, contrasts, fit_blocks
from hyperslab.results.scoring import plain, site_state
from hyperslab.results.statistics import log_medians
from hyperslab.studies import case_kinds

Weights = Mapping[tuple[str, str], float] | Mapping[str, float]


@dataclass(frozen=True)
class Ranked:
    """A layout in the ranking of a site.

    `objective` is the weighted geometric mean of its times relative to the best of each case (1 or more),
    `to_best` the ratio of its objective to that of the best layout within the size, with its adjusted
    interval (None without one), `tied` whether it cannot be told from that layout.
    """

    layout: str
    objective: float
    file_bytes: float
    rounds: int
    fits: bool
    to_best: float | None
    low: float | None
    high: float | None
    tied: bool


@dataclass(frozen=True)
class Recommendation:
    """What to use at a site; `pick` is None, with the `reason`, where nothing can be recommended.

    `best` has the smallest objective, `tied` are the layouts that cannot be told from it (itself included),
    `pick` is the smallest file of these, `runner_up` the fastest other layout within the size, `finalists`
    what to measure again. `ranking` is ordered by objective; `left_out` says why a layout is not in it.
    Without intervals (under three rounds) `tied` is empty, `pick` is the best and `reason` says so.
    """

    site: str
    phase: str
    weights: Mapping[str, float]
    size_bound_bytes: float | None
    pick: str | None = None
    reason: str | None = None
    best: str | None = None
    runner_up: str | None = None
    tied: tuple[str, ...] = ()
    finalists: tuple[str, ...] = ()
    ranking: tuple[Ranked, ...] = ()
    left_out: Mapping[str, str] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return what json.dumps accepts."""
        result: dict[str, Any] = plain(self)
        return result


def size_bound(raw_bytes: float, relative: float) -> float:
    """Return the size bound in bytes that is `relative` (such as 1.10) times the raw array of `raw_bytes`."""
    if not (raw_bytes > 0 and relative > 0):
        raise ValueError("the raw size and the relative bound must be positive")
    return raw_bytes * relative


def recommend(
    summary: pd.DataFrame,
    weights: Weights | None = None,
    size_bound_bytes: float | None = None,
    phase: str = "main",
    states: Sequence[str] = ("cold",),
    contiguous: str | None = None,
    automatic: str | None = None,
) -> list[Recommendation]:
    """Return one recommendation a site, from the rows of `phase`.

    `weights` by (case, state), or by case, whose weight is then divided over `states`; in any unit; None or
    empty gives every read case the same. "cold" means "library-cold" where the file system is memory. Cases
    that are not named do not count. A file may have up to `size_bound_bytes`. `contiguous` and `automatic`
    name the layouts to measure again beside pick and runner-up.

    The best layout was chosen for being the best, so pairs with it are not a family fixed beforehand:
    Holm's adjustment runs over all pairs of layouts within the size. (Over the pairs with the best alone,
    the set misses a layout as fast as the best in 30 % of runs of 42 equal layouts.)
    """
    rows = summary[summary["phase"] == phase]
    return [
        _recommend_site(str(site), phase, here, weights, states, size_bound_bytes, (contiguous, automatic))
        for site, here in rows.groupby("site", sort=True, observed=True)
    ]


def resolve_weights(
    rows: pd.DataFrame, weights: Weights | None, states: Sequence[str] = ("cold",)
) -> dict[tuple[str, str], float]:
    """Return (case, state) -> weight, summing to 1, as the site of `rows` names its states.

    The weight of a case named alone is divided evenly over `states` (a write has one state, "write");
    without weights every read case has the same. Raises ValueError for a weight that is negative or not
    finite, and where all are zero.
    """
    if not weights:
        read = rows["kind"].isin(case_kinds.names(lambda kind: kind.reads_selections))
        weights = dict.fromkeys(sorted(set(rows["case"][read])), 1.0)
    elif any(not (math.isfinite(weight) and weight >= 0) for weight in weights.values()):
        raise ValueError("weights must be finite and not negative")
    elif not any(weights.values()):
        raise ValueError("at least one weight must be positive")
    total = sum(weights.values())
    writes = set(rows["case"][rows["kind"].isin(case_kinds.names(lambda kind: kind.writes_array))])
    result: dict[tuple[str, str], float] = {}
    for key, weight in weights.items():
        if weight == 0:
            continue
        case = key if isinstance(key, str) else key[0]
        wanted = key[1:] if isinstance(key, tuple) else ("write",) if case in writes else states
        for state in wanted:
            pair = (case, site_state(rows, state))
            result[pair] = result.get(pair, 0.0) + weight / total / len(wanted)
    return result


def round_objectives(rows: pd.DataFrame, weights: Mapping[tuple[str, str], float]) -> pd.DataFrame:
    """Return layouts x rounds of the weighted sum of log medians; NaN where a weighted cell is missing."""
    layouts, rounds = sorted(set(rows["layout"])), sorted(set(rows["round"]))
    total = pd.DataFrame(0.0, index=layouts, columns=rounds)
    for (case, state), weight in weights.items():
        logs = log_medians(rows[(rows["case"] == case) & (rows["state"] == state)])
        total += weight * logs.reindex(index=layouts, columns=rounds)
    return total


def _best_log(rows: pd.DataFrame, weights: Mapping[tuple[str, str], float]) -> float:
    """Return the objective, as a weighted sum of logs,
    of an ideal layout that is the best one for every case.
    """
    total = 0.0
    for (case, state), weight in weights.items():
        fit = fit_blocks(log_medians(rows[(rows["case"] == case) & (rows["state"] == state)]))
        total += weight * float(fit.effect.min())
    return total


def _recommend_site(
    site: str,
    phase: str,
    rows: pd.DataFrame,
    weights: Weights | None,
    states: Sequence[str],
    bound: float | None,
    references: Sequence[str | None],
) -> Recommendation:
    """Return the recommendation of one site; `rows` are its summary in one phase."""
    shares = resolve_weights(rows, weights, states)
    named = {f"{case} {state}": weight for (case, state), weight in shares.items()}

    def none(reason: str, left_out: Mapping[str, str] | None = None) -> Recommendation:
        return Recommendation(site, phase, named, bound, reason=reason, left_out=left_out)

    measured = set(zip(rows["case"], rows["state"], strict=True))
    absent = [f"{case} ({state})" for case, state in shares if (case, state) not in measured]
    if absent or not shares:
        return none(f"not measured here: {', '.join(absent) or 'any read case'}")
    logs = round_objectives(rows, shares)
    usable, left_out = _comparable(logs)
    if usable.empty:
        return none("no layout has all weighted cases and states in one round", left_out)
    fit = fit_blocks(usable)
    # Only files of the cases that count: another case may be measured on an array of another shape.
    files = rows[rows["case"].isin({case for case, _ in shares})]
    file_bytes = files.groupby("layout", observed=True)["file_bytes"].median()
    sizes = file_bytes.reindex(fit.layouts).to_numpy(dtype=float)
    fits = np.full(len(sizes), True) if bound is None else sizes <= bound
    objective = np.exp(fit.effect - _best_log(rows, shares))
    order = np.argsort(fit.effect, kind="stable")
    within = [int(position) for position in order if fits[position]]
    pairs = _pairs_with_best(fit, within) if within else pd.DataFrame(index=pd.Index([], dtype=int))
    ranking = tuple(
        _ranked(fit, int(position), objective, sizes, bool(fits[position]), pairs) for position in order
    )
    if not within:
        smallest = fit.layouts[int(np.nanargmin(sizes))] if np.isfinite(sizes).any() else None
        reason = f"no layout has a file of at most {bound:.0f} bytes (smallest: {smallest})"
        return Recommendation(site, phase, named, bound, reason=reason, ranking=ranking, left_out=left_out)
    best = fit.layouts[within[0]]
    tied = tuple(entry.layout for entry in ranking if entry.tied)
    by_size = sorted((entry for entry in ranking if entry.tied), key=_size)
    pick = by_size[0].layout if by_size else best
    runner_up = next((entry.layout for entry in ranking if entry.fits and entry.layout != pick), None)
    finalists = tuple(dict.fromkeys(name for name in (pick, runner_up, *references) if name is not None))
    note = None if tied else f"under {MIN_ROUNDS} rounds: the pick is the fastest, ties are unknown"
    return Recommendation(
        site, phase, named, bound, pick, note, best, runner_up, tied, finalists, ranking, left_out
    )


def _size(entry: Ranked) -> float:
    """Return the file size for sorting; an unknown size is no reason to pick a layout."""
    return entry.file_bytes if math.isfinite(entry.file_bytes) else math.inf


def _comparable(logs: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the layouts that can be ranked with each other, and why the others cannot be.

    Where some layout has enough rounds for an interval, those with fewer are left out: next to nothing can
    be told from the best by one round. Of the layouts that share no round, the larger group is kept.
    """
    rounds = logs.notna().sum(axis=1)
    needed = min(MIN_ROUNDS, int(rounds.max()))
    left_out = {str(name): "lacks a weighted case or state" for name in logs.index[rounds == 0]}
    for name in logs.index[(rounds > 0) & (rounds < needed)]:
        left_out[str(name)] = f"{rounds[name]} complete rounds, {needed} are needed"
    usable = logs[(rounds >= max(1, needed))].dropna(axis=1, how="all")
    if usable.empty:
        return usable, left_out
    part = fit_blocks(usable).part
    kept = part == np.bincount(part).argmax()
    left_out |= {str(name): "shares no round with the others" for name in usable.index[~kept]}
    return usable[kept].dropna(axis=1, how="all"), left_out


def _pairs_with_best(fit: BlockFit, within: Sequence[int]) -> pd.DataFrame:
    """Return the contrasts of each layout `within` (best first) with the best, by position,
    adjusted over all pairs.
    """
    positions = np.asarray(within)
    lesser, greater = np.triu_indices(len(positions), 1)
    pairs = contrasts(fit, positions[greater], positions[lesser])
    # The pairs with position 0 of `within` come first: they are row 0 of the triangle.
    return pairs.iloc[: len(positions) - 1].set_axis(positions[1:])


def _ranked(
    fit: BlockFit, position: int, objective: Floats, sizes: Floats, fits: bool, pairs: pd.DataFrame
) -> Ranked:
    """Return one entry of the ranking. The best layout itself has ratio 1 and no interval."""
    layout, rounds = fit.layouts[position], int(fit.rounds[position])
    entry = (layout, float(objective[position]), float(sizes[position]), rounds, fits)
    if not fits:
        return Ranked(*entry, None, None, None, False)
    enough = rounds >= MIN_ROUNDS
    if position not in pairs.index:
        return Ranked(*entry, 1.0, None, None, enough)
    pair = pairs.loc[position]
    low, high = (float(pair["low"]), float(pair["high"])) if math.isfinite(pair["low"]) else (None, None)
    return Ranked(*entry, float(pair["ratio"]), low, high, enough and not pair["different"])


def pareto(points: pd.DataFrame, columns: Sequence[str]) -> pd.Series:
    """Return which rows no other row beats: as small in all `columns` and smaller in one. Never one with a
    NaN.
    """
    values = points[list(columns)].to_numpy(dtype=float)
    known = np.isfinite(values).all(axis=1)
    no_worse = (values[:, None, :] <= values[None, :, :]).all(axis=2)
    better = (values[:, None, :] < values[None, :, :]).any(axis=2)
    beaten = (no_worse & better).any(axis=0)
    return pd.Series(known & ~beaten, index=points.index)
