"""The kinds of comparison: which sums each asks for, and what its rounds say of the comparison's bound.

Each kind is two functions: what is formed within each round, and how the evidence on these combines. The
second one is asked again with the evidence that more rounds would give.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hyperslab.claims.evidence import ROUNDING, Evidence, all_of, any_of, at_least, enough, most_shown
from hyperslab.claims.lookup import Lookup, Sum, Untestable
from hyperslab.claims.marks import Marks
from hyperslab.results.comparisons import ALPHA, Floats, refuting
from hyperslab.studies.claims.bound_schema import Bound

LARGEST_LOG = math.log(1.7e308)
Comparison = Mapping[str, Any]
Cells = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Task:
    """One atomic comparison at one site (or pair of sites)."""

    lookup: Lookup
    comparison: Comparison
    instance: Mapping[str, Any]
    # What a test may be wrong with; less than usual where a study looks at its rounds more than once.
    alpha: float = ALPHA
    # Whether the sentence says that it can be so, by however little.
    could: bool = False

    @property
    def a(self) -> Cells:
        """The cells of the first side."""
        cells: Cells = self.instance["a"]
        return cells

    @property
    def b(self) -> Cells:
        """The cells of the second side; none where there is no such side."""
        cells: Cells = self.instance.get("b", ())
        return cells

    @cached_property
    def bound(self) -> Bound:
        """The bound within which it holds."""
        return Bound(**self.comparison["bound"])

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the bound."""
        return self.bound.ends

    @cached_property
    def marks(self) -> Marks:
        """The layouts and criteria that a comparison of marks is about."""
        own, matched = self.instance, self.comparison["kind"] == "matched_marks"
        return Marks(self.lookup, self.comparison["score"], own["layouts"], own["pool"], matched)

    @property
    def refuting(self) -> tuple[float, float]:
        """The ends beyond which it fails: those of the bound, but for what is more or less than 1 by time.

        What is at most 1 may be equal, and is refuted by whatever is surely more.
        """
        by_time = self.comparison["unit"] == "ratio" and not self.comparison["exact"]
        strict = 1 in (self.bound.above, self.bound.below)
        return refuting(self.ends) if by_time and strict and not self.could else self.ends


@dataclass(frozen=True)
class Statement:
    """What is known of one atomic comparison.

    `low` and `high` are one-sided limits at the task's level in the unit of the comparison (None: too few
    rounds). `inside` and `outside` are the p values against its lying outside of the bound, and inside of
    what refutes it.
    """

    value: float
    low: float | None
    high: float | None
    inside: float
    outside: float


def over(first: Cells, second: Cells) -> Sum:
    """Return the log of the geometric mean of `first`, of side a, over that of `second`, of side b."""
    return [
        *(("a", 1 / len(first), cell["terms"]) for cell in first),
        *(("b", -1 / len(second), cell["terms"]) for cell in second),
    ]


def natural(log: float) -> float:
    """Return the number with this logarithm; a whole one exactly, so that a count of 16 is at least 16."""
    if log > LARGEST_LOG:
        return math.inf
    found = math.exp(log)
    return float(round(found)) if math.isclose(found, round(found), rel_tol=ROUNDING) else found


def logs_of(ends: tuple[float, float]) -> tuple[float, float]:
    """Return the logarithms of the ends of a bound."""
    low, high = (-math.inf if end <= 0 else math.log(end) if math.isfinite(end) else end for end in ends)
    return low, high


# What is formed within each round


def one(task: Task) -> list[Sum]:
    """Ask for side a, over side b where there is one."""
    return [over(task.a, task.b)]


def exponent(task: Task) -> list[Sum]:
    """Ask for the least-squares slope of the logs over the log of a variable, given all other variables."""
    variable = task.comparison["over"]
    groups: dict[Any, list[Mapping[str, Any]]] = {}
    for cell in task.a:
        others = tuple(sorted((key, number) for key, number in cell["values"].items() if key != variable))
        groups.setdefault(others, []).append(cell)
    centred: list[tuple[float, Mapping[str, Any]]] = []
    for cells in groups.values():
        if any(cell["values"][variable] <= 0 for cell in cells):
            raise Untestable(f"no slope over {variable}, which is not above 0 everywhere")
        logs = [math.log(cell["values"][variable]) for cell in cells]
        mean = sum(logs) / len(logs)
        centred += [(log - mean, cell) for log, cell in zip(logs, cells, strict=True)]
    squares = sum(distance**2 for distance, _ in centred)
    if squares == 0:
        raise Untestable(f"{variable} does not vary")
    return [[("a", distance / squares, cell["terms"]) for distance, cell in centred]]


