"""The kinds of comparison: one small function each, from measurements to an estimate with its interval."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hyperslab.claims.families import Interval
from hyperslab.claims.lookup import Lookup, Sum, Untestable
from hyperslab.claims.marks import full_marks, matched_marks
from hyperslab.studies.claims.schema import Bound

LARGEST_LOG = math.log(1.7e308)
# What a logarithm and back does to a number.
ROUNDING = 1e-12
Comparison = Mapping[str, Any]
Cells = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Estimate:
    """A number with the ends of its interval (None: no interval), in the unit of the comparison."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Task:
    """One atomic comparison at one site (or pair of sites), tested at level `alpha`."""

    lookup: Lookup
    comparison: Comparison
    instance: Mapping[str, Any]
    alpha: float

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

    @property
    def exact(self) -> bool:
        """Whether counts are compared."""
        return bool(self.comparison["exact"])

    def over(self, first: Cells, second: Cells) -> Sum:
        """Return the log of the geometric mean of `first`, of side a, over that of `second`, of side b."""
        return [
            *(("a", 1 / len(first), cell["terms"]) for cell in first),
            *(("b", -1 / len(second), cell["terms"]) for cell in second),
        ]

    def logs(self, asked: Sequence[Sum]) -> list[Interval]:
        """Return the intervals of sums, which hold together."""
        return self.lookup.log_sums(asked, self.alpha, self.exact)


def _natural(found: Interval) -> Estimate:
    """Return a log interval as a ratio (or a time, or a count)."""
    if math.isnan(found.value):
        raise Untestable("nothing to divide by: both counts are zero")
    low, high = (None if end is None else _exp(end) for end in (found.low, found.high))
    return Estimate(_exp(found.value), low, high)


def _exp(log: float) -> float:
    """Return the number with this logarithm; a whole one exactly, so that a count of 16 is at least 16."""
    if log > LARGEST_LOG:
        return math.inf
    found = math.exp(log)
    return float(round(found)) if math.isclose(found, round(found), rel_tol=ROUNDING) else found


def value(task: Task) -> Estimate:
    """Return the geometric mean of side a."""
    return _natural(*task.logs([task.over(task.a, ())]))


def ratio(task: Task) -> Estimate:
    """Return the geometric mean of side a over that of side b."""
    return _natural(*task.logs([task.over(task.a, task.b)]))


def fastest(task: Task) -> Estimate:
    """Return the least of side a over the least of side b.

    With simultaneous intervals for all pairs, min over a of max over b of their ends encloses the truth.
    """
    found = iter(task.logs([task.over([one], [other]) for one in task.a for other in task.b]))
    rows = [[next(found) for _ in task.b] for _ in task.a]
    middle = min(max(pair.value for pair in row) for row in rows)
    if not all(pair.known for row in rows for pair in row):
        return _natural(Interval(middle))
    low = min(max(pair.ends[0] for pair in row) for row in rows)
    return _natural(Interval(middle, low, min(max(pair.ends[1] for pair in row) for row in rows)))


def slope(task: Task) -> Estimate:
    """Return the exponent k in value ~ variable^k, by least squares on logs, given all other variables."""
    over = task.comparison["over"]
    groups: dict[Any, list[Mapping[str, Any]]] = {}
    for cell in task.a:
        others = tuple(sorted((key, number) for key, number in cell["values"].items() if key != over))
        groups.setdefault(others, []).append(cell)
    centred: list[tuple[float, Mapping[str, Any]]] = []
    for cells in groups.values():
        logs = [math.log(cell["values"][over]) for cell in cells]
        mean = sum(logs) / len(logs)
        centred += [(log - mean, cell) for log, cell in zip(logs, cells, strict=True)]
    squares = sum(distance**2 for distance, _ in centred)
    if squares == 0:
        raise Untestable(f"{over} does not vary")
    sides = [("a", distance / squares, cell["terms"]) for distance, cell in centred]
    (found,) = task.logs([sides])
    return Estimate(found.value, found.low, found.high)


def _pairs(task: Task) -> Iterable[tuple[Mapping[str, Any], Interval]]:
    """Return each cell of side a with its interval: over its counterpart, or by itself."""
    counterparts = [[other] for other in task.b] or [[] for _ in task.a]
    sums = [task.over([cell], other) for cell, other in zip(task.a, counterparts, strict=True)]
    return zip(task.a, task.logs(sums), strict=True)


def _inside(found: Interval, bound: Bound) -> tuple[bool, bool, bool]:
    """Return whether a number lies inside a bound: by its value, surely,
    and possibly (its interval overlaps).
    """
    low, high = bound.ends
    estimate = _natural(found)
    by_value = low <= estimate.value <= high
    if estimate.low is None or estimate.high is None:
        return by_value, False, True
    return (
        by_value,
        low <= estimate.low and estimate.high <= high,
        estimate.low <= high and low <= estimate.high,
    )


def count(task: Task) -> Estimate:
    """Return how many layouts of side a meet `counting` (over side b where there is one): surely,
    to possibly.
    """
    bound = Bound(**task.comparison["counting"])
    met = [_inside(found, bound) for _, found in _pairs(task)]
    number, surely, possibly = (float(sum(column)) for column in zip(*met, strict=True))
    return Estimate(number, surely, possibly)


def crossover(task: Task) -> Estimate:
    """Return the least value of the variable from which on side a stays below side b;
    infinite where it never is.
    """
    over, below = task.comparison["over"], Bound(below=1)
    met = sorted((cell["values"][over], *_inside(found, below)) for cell, found in _pairs(task))

    def start(column: int) -> float:
        first = math.inf
        for row in reversed(met):
            if not row[column]:
                break
            first = float(row[0])
        return first

    return Estimate(start(1), start(3), start(2))


def optimum(task: Task) -> Estimate:
    """Return the value of the variable at which side a is least, and the range of those not told from it."""
    over = task.comparison["over"]
    cells = {cell["values"][over]: cell["terms"] for cell in task.a}
    if len(cells) < len(task.a):
        raise Untestable(f"several layouts have one {over}")
    pairs = list(itertools.combinations(cells, 2))
    found = task.logs([[("a", 1.0, cells[one]), ("a", -1.0, cells[other])] for one, other in pairs])
    between = dict(zip(pairs, found, strict=True))
    ahead = {one: sum(between[pair].value < 0 for pair in pairs if pair[0] == one) for one in cells}
    for (_, other), interval in between.items():
        ahead[other] += interval.value > 0
    best = max(cells, key=lambda one: ahead[one])
    if not all(interval.known for interval in found):
        return Estimate(best)
    beaten = {pair[0] for pair, interval in between.items() if interval.ends[0] > 0}
    beaten |= {pair[1] for pair, interval in between.items() if interval.ends[1] < 0}
    possible = [one for one in cells if one == best or one not in beaten]
    return Estimate(best, min(possible), max(possible))


def _marks(task: Task, count_marks: Callable[..., tuple[int, int | None, int | None]]) -> Estimate:
    number, surely, possibly = count_marks(
        task.lookup, task.comparison["score"], task.instance["layouts"], task.instance["pool"], task.alpha
    )
    return Estimate(number, surely, possibly)


KINDS: dict[str, Callable[[Task], Estimate]] = {
    "value": value,
    "ratio": ratio,
    "fastest": fastest,
    "slope": slope,
    "count": count,
    "crossover": crossover,
    "optimum": optimum,
    "full_marks": lambda task: _marks(task, full_marks),
    "matched_marks": lambda task: _marks(task, matched_marks),
}
