"""How long requests take and what a mix of them costs: what a recommendation weighs against each other.

A request is what somebody waits for: of a cold selection its opening and its selection, else the operation. A
time under the floor counts as the floor, because nobody notices the difference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from hyperslab.results.adjusted import adjusted_means
from hyperslab.results.rule import objective
from hyperslab.results.scoring import site_state
from hyperslab.results.statistics import by_round
from hyperslab.studies import case_kinds

# A case in a state.
Entry = tuple[str, str]
Mix = Mapping[str, float]
Rule = Literal["mix", "regret"]


def entry_of(key: str) -> Entry:
    """Return a case in a state from "case state", as JSON files have it; no state has a blank."""
    case, _, state = key.rpartition(" ")
    return case, state


@dataclass(frozen=True)
class Question:
    """What is asked of a layout: `shares` of the entries (they add up to 1), by which `rule` it is judged,
    and the floor in seconds.

    By "mix" the expected time counts, the mean weighted by the shares. By "regret", where nobody said how
    often each case is asked, the largest regret: the time over that of the best layout for the entry.
    """

    shares: Mapping[Entry, float]
    rule: Rule
    floor_s: float

    @property
    def weights(self) -> list[float] | None:
        """The shares where they count, as `rule.objective` has them."""
        return list(self.shares.values()) if self.rule == "mix" else None

    @property
    def named(self) -> dict[str, float]:
        """The shares by "case state"."""
        return {f"{case} {state}": share for (case, state), share in self.shares.items()}


def question_of(choice: Mapping[str, Any]) -> Question:
    """Return what a recommendation, as recommendation.json holds it, was asked."""
    asked = {entry_of(key): share for key, share in choice["shares"].items()}
    return Question(asked, choice["rule"], choice["imperceptible_ms"] / 1e3)


def shares(rows: pd.DataFrame, mix: Mix | None, states: Sequence[str] = ("cold",)) -> dict[Entry, float]:
    """Return (case, state) -> share, summing to 1, as the site of `rows` names its states.

    The share of a case is divided evenly over `states` (what is only written has one state, "write"); without
    a mix every read case has the same. Raises ValueError for a weight that is negative or not finite, and
    where all are zero.
    """
    if not mix:
        read = rows["kind"].isin(case_kinds.names(lambda kind: kind.reads_selections))
        mix = dict.fromkeys(sorted(set(rows["case"][read])), 1.0)
    elif any(not (math.isfinite(weight) and weight >= 0) for weight in mix.values()):
        raise ValueError("weights must be finite and not negative")
    elif not any(mix.values()):
        raise ValueError("at least one weight must be positive")
    total = sum(mix.values())
    writes = set(rows["case"][rows["kind"].isin(case_kinds.names(lambda kind: kind.writes_array))])
    result: dict[Entry, float] = {}
    for case, weight in mix.items():
        only_written = set(rows["state"][rows["case"] == case]) == {"write"}
        wanted = ("write",) if case in writes or only_written else tuple(states)
        for state in wanted if weight else ():
            entry = (case, site_state(rows, state))
            result[entry] = result.get(entry, 0.0) + weight / total / len(wanted)
    return result


def request_times(rows: pd.DataFrame, entry: Entry) -> pd.DataFrame:
    """Return layouts x rounds of seconds of a request; NaN where a layout lacks a round.

    `rows` are one site and phase of a summary. Raises ValueError where a layout has a round twice.
    """
    return by_round(rows[(rows["case"] == entry[0]) & (rows["state"] == entry[1])], _column(rows))


def _column(rows: pd.DataFrame) -> str:
    return next(name for name in ("request_s", "typical_s", "median_s") if name in rows)


def typical(times: pd.DataFrame) -> pd.Series:
    """Return the geometric mean over rounds of each layout; see `adjusted_means`."""
    return np.exp(adjusted_means(np.log(times)))


def best_times(rows: pd.DataFrame, question: Question, layouts: Sequence[str]) -> dict[Entry, float]:
    """Return for each entry the seconds of the best of `layouts`, at least the floor."""
    return {
        entry: max(question.floor_s, float(typical(request_times(rows, entry).reindex(layouts)).min()))
        for entry in question.shares
    }


def objectives(rows: pd.DataFrame, question: Question, best: Mapping[Entry, float]) -> pd.DataFrame:
    """Return layouts x rounds of the log of what is to be least: expected seconds, or the largest regret.

    NaN where a layout lacks an entry in a round. `best` is `best_times`, which only a regret needs; the same
    for all rounds, so that a regret moves with the layout's time alone.
    """
    layouts, rounds = sorted(set(rows["layout"])), sorted(set(rows["round"]))
    tables = (request_times(rows, entry) for entry in question.shares)
    times = [table.reindex(index=layouts, columns=rounds).to_numpy() for table in tables]
    least = [best[entry] for entry in question.shares] if question.rule == "regret" else []
    judged = objective(times, question.weights, least, question.floor_s)
    return pd.DataFrame(np.log(judged), layouts, rounds)


def case_times(times: Mapping[str, float], question: Question) -> dict[str, float]:
    """Return case -> expected seconds of one layout when the case is asked alone, by its states' shares.

    `times` are the seconds of its requests by "case state".
    """
    weight: dict[str, float] = {}
    result: dict[str, float] = {}
    for key, share in question.named.items():
        case, _ = entry_of(key)
        weight[case] = weight.get(case, 0.0) + share
        result[case] = result.get(case, 0.0) + share * max(question.floor_s, times[key])
    return {case: value / weight[case] for case, value in result.items()}