def each(task: Task) -> list[Sum]:
    """Ask for each cell of side a, over its counterpart where there is one."""
    counterparts = [[other] for other in task.b] or [[] for _ in task.a]
    return [over([cell], other) for cell, other in zip(task.a, counterparts, strict=True)]


def all_pairs(task: Task) -> list[Sum]:
    """Ask for each cell of side a over each of side b."""
    return [over([cell], [other]) for cell in task.a for other in task.b]


def among(task: Task) -> list[Sum]:
    """Ask for each cell of side a over each other one of the same side."""
    variable = task.comparison["over"]
    if len({cell["values"][variable] for cell in task.a}) < len(task.a):
        raise Untestable(f"several layouts have one {variable}")
    return [
        [("a", 1.0, cell["terms"]), ("a", -1.0, other["terms"])]
        for cell, other in itertools.permutations(task.a, 2)
    ]


# What the evidence on these says


def single(task: Task, found: Evidence) -> Statement:
    """Return what is known of a ratio, a time or a count."""
    low, high = (float(end[0]) for end in found.limits(task.alpha))
    known = not math.isnan(low)
    return Statement(
        natural(float(found.value[0])),
        natural(low) if known else None,
        natural(high) if known else None,
        float(found.inside(*logs_of(task.ends))[0]),
        float(found.outside(*logs_of(task.refuting))[0]),
    )


def slope(task: Task, found: Evidence) -> Statement:
    """Return what is known of an exponent, which is a difference of logs itself."""
    low, high = (float(end[0]) for end in found.limits(task.alpha))
    known = not math.isnan(low)
    return Statement(
        float(found.value[0]),
        low if known else None,
        high if known else None,
        float(found.inside(*task.ends)[0]),
        float(found.outside(*task.ends)[0]),
    )


def _least_of_both(p: Floats) -> float:
    """Return the p value of "some row beats every column"; `p` is that of each pair."""
    return float(any_of(all_of(p.T)))


def fastest(task: Task, found: Evidence) -> Statement:
    """Return what is known of the least of side a over the least of side b.

    It is at most c where some of a is at most c times each of b, and above c where some of b is less than
    each of a over c.
    """
    shape = (len(task.a), len(task.b))

    def table(values: Floats) -> Floats:
        return values.reshape(shape)

    low, high = logs_of(task.ends)
    less, more = logs_of(task.refuting)
    inside, outside = [0.0], []
    if math.isfinite(high):
        inside.append(_least_of_both(table(found.inside(-math.inf, high))))
        outside.append(_least_of_both(table(found.outside(-math.inf, more)).T))
    if math.isfinite(low):
        inside.append(_least_of_both(table(found.inside(low, math.inf)).T))
        outside.append(_least_of_both(table(found.outside(less, math.inf))))
    value = natural(float(table(found.value).max(axis=1).min()))
    both = (max(inside), float(any_of(outside)))
    if not enough(found):
        return Statement(value, None, None, *both)
    upper = table(found.limits(task.alpha / shape[0])[1]).max(axis=1).min()
    lower = table(found.limits(task.alpha / shape[1])[0]).min(axis=0).max()
    return Statement(value, natural(float(lower)), natural(float(upper)), *both)


def number_of(task: Task, value: int, met: Floats, missed: Floats, known: bool) -> Statement:
    """Return how many of k meet a condition, from the p values of each meeting and missing it."""
    count = len(met)
    low, high = task.ends
    # More than none is one: the end beside 0 is less than what rounding takes.
    least = max(math.ceil(low - ROUNDING), 1) if low > 0 else 0
    most = count if high == math.inf else math.floor(high + ROUNDING)
    inside = max(at_least(met, least), at_least(missed, count - most))
    # Fewer than the least: more than count - least miss it.
    fewer = [at_least(missed, count - least + 1)] if least > 0 else []
    more = [at_least(met, most + 1)] if most < count else []
    outside = float(any_of([*fewer, *more])) if fewer or more else 1.0
    if not known:
        return Statement(float(value), None, None, inside, outside)
    ends = (most_shown(met, task.alpha), count - most_shown(missed, task.alpha))
    return Statement(float(value), float(ends[0]), float(ends[1]), inside, outside)


