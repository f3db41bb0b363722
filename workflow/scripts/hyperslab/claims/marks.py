"""Full marks: which layouts meet every criterion of a score, with what the rounds leave open.

With the bounds as given a time is compared by itself. Matched, as in hyperslab.results.scoring, all time
bounds are multiplied by the one factor at which `target` layouts meet them: only the order of the layouts
counts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hyperslab.claims.lookup import Lookup, Sum, Untestable
from hyperslab.results.scoring import Criterion, read_criteria

QUANTITY = {"median_s": "median", "mean_s": "mean", "max_s": "max", "min_s": "min",
            "first_access_s": "first_access"}  # fmt: skip
# By value, surely, possibly.
Marks = tuple[int, int | None, int | None]
Ends = tuple[float, float, float]


def _sum(criterion: Criterion, layout: str) -> Sum:
    """Return what a criterion looks at, of one layout."""
    quantity = QUANTITY.get(criterion.statistic)
    if quantity is None:
        raise Untestable(f"no intervals for {criterion.statistic}")
    return [("a", 1.0, [[1.0, criterion.case, layout, criterion.state, quantity]])]


def _fits(lookup: Lookup, criteria: Sequence[Criterion], layout: str) -> bool:
    """Return whether a layout meets all bounds on the file, whose size is the same in every round."""
    cases = [c.case for c in criteria if c.timed]
    for criterion in (c for c in criteria if not c.timed):
        term = [1.0, criterion.case or cases[0], layout, "", criterion.statistic]
        (found,) = lookup.log_sums([[("a", 1.0, [term])]], 1.0, True)
        if not found.value < math.log(criterion.below):
            return False
    return True


def _needed(
    lookup: Lookup, criteria: Sequence[Criterion], layouts: Iterable[str], alpha: float, these_rounds: bool
) -> dict[str, Ends]:
    """Return for each layout that meets the file bounds the log factor by which all time bounds would be
    met.
    """
    times = [c for c in criteria if c.timed]
    if not times:
        raise Untestable("no criterion bounds a time")
    small = [layout for layout in layouts if _fits(lookup, criteria, layout)]
    pairs = list(itertools.product(small, times))
    sums = [_sum(criterion, layout) for layout, criterion in pairs]
    found = lookup.log_sums(sums, alpha, False, these_rounds)
    needed = dict.fromkeys(small, (-math.inf, -math.inf, -math.inf))
    for (layout, criterion), interval in zip(pairs, found, strict=True):
        bound, before = math.log(criterion.below), needed[layout]
        value, low, high = (end - bound for end in (interval.value, *interval.ends))
        needed[layout] = (max(before[0], value), max(before[1], low), max(before[2], high))
    return needed


def full_marks(
    lookup: Lookup, score: Mapping[str, Any], layouts: Sequence[str], pool: Sequence[str], alpha: float
) -> Marks:
    """Return how many of `layouts` meet every criterion with the bounds as given."""
    criteria = read_criteria(score["criteria"])
    needed = list(_needed(lookup, criteria, layouts, alpha, False).values())
    return (
        sum(value < 0 for value, _, _ in needed),
        sum(high < 0 for _, _, high in needed),
        sum(low < 0 for _, low, _ in needed),
    )


def matched_marks(
    lookup: Lookup, score: Mapping[str, Any], layouts: Sequence[str], pool: Sequence[str], alpha: float
) -> Marks:
    """Return how many of `layouts` are among the `target` of the pool that meet all bounds first,
    read cold.
    """
    criteria = [
        c if c.state == "write" else replace(c, state="cold") for c in read_criteria(score["criteria"])
    ]
    needed = _needed(lookup, criteria, pool, alpha, True)
    target = int(score["target"])
    if len(needed) < target:
        raise Untestable(f"{len(needed)} layouts pass the file bounds, {target} are needed")

    def among_first(name: str, mine: int, others: int) -> bool:
        ahead = sum(ends[others] < needed[name][mine] for other, ends in needed.items() if other != name)
        return ahead < target

    listed = [name for name in layouts if name in needed]
    return (
        sum(among_first(name, 0, 0) for name in listed),
        sum(among_first(name, 2, 1) for name in listed),
        sum(among_first(name, 1, 2) for name in listed),
    )
