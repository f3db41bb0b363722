"""What bounds a comparison, and why, as people read it; rules ask this, so it needs no tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperslab import text as fmt
from hyperslab.studies.claims.bound_schema import BOUNDS, SIMILAR_MARGIN, Bound

MARGIN = SIMILAR_MARGIN
# Why a bound is what it is, where the study gives no other reason.
SIMILAR = f"similar: one margin for all, x/÷ {MARGIN:g}"
MUCH = f"surely and by much: beyond {MARGIN:g}, one margin for all"
MARGINAL = f"marginal, not much: less than {MARGIN:g}, one margin for all"
BEYOND = "better or worse, more or less: on that side of what is equal"
GENERALLY = "generally, in most cases: more than half"
EQUAL = "a count, which has no noise"
# What a page needs of a comparison beside its results.
TOLD = ("says", "kind", "judged", "unit", "exact", "published", "over")


def described(comparison: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a page needs of a resolved comparison: its words, its bound, and why it has that one."""
    told = {key: comparison[key] for key in TOLD if key in comparison}
    limits = bound(Bound(**comparison["bound"]), comparison["unit"])
    return {**told, "bound": limits, "why": reason(comparison)}


def without_results(claim: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the comparisons of a claim as claims.json has them, where nothing was measured."""
    return [{**described(comparison), "results": []} for comparison in claim.get("comparisons", ())]


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
