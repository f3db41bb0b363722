"""Which cells of a comparison of many layouts may need more rounds: for adaptive rounds.

What many layouts show together depends on a few of them. A layout that surely meets what is counted, or
surely misses it, is counted whatever the others do; one that is surely slower than some of the other side
decides nothing about which side has the fastest. "Surely" is at the strictest level at which the verdict may
ask, so that what is left out is never what it waits for. Tests are not touched: each rests on the rounds that
it has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from hyperslab.claims.evidence import Evidence, open_ones
from hyperslab.claims.kinds import Cells, Task, logs_of
from hyperslab.results.comparisons import Floats
from hyperslab.studies.claims.bound_schema import Bound

# (side, layout, case)
Cell = tuple[str, str, str]
Ends = tuple[float, float]


def undecided(task: Task, found: Evidence, together: int) -> list[Cell] | None:
    """Return the cells of those layouts that may still decide; None where all of a comparison's cells do.

    `together` is the number of comparisons of the claim over which one that fails is adjusted; of what could
    be, over which one that holds is.
    """
    kind = KINDS.get(task.comparison["kind"])
    if kind is None:
        return None
    ends = sum(map(math.isfinite, task.ends))
    return sorted(kind(task, found, task.alpha / (ends * max(1, together)))) or None


def _cells(side: str, cells: Cells, open_: NDArray[np.bool_]) -> set[Cell]:
    chosen = (cell for cell, one in zip(cells, open_, strict=True) if one)
    return {(side, layout, case) for cell in chosen for _, case, layout, _, _ in cell["terms"]}


def of_count(task: Task, found: Evidence, alpha: float) -> set[Cell]:
    """Return the cells of layouts that may be counted or not, and of what they are compared with."""
    ends = logs_of(Bound(**task.comparison["counting"]).ends)
    open_ = open_ones(found.inside(*ends), found.outside(*ends), alpha)
    return _cells("a", task.a, open_) | (_cells("b", task.b, open_) if task.b else set())


def of_fastest(task: Task, found: Evidence, alpha: float) -> set[Cell]:
    """Return the cells of pairs that are open while one of both may be the one that beats the others."""
    shape = (len(task.a), len(task.b))
    needed: NDArray[np.bool_] = np.zeros(shape, bool)
    for bound, beyond in _halves(logs_of(task.ends), logs_of(task.refuting)):
        # Where a has to be less, some of side a beats all of b (kinds.fastest); else the other way round.
        one, all_ = (0, 1) if math.isfinite(bound[1]) else (1, 0)

        def shown(p: Floats, axis: int) -> NDArray[np.bool_]:
            return p.reshape(shape) <= alpha / shape[axis]

        holds, refutes = shown(found.inside(*bound), one), shown(found.outside(*beyond), all_)
        # Those that may still hold up the claim against each of the other side, and those that may refute it.
        may_hold = ~shown(found.outside(*bound), all_).any(axis=all_, keepdims=True)
        may_refute = ~shown(found.inside(*beyond), one).any(axis=one, keepdims=True)
        needed = needed | (may_hold & ~holds) | (may_refute & ~refutes)
    first, second = (np.asarray(needed.any(axis=axis), dtype=bool) for axis in (1, 0))
    return _cells("a", task.a, first) | _cells("b", task.b, second)


def _halves(ends: Ends, refuting: Ends) -> list[tuple[Ends, Ends]]:
    """Return each finite end of a bound by itself, beside that beyond which it is refuted."""
    low = ((ends[0], math.inf), (refuting[0], math.inf))
    high = ((-math.inf, ends[1]), (-math.inf, refuting[1]))
    return [half for half, end in ((low, ends[0]), (high, ends[1])) if math.isfinite(end)]


def of_marks(task: Task, found: Evidence, alpha: float) -> set[Cell]:
    """Return the cells of layouts that may have full marks or not, and of those that they are ranked with."""
    return {("a", layout, case) for layout, case in task.marks.undecided(found, alpha)}


KINDS: Mapping[str, Callable[[Task, Evidence, float], set[Cell]]] = {
    "count": of_count,
    "fastest": of_fastest,
    "full_marks": of_marks,
    "matched_marks": of_marks,
}
