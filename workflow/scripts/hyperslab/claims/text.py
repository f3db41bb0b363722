"""Numbers of comparisons as people read them, in the unit of the comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from hyperslab import text as fmt
from hyperslab.claims.kinds import Statement
from hyperslab.studies.claims.schema import BOUNDS, SIMILAR_MARGIN, Bound

MARGIN = SIMILAR_MARGIN
# Why a bound is what it is, where the study gives no other reason.
SIMILAR = f"similar: one margin for all, x/÷ {MARGIN:g}"
MUCH = f"much, significantly, poor: beyond {MARGIN:g}, one margin for all"
MARGINAL = f"marginal, not much: less than {MARGIN:g}, one margin for all"
BEYOND = "better or worse, more or less: on that side of what is equal"
GENERALLY = "generally, in most cases: more than half"
EQUAL = "a number that the source computes"
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


def measured(estimate: Statement, unit: str) -> str:
    """Return a number with the ends of its interval: "0.62 (0.55 to 0.70)";
    without one where they are equal.
    """
    low, high = estimate.low, estimate.high
    if low == high == estimate.value != 1 and unit == "ratio" and abs(estimate.value - 1) < 0.005:
        # Counts are exact: a ratio of 1.0007 is not 1.
        return fmt.significant(estimate.value, 5)
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


def reason(comparison: Mapping[str, Any]) -> str:
    """Return why a comparison has its bound: as the study says, or as the words of a sentence are bounded in
    all studies; empty where neither says it.
    """
    if comparison.get("why"):
        return str(comparison["why"])
    bound = {key: value for key, value in comparison["bound"].items() if key != "margin"}
    ((name, value), *others) = bound.items()
    if others or "margin" in comparison["bound"]:
        return ""
    if comparison["kind"] in ("count", "full_marks", "matched_marks"):
        counted = comparison["instances"][0]
        half = len(counted["layouts"] if "layouts" in counted else counted["a"]) // 2
        return GENERALLY if name == "at_least" and value == half + 1 else EQUAL if name == "equals" else ""
    neutral = 0 if comparison["kind"] == "slope" else 1
    reasons = {("similar", value): SIMILAR, ("above", MARGIN): MUCH, ("below", 1 / MARGIN): MUCH}
    reasons |= {("below", MARGIN): MARGINAL, ("above", 1 / MARGIN): MARGINAL}
    reasons |= {("above", neutral): BEYOND, ("below", neutral): BEYOND}
    return EQUAL if name == "equals" else reasons.get((name, value), "")


def number_of_bound(value: float, unit: str) -> str:
    """Return a bound's number as it was written: 0.95, not 0.950."""
    return fmt.seconds(value) if unit == "s" else f"{value:,.10g}"
