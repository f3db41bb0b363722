"""Numbers of comparisons as people read them, in the unit of the comparison."""

from __future__ import annotations

import math

from hyperslab import text as fmt
from hyperslab.claims.kinds import Statement
from hyperslab.results.comparisons import MATTERS

NEVER = "never here"
INFINITE = "infinite"


def number(value: float, unit: str, exact: bool = False) -> str:
    """Return a number in a unit of comparisons: "853 ms", "12,845,056 bytes", "0.62", "38"."""
    if exact and unit == "ratio" and 0 < abs(value - 1) < 0.005:
        # A ratio of counts that is 1.0007 is not 1.
        return fmt.significant(value, 5)
    if math.isinf(value):
        return NEVER if unit == "position" else INFINITE
    if unit == "s":
        return fmt.seconds(value)
    if unit == "bytes":
        return f"{fmt.whole(value)} bytes"
    if unit in ("", "layouts", "position"):
        integral = math.isclose(value, round(value), rel_tol=1e-6)
        return fmt.whole(value) if integral else fmt.significant(value)
    return fmt.significant(value)


def measured(estimate: Statement, unit: str) -> str:
    """Return a number with the ends of its interval: "0.62 (0.55 to 0.70)";
    without one where they are equal.
    """
    low, high = estimate.low, estimate.high
    text = number(estimate.value, unit, exact=low == high == estimate.value)
    if low is None or high is None:
        return f"{text} (no interval)"
    ends = (number(low, unit), number(high, unit))
    return text if low == high or ends == (text, text) else f"{text} ({ends[0]} to {ends[1]})"


def margin(estimate: Statement, ends: tuple[float, float], refuting: tuple[float, float]) -> str:
    """Return what a comparison that fails surely is: no more than so much apart from 1 on the side where it
    should lie, or on both; empty where it surely lies on the other side.
    """
    if ends == refuting or estimate.low is None or estimate.high is None:
        return ""
    below = math.isfinite(ends[1])
    if estimate.low >= ends[1] if below else estimate.high <= ends[0]:
        return ""
    most = fmt.percent(MATTERS - 1, 0)
    if estimate.low >= 1 / MATTERS and estimate.high <= MATTERS:
        return f"no more than {most} either way"
    return f"not {most} {'less' if below else 'more'}"