def count(task: Task, found: Evidence) -> Statement:
    """Return how many layouts of side a meet `counting` (over side b where there is one)."""
    ends = Bound(**task.comparison["counting"]).ends
    logs = logs_of(ends)
    by_value = sum(ends[0] <= natural(float(value)) <= ends[1] for value in found.value)
    return number_of(task, by_value, found.inside(*logs), found.outside(*logs), enough(found))


def crossover(task: Task, found: Evidence) -> Statement:
    """Return what is known of the least value of the variable from which on side a stays below side b.

    It is infinite where a never stays below b.
    """
    variable = task.comparison["over"]
    order = np.argsort([cell["values"][variable] for cell in task.a])
    values = [float(task.a[position]["values"][variable]) for position in order]
    less = logs_of(Bound(below=1).ends)
    below, above = found.inside(*less)[order], found.outside(*less)[order]
    low, high = task.ends

    def from_on(position: int, p: Floats, combine: Callable[[Floats], Floats]) -> float:
        return float(combine(p[position:])) if position < len(values) else 1.0

    def start(met: Sequence[bool]) -> float:
        misses = [position for position, one in enumerate(met) if not one]
        first = misses[-1] + 1 if misses else 0
        return values[first] if first < len(values) else math.inf

    inside, outside = [0.0], []
    if math.isfinite(high):
        # By then: a is less at every value from the last one within the bound on.
        last = max((p for p, value in enumerate(values) if value <= high), default=0)
        reached = values[0] <= high
        inside.append(from_on(last, below, all_of) if reached else 1.0)
        outside.append(from_on(last, above, any_of) if reached else 0.0)
    if math.isfinite(low):
        last = max((p for p, value in enumerate(values) if value < low), default=-1)
        inside.append(from_on(last, above, any_of) if last >= 0 else 0.0)
        outside.append(from_on(last, below, all_of) if last >= 0 else 1.0)
    value = start([bool(one < less[1]) for one in found.value[order]])
    both = (max(inside), float(any_of(outside)))
    if not enough(found):
        return Statement(value, None, None, *both)
    slower = [position for position in range(len(values)) if any_of(above[position:]) <= task.alpha]
    lower = math.inf if slower and slower[-1] + 1 == len(values) else values[slower[-1] + 1 if slower else 0]
    return Statement(value, lower, start([bool(p <= task.alpha) for p in below]), *both)


def optimum(task: Task, found: Evidence) -> Statement:
    """Return what is known of the value of the variable at which side a is least.

    Its limits are the ends of those values that cannot be told from the best.
    """
    variable = task.comparison["over"]
    values = np.array([float(cell["values"][variable]) for cell in task.a])
    size = len(values)
    # None beats itself.
    less, ratios = np.ones((size, size)), np.zeros((size, size))
    apart = ~np.eye(size, dtype=bool)
    # Equal counts do not beat each other.
    less[apart], ratios[apart] = found.inside(*logs_of(Bound(below=1).ends)), found.value
    low, high = task.ends
    within = (values >= low) & (values <= high)
    inside = _least_of_both(less[np.ix_(within, ~within)]) if within.any() and (~within).any() else 1.0
    outside = _least_of_both(less[np.ix_(~within, within)]) if within.any() and (~within).any() else 1.0
    if not (~within).any():
        inside = 0.0
    if not within.any():
        outside = 0.0
    best = float(values[ratios.mean(axis=1).argmin()])
    if not enough(found):
        return Statement(best, None, None, inside, outside)
    # Left out is what some other one surely beats (Hsu, Annals of Statistics 12, 1984).
    beaten = (less <= task.alpha / max(1, size - 1)).any(axis=0)
    kept = values[~beaten]
    return Statement(best, float(kept.min()), float(kept.max()), inside, outside)


def marks(task: Task, found: Evidence) -> Statement:
    """Return how many layouts have full marks."""
    return number_of(task, *task.marks.stated(found))


# kind -> what is formed within each round, and what the evidence on it says.
KINDS: dict[str, tuple[Callable[[Task], list[Sum]], Callable[[Task, Evidence], Statement]]] = {
    "value": (one, single),
    "ratio": (one, single),
    "fastest": (all_pairs, fastest),
    "slope": (exponent, slope),
    "count": (each, count),
    "crossover": (each, crossover),
    "optimum": (among, optimum),
    "full_marks": (lambda task: task.marks.sums(), marks),
    "matched_marks": (lambda task: task.marks.sums(), marks),
}
