"""Which layout to use: the least expected time of a mix, or the least largest regret, within a size.

What is compared is formed within each round (`requests.objectives`), so that rounds carry its error as they
do for a single time (`comparisons.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from hyperslab.results.comparisons import ALPHA, MATTERS, MIN_ROUNDS, equivalent, of_rounds
from hyperslab.results.file_sizes import of_layouts
from hyperslab.results.ranking import Ranked, comparable, rank
from hyperslab.results.requests import (
    Entry,
    Mix,
    Question,
    Rule,
    best_times,
    case_times,
    objectives,
    request_times,
    shares,
)
from hyperslab.results.rule import objective
from hyperslab.results.scoring import plain
from hyperslab.results.steadied import steadied
from hyperslab.states import LIBRARY_COLD
from hyperslab.studies.criteria import IMPERCEPTIBLE_MS
from hyperslab.text import listing

# A file is smaller in a way that matters.
SMALLER = 0.98
# layout -> case -> predicted seconds of the boxes of each round
Foretold = Mapping[str, Mapping[str, Sequence[float]]]
# A case whose time is longer by this factor than another layout's is given up.
GIVEN_UP = 1.25


@dataclass(frozen=True)
class Alternative:
    """What to take instead where one case is asked more often: from the share `above` of all requests on."""

    layout: str
    case: str
    above: float


@dataclass(frozen=True)
class Recommendation:
    """What to use at a site; `pick` is None, with the `reason`, where nothing can be recommended.

    `best` has the least objective of those that no other surely beats, `tied` are the layouts that cannot be
    told from it (itself included), `pick` is the best, or one as fast whose file is smaller by what matters,
    `runner_up` the best other layout within the size, `finalists` what to measure again. `ranking` is ordered
    by objective; `alternatives` are other layouts for other mixes, `left_out` says why a layout is not in it.
    Without intervals (under three rounds) `tied` is empty, `pick` is the best and `reason` says so.
    Intervals are of level 1 - `alpha`.
    `chosen_by` says of how many tied layouts the pick was chosen by steadied times, which is best by these
    (the pick, unless that is as fast and smaller), and which it would be by measured ones alone; None where
    nothing was predicted.
    """

    site: str
    phase: str
    shares: Mapping[str, float]
    rule: Rule
    imperceptible_ms: float
    size_bound_bytes: float | None = None
    alpha: float = ALPHA
    pick: str | None = None
    reason: str | None = None
    best: str | None = None
    runner_up: str | None = None
    tied: tuple[str, ...] = ()
    finalists: tuple[str, ...] = ()
    ranking: tuple[Ranked, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    left_out: Mapping[str, str] | None = None
    chosen_by: Mapping[str, Any] | None = None

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
    mix: Mix | None = None,
    size_bound_bytes: float | None = None,
    phase: str = "main",
    states: Sequence[str] = ("cold",),
    contiguous: str | None = None,
    automatic: str | None = None,
    imperceptible_ms: float = IMPERCEPTIBLE_MS,
    alpha: float = ALPHA,
    foretold: Mapping[str, Foretold] | None = None,
    bounds: Mapping[str, float] | None = None,
) -> list[Recommendation]:
    """Return one recommendation a site, from the rows of `phase`.

    `mix` says how often each case is asked, in any unit; a case's share is divided over `states`. "cold"
    means "library-cold" where the file system is memory. Cases that are not named do not count. Without a mix
    the largest regret over all read cases counts. A file may have up to `size_bound_bytes`; `bounds` has
    that of each case where these differ, and the largest of those that count at a site is the site's.
    `contiguous` and `automatic` name the layouts to measure again beside pick and runner-up. All tests are of
    level `alpha`, intervals of 1 - `alpha`. `foretold` is what was predicted at each site, of which the pick
    among tied layouts then makes use.
    """
    rows = summary[summary["phase"] == phase]
    sites = []
    for site, here in rows.groupby("site", sort=True, observed=True):
        rule: Rule = "mix" if mix else "regret"
        question = Question(shares(here, mix, states), rule, imperceptible_ms / 1e3)
        own = [bounds[case] for case, _ in question.shares if case in bounds] if bounds else []
        bound = max(own, default=size_bound_bytes)
        empty = Recommendation(str(site), phase, question.named, rule, imperceptible_ms, bound, alpha)
        told = (foretold or {}).get(str(site), {})
        sites.append(_recommend_site(empty, here, question, (contiguous, automatic), alpha, told))
    return sites


def nothing(site: str, reason: str) -> Recommendation:
    """Return that nothing is recommended at a site, and why."""
    return Recommendation(site, "main", {}, "regret", IMPERCEPTIBLE_MS, reason=reason)


def _absence(counting: Collection[Entry], measured: Collection[Entry]) -> str:
    """Return which cases lack the state that counts, and what the study could count instead."""
    states: dict[str, set[str]] = {case: set() for case, _ in counting}
    for case, state in measured:
        states.get(case, set()).add(state)
    absent = [
        f"{case} ({state}{f'; only {listing(sorted(states[case]))}' if states[case] else ''})"
        for case, state in counting
        if state not in states[case]
    ]
    # Not a fault where another state is measured on purpose: what a study says to have that count, if it can.
    instead = sorted(set.intersection(*states.values()) - {LIBRARY_COLD, "write"}) if states else []
    hint = f"; recommendation: {{states: [{', '.join(instead)}]}} counts what was" if instead else ""
    return f"not measured here: {', '.join(absent) or 'any read case'}{hint}"


def _recommend_site(
    empty: Recommendation, rows: pd.DataFrame, question: Question, references: Sequence[str | None],
    alpha: float, foretold: Foretold,
) -> Recommendation:  # fmt: skip
    """Return the recommendation of one site; `rows` are its summary in one phase."""
    measured = set(zip(rows["case"], rows["state"], strict=True))
    if not measured.issuperset(question.shares) or not question.shares:
        return replace(empty, reason=_absence(question.shares, measured))
    complete = objectives(rows, question, dict.fromkeys(question.shares, 1.0))
    usable, left_out = comparable(complete)
    if not usable:
        reason = "no layout has all cases and states that count in one round"
        return replace(empty, reason=reason, left_out=left_out)
    # Only files of the cases that count: another case may be measured on an array of another shape.
    files = rows[rows["case"].isin({case for case, _ in question.shares})]
    sizes = of_layouts(files, "file_bytes").reindex(usable).astype(float)
    bound = empty.size_bound_bytes
    within = [name for name in usable if bound is None or sizes[name] <= bound]
    best = best_times(rows, question, within or usable)
    logs = objectives(rows, question, best).loc[usable]
    first, ranking = rank(rows, question, best, logs, sizes, within, alpha)
    if not within:
        smallest = sizes.idxmin() if sizes.notna().any() else None
        reason = f"no layout has a file of at most {bound:.0f} bytes (smallest: {smallest})"
        return replace(empty, reason=reason, ranking=ranking, left_out=left_out)
    order = [entry.layout for entry in ranking if entry.fits]
    tied = tuple(entry.layout for entry in ranking if entry.tied)
    pick, chosen_by = _smaller(first, tied, logs, sizes, alpha), None
    if len(tied) > 1 and all(name in foretold for name in tied):
        steady = steadied_best(rows, question, best, tied, foretold)
        chosen_by = {"of": len(tied), "measured": pick, "steady": steady}
        pick = _smaller(steady, tied, logs, sizes, alpha)
    # Where layouts have different rounds, one that is surely worse than some other may come before the best.
    others = [name for name in order if name != pick]
    runner_up = next((name for name in others if name in tied), others[0] if others else None)
    alternatives = _alternatives(ranking, pick, question)
    named = (pick, runner_up, *references, *(other.layout for other in alternatives))
    finalists = tuple(dict.fromkeys(name for name in named if name is not None))
    few = max(entry.rounds for entry in ranking) < MIN_ROUNDS
    note = f"under {MIN_ROUNDS} rounds: the pick is the best, ties are unknown" if few else None
    return replace(
        empty, pick=pick, reason=note, best=first, runner_up=runner_up, tied=tied, finalists=finalists,
        ranking=ranking, alternatives=alternatives, left_out=left_out, chosen_by=chosen_by,
    )  # fmt: skip


def steadied_best(
    rows: pd.DataFrame, question: Question, best: Mapping[Entry, float], layouts: Sequence[str],
    foretold: Foretold,
) -> str:  # fmt: skip
    """Return which of `layouts` is best by times that are drawn towards what was predicted.

    `rows` are one site and phase of a summary, `best` is `best_times`, `foretold` what was predicted there.
    """
    rounds = sorted(set(rows["round"]))
    entries = list(question.shares)
    measured = [
        np.log(request_times(rows, entry).reindex(index=list(layouts), columns=rounds)) for entry in entries
    ]
    predicted = [
        [[foretold[name][case][number] for number in rounds] for name in layouts] for case, _ in entries
    ]
    steady = np.exp(steadied(np.array([each.to_numpy() for each in measured]), np.log(predicted)))
    judged = objective(steady, question.weights, [best[entry] for entry in entries], question.floor_s)
    return str(layouts[int(judged.argmin())])


def _smaller(best: str, tied: Sequence[str], logs: pd.DataFrame, sizes: pd.Series, alpha: float) -> str:
    """Return the layout of those tied with the best that is surely as fast and has the smallest file, where
    that is smaller in a way that matters; else the best.
    """
    others = [name for name in tied if name != best and sizes[name] <= SMALLER * sizes[best]]
    if not others:
        return best
    differences = of_rounds(logs.loc[others].to_numpy() - logs.loc[best].to_numpy())
    same = equivalent(differences, MATTERS, alpha)
    return min((name for name, as_fast in zip(others, same, strict=True) if as_fast),
               key=lambda name: float(sizes[name]), default=best)  # fmt: skip


def _alternatives(ranking: Sequence[Ranked], pick: str, question: Question) -> tuple[Alternative, ...]:
    """Return what to take where the case that the pick gives up most is asked more often; none where it gives
    up nothing that matters, and where the mix asks that often already (the pick may be as good, and smaller).
    """
    fitting = {entry.layout: case_times(entry.times, question) for entry in ranking if entry.fits}
    mine = fitting[pick]
    best = {case: min(fitting, key=lambda name: fitting[name][case]) for case in mine}
    lost = {case: mine[case] / fitting[other][case] for case, other in best.items()}
    case = max(lost, key=lambda name: lost[name])
    if lost[case] < GIVEN_UP or len(mine) < 2:
        return ()
    other = fitting[best[case]]
    weight = {name: sum(share for (of, _), share in question.shares.items() if of == name) for name in mine}
    rest = 1 - weight[case]

    def elsewhere(times: Mapping[str, float]) -> float:
        return sum(weight[name] * seconds for name, seconds in times.items() if name != case) / rest

    # Linear in the case's share: the other takes so much more elsewhere, and so much less here.
    more, less = elsewhere(other) - elsewhere(mine), mine[case] - other[case]
    above = more / (more + less) if more > 0 else 0.0
    if question.rule == "mix" and above <= weight[case]:
        return ()
    return (Alternative(best[case], case, above),)
