"""The ranking of a site: which layouts can be compared with each other, and how far each is from the best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from hyperslab.results.adjusted import adjusted_means
from hyperslab.results.comparisons import MIN_ROUNDS, Contrasts, not_worse_than_best
from hyperslab.results.requests import Entry, Question, request_times, typical


@dataclass(frozen=True)
class Ranked:
    """A layout in the ranking of a site.

    `times` are the seconds of its requests by "case state" and `regrets` these over the best layout's, both
    at least the floor; `objective` is its expected time in seconds, or its largest regret; `worst` the entry
    with that regret. `to_best` is the ratio of its objective to that of the best layout within the size, with
    its interval (None without one), `tied` whether it cannot be told from that layout.
    """

    layout: str
    objective: float
    worst: str
    times: Mapping[str, float]
    regrets: Mapping[str, float]
    file_bytes: float
    rounds: int
    fits: bool
    to_best: float | None = None
    low: float | None = None
    high: float | None = None
    tied: bool = False


def comparable(logs: pd.DataFrame) -> tuple[list[str], dict[str, str]]:
    """Return the layouts that can be ranked with each other, and why the others cannot be.

    Where some layout has enough rounds for an interval, those with fewer are left out: next to nothing can
    be told from the best by one round. Of layouts that share no round, the larger group is kept.
    """
    here = logs.notna()
    rounds = here.sum(axis=1)
    needed = max(1, min(MIN_ROUNDS, int(rounds.max())))
    left_out = {str(name): "lacks a case or state that counts" for name in logs.index[rounds == 0]}
    for name in logs.index[(rounds > 0) & (rounds < needed)]:
        left_out[str(name)] = f"{rounds[name]} complete rounds, {needed} are needed"
    enough = here[rounds >= needed]
    if enough.empty or not rounds.max():
        return [], left_out
    shared = enough.astype(int) @ enough.astype(int).T >= needed
    group = shared.loc[shared.sum(axis=1).idxmax()]
    left_out |= {str(name): "shares too few rounds with the others" for name in group.index[~group]}
    return [str(name) for name in group.index[group]], left_out


def rank(
    rows: pd.DataFrame, question: Question, best: Mapping[Entry, float], logs: pd.DataFrame,
    sizes: pd.Series, within: Sequence[str], alpha: float,
) -> tuple[str, tuple[Ranked, ...]]:  # fmt: skip
    """Return the best layout within the size, and the ranking, by objective in an average round."""
    names, means = [str(name) for name in logs.index], adjusted_means(logs)
    fitting = list(within or names)
    first, relative, stays = not_worse_than_best(logs.loc[fitting], alpha, means[fitting])
    against = {name: position for position, name in enumerate(fitting)}
    tables = {entry: typical(request_times(rows, entry)) for entry in question.shares}
    found = []
    for name in names:
        times = {entry: float(table[name]) for entry, table in tables.items()}
        regret = {entry: max(question.floor_s, seconds) / best[entry] for entry, seconds in times.items()}
        worst = max(regret, key=lambda entry: regret[entry])
        entry = Ranked(
            name, math.exp(float(means[name])), " ".join(worst),
            {" ".join(key): seconds for key, seconds in times.items()},
            {" ".join(key): ratio for key, ratio in regret.items()},
            float(sizes[name]), int(logs.loc[name].notna().sum()), name in within,
        )  # fmt: skip
        if name in within:
            entry = _against_best(entry, relative, against[name], stays, alpha)
        found.append(entry)
    return fitting[first], tuple(sorted(found, key=lambda ranked: ranked.objective))


def _against_best(entry: Ranked, relative: Contrasts, position: int, stays: Any, alpha: float) -> Ranked:
    """Return an entry with its ratio to the best; the best itself has ratio 1 and no interval."""
    low, high = (ends[position] for ends in relative.interval(alpha))
    value = float(relative.value[position])
    known = math.isfinite(low) and value != 0
    enough = entry.rounds >= MIN_ROUNDS
    return replace(
        entry, to_best=math.exp(value), low=math.exp(low) if known else None,
        high=math.exp(high) if known else None, tied=bool(enough and stays[position]),
    )  # fmt: skip
