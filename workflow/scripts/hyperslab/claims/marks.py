"""Full marks: which layouts meet every criterion of a score, and how sure that is.

With the bounds as given each time is compared by itself, in the state that the score names. Matched, as in
hyperslab.results.scoring, all time bounds are multiplied by the one factor at which `target` layouts meet
them: only the order of the layouts counts, read cold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from hyperslab.claims.evidence import Evidence, all_of, any_of, at_least, enough, open_ones
from hyperslab.claims.lookup import Lookup, Sum, Untestable
from hyperslab.results.adjusted import effects
from hyperslab.results.comparisons import Floats
from hyperslab.results.scoring import Criterion, needed_factors, read_criteria

QUANTITY = {"median_s": "median", "mean_s": "mean", "max_s": "max", "min_s": "min",
            "first_access_s": "first_access"}  # fmt: skip


@dataclass(frozen=True)
class Marks:
    """Layouts against the criteria of a score; `listed` are those that are counted, of all in the `pool`.

    What does not depend on how many rounds there are is found once: many numbers of rounds are tried.
    """

    lookup: Lookup
    score: Mapping[str, Any]
    listed: Sequence[str]
    pool: Sequence[str]
    matched: bool

    @cached_property
    def times(self) -> list[Criterion]:
        """The criteria that bound a time; matched ones are of cold reads. Raises Untestable."""
        found = [c for c in read_criteria(self.score["criteria"]) if c.timed]
        if not found:
            raise Untestable("no criterion bounds a time")
        for criterion in found:
            if criterion.statistic not in QUANTITY:
                raise Untestable(f"no intervals for {criterion.statistic}")
        cold = self.matched
        return [replace(c, state="cold") if cold and c.state != "write" else c for c in found]

    def small(self, layouts: Sequence[str]) -> list[str]:
        """Return the layouts that meet all bounds on the file, whose size is the same in every round."""
        criteria = read_criteria(self.score["criteria"])
        cases = [c.case for c in criteria if c.timed]
        bounds = [(c, [1.0, c.case or cases[0]]) for c in criteria if not c.timed]
        return [
            layout
            for layout in layouts
            if all(
                np.nanmax(self.lookup.in_rounds([("a", 1.0, [[*term, layout, "", c.statistic]])]))
                < math.log(c.below)
                for c, term in bounds
            )
        ]

    @cached_property
    def _small(self) -> list[str]:
        """Those that are counted and pass the bounds on the file."""
        return self.small(self.listed)

    @cached_property
    def _rivals(self) -> tuple[list[str], list[str]]:
        """Those that are counted, and all, of which each passes the bounds on the file. Raises Untestable."""
        pool = self.small(self.pool)
        target = int(self.score["target"])
        if len(pool) < target:
            raise Untestable(f"{len(pool)} layouts pass the file bounds, {target} are needed")
        return [name for name in self.listed if name in pool], pool

    def sums(self) -> list[Sum]:
        """Return what is formed within each round: times; matched, each over each rival's."""
        times = self.times
        if not self.matched:
            return [_time(c, layout) for c in times for layout in self._small]
        listed, pool = self._rivals
        return [
            [*_time(mine, name), *_time(theirs, other, -1.0)]
            for mine in times
            for theirs in times
            for name in listed
            for other in pool
            if other != name
        ]

    def stated(self, found: Evidence) -> tuple[int, Floats, Floats, bool]:
        """Return how many have full marks by value, and of each counted layout the p values of its having
        and not having them; last whether there are rounds enough.
        """
        if self.matched:
            value, (_, met, missed) = self._among_first, self._ranked(found)
        else:
            value, (met, missed) = self._by_value, self._absolute(found)
        # One that is too large misses for certain.
        large = len(self.listed) - len(met)
        return (
            value,
            np.concatenate([met, np.ones(large)]),
            np.concatenate([missed, np.zeros(large)]),
            enough(found),
        )

    def undecided(self, found: Evidence, alpha: float) -> set[tuple[str, str]]:
        """Return (layout, case) of what may still decide whether some layout has full marks: its own times,
        and those of rivals of which it is not sure whether they come before it.
        """
        cases = {criterion.case for criterion in self.times if criterion.case}
        if not self.matched:
            met, missed = self._absolute(found)
            names = self._open(self._small, met, missed, alpha)
            return {(name, case) for name in names for case in cases}
        listed, pool = self._rivals
        order, met, missed = self._ranked(found)
        open_ = self._open(listed, met, missed, alpha)
        near = set(open_)
        for name, first, last in zip(listed, *order, strict=True):
            if name in open_:
                rivals = [other for other in pool if other != name]
                unsure = open_ones(first, last, alpha / len(self.listed))
                near |= {other for other, one in zip(rivals, unsure, strict=True) if one}
        return {(name, case) for name in near for case in cases}

    def _open(self, names: Sequence[str], met: Floats, missed: Floats, alpha: float) -> list[str]:
        """Return which layouts neither surely have full marks nor surely lack them."""
        large = len(self.listed) - len(met)
        open_ = open_ones(np.append(met, np.ones(large)), np.append(missed, np.zeros(large)), alpha)
        return [name for name, one in zip(names, open_, strict=False) if one]

    def _absolute(self, found: Evidence) -> tuple[Floats, Floats]:
        """Return the p values of each small layout's meeting all times, and of its missing one."""
        pairs = self._with_bounds(found)
        if not pairs:
            return np.empty(0), np.empty(0)
        met = all_of([part.inside(-math.inf, bound) for part, bound in pairs])
        missed = any_of([part.outside(-math.inf, bound) for part, bound in pairs])
        return met, missed

    def _with_bounds(self, found: Evidence) -> list[tuple[Evidence, float]]:
        """Return the evidence of the small layouts on each time beside its bound; none without layouts."""
        times, size = self.times, len(self._small)
        parts = [found.part(i * size, (i + 1) * size) for i in range(len(times))] if size else []
        return list(zip(parts, (math.log(c.below) for c in times), strict=False))

    def _ranked(self, found: Evidence) -> tuple[tuple[Floats, Floats], Floats, Floats]:
        """Return the p values of each layout's coming before and behind each rival, and of its being among
        the first and not being so.
        """
        times, (listed, pool) = self.times, self._rivals
        target, rivals, count = int(self.score["target"]), len(pool) - 1, len(times)
        size, shape = len(listed) * rivals, (count, count, len(listed), rivals)
        before: Floats = np.empty(shape)
        behind: Floats = np.empty(shape)
        for i, mine in enumerate(times):
            for j, theirs in enumerate(times):
                start = (i * count + j) * size
                part = found.part(start, start + size)
                bound = math.log(mine.below) - math.log(theirs.below)
                before[i, j] = part.inside(-math.inf, bound).reshape(shape[2:])
                behind[i, j] = part.outside(-math.inf, bound).reshape(shape[2:])
        # A layout needs the largest of its factors: it comes first where some factor of the rival's exceeds
        # all of its own, and behind where some of its own exceeds all of the rival's.
        first = any_of(all_of(before))
        last = any_of(all_of(np.swapaxes(behind, 0, 1)))
        met = [at_least(own, len(pool) - target) for own in first]
        missed = [at_least(own, target) for own in last]
        return (first, last), np.array(met), np.array(missed)

    def _relative(self, layouts: Sequence[str]) -> pd.DataFrame:
        """Return layouts x criteria: times over their bounds, of an average round as in the score's table."""
        found = {}
        for i, criterion in enumerate(self.times):
            logs = np.stack([self.lookup.in_rounds(_time(criterion, name)) for name in layouts])
            found[i] = np.exp(effects(logs)[0]) / criterion.below
        return pd.DataFrame(found, index=list(layouts))

    @cached_property
    def _by_value(self) -> int:
        """How many meet all times by value."""
        return int((self._relative(self._small) < 1).all(axis=1).sum()) if self._small else 0

    @cached_property
    def _among_first(self) -> int:
        """How many are among the first by value."""
        listed, pool = self._rivals
        needed = needed_factors(self._relative(pool))
        factor = needed.iloc[int(self.score["target"]) - 1]
        return int((needed[list(listed)] <= factor).sum())


def _time(criterion: Criterion, layout: str, sign: float = 1.0) -> Sum:
    """Return what a criterion looks at, of one layout."""
    term = [1.0, criterion.case, layout, criterion.state, QUANTITY[criterion.statistic]]
    return [("a", sign, [term])]
