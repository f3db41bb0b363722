"""Numbers of comparisons as people read them, in the unit of the comparison."""

from __future__ import annotations

import math

from hyperslab import text as fmt
from hyperslab.claims.kinds import Estimate
from hyperslab.studies.claims.schema import BOUNDS, Bound

NEVER = "never here"
INFINITE = "infinite"


def number(value: float, unit: str) -> str:
    """Return a number in a unit of comparisons: "853 ms", "12,845,056 bytes", "0.62", "38"."""
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


def measured(estimate: Estimate, unit: str) -> str:
    """Return a number with the ends of its interval: "0.62 (0.55 to 0.70)";
    without one where they are equal.
    """
    low, high = estimate.low, estimate.high
    text = number(estimate.value, unit)
    if low is None or high is None:
        return f"{text} (no interval)"
    ends = (number(low, unit), number(high, unit))
    return text if ends == (text, text) else f"{text} ({ends[0]} to {ends[1]})"


def bound(limits: Bound, unit: str) -> str:
    """Return a bound as one reads it: "above 100 ms", "similar to 1 within x/÷ 1.25"."""
    parts = []
    for name in BOUNDS:
        value = getattr(limits, name)
        if value is None:
            continue
        word = "similar to" if name == "similar" else name.replace("_", " ")
        exact = unit != "s" and float(value).is_integer()
        parts.append(f"{word} {f'{value:,.0f}' if exact else number_of_bound(value, unit)}")
        if name == "similar":
            parts[-1] += f" within x/÷ {limits.margin:g}"
    return " and ".join(parts)


def number_of_bound(value: float, unit: str) -> str:
    """Return a bound's number as it was written: 0.95, not 0.950."""
    return fmt.seconds(value) if unit == "s" else f"{value:,.10g}"
