"""The comparisons of a claim as lines of a table: what was measured, its bound, and the verdict on each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hyperslab import text as fmt
from hyperslab.claims import text
from hyperslab.claims.verdicts import VERDICTS
from hyperslab.report.claims_model import BADGES, Line

# A line names the instances that fail where they are no more than these.
MOST_NAMED = 4


def line(comparison: Mapping[str, Any], verdict: str, could: bool) -> Line:
    """Return a comparison: its number with interval, or those of its instances from least to greatest.

    `verdict` is the claim's, for a comparison without results; of a claim that only could be so, `could`, one
    instance that holds is enough.
    """
    results, bound, why = comparison["results"], comparison["bound"], comparison.get("why", "")
    published, judged = comparison.get("published") or "", comparison["judged"]
    parts = [
        Line(result["says"], _measured(result), bound, BADGES[result["verdict"]], why, _rounds([result]))
        for result in results
    ]
    if len(parts) == 1:
        (only,) = parts
        return replace(only, published=published, judged=judged)
    if not parts:
        badge = BADGES[verdict]
        return Line(comparison["says"], "", bound, badge, why, published=published, judged=judged)
    badge = BADGES[_together([result["verdict"] for result in results], could)]
    says, told = comparison["says"], _range(comparison, could)
    return Line(says, told, bound, badge, why, _rounds(results), published, judged, parts)


def _measured(result: Mapping[str, Any]) -> str:
    """Return the number of one instance with its interval, and how near it surely is to 1 if it fails so."""
    told = str(result.get("text", result.get("reason", "")))
    return f"{told}: surely {result['margin']}" if result.get("margin") else told


def _rounds(results: Iterable[Mapping[str, Any]]) -> str:
    """Return the rounds of comparisons and their own deviations: "3 rounds, 2.1 to 8.4 %"."""
    known = [result for result in results if result.get("rounds")]
    if not known:
        return ""
    numbers = sorted(
        {int(result[key]) for result in known for key in ("rounds", "most_rounds") if key in result}
    )
    text = f"{' to '.join(dict.fromkeys(map(str, (numbers[0], numbers[-1]))))} round{'s' * (numbers[-1] > 1)}"
    deviations = [result["deviation"] for result in known if result.get("deviation") is not None]
    if not deviations:
        return text
    ends = dict.fromkeys(fmt.deviation(end) for end in (min(deviations), max(deviations)))
    return f"{text}, {' to '.join(ends)}"


def _together(verdicts: Sequence[str], could: bool) -> str:
    """Return the verdict on several instances: the worst, or where one is enough the best that is known."""
    if could and "holds" in verdicts:
        return "holds"
    if could and "cannot tell" in verdicts:
        return "cannot tell"
    return next(verdict for verdict in VERDICTS if verdict in verdicts)


def _range(comparison: Mapping[str, Any], could: bool) -> str:
    """Return "0.93 to 1.08; 6 of 7 hold; fails: gzip 6"."""
    results = comparison["results"]
    values = [result["value"] for result in results if result.get("value") is not None]
    held = sum(result["verdict"] == "holds" for result in results)
    # Where nothing was measured, nothing is counted.
    counted = f"{held} of {len(results)} hold{'s' * (held == 1)}"
    told = [f"{counted}{', and one is enough' if could and held else ''}"][: len(values)]
    if values and all(map(math.isfinite, values)):
        unit, exact = comparison["unit"], comparison.get("exact", False)
        ends = [text.number(end, unit, exact) for end in (min(values), max(values))]
        told.insert(0, " to ".join(dict.fromkeys(ends)))
    failing = [result["says"] for result in results if result["verdict"] == "fails"]
    if 0 < len(failing) <= MOST_NAMED and len(failing) < len(results):
        apart = _apart([result["says"] for result in results])
        told.append(f"fail{'s' * (len(failing) == 1)}: {'; '.join(apart[says] for says in failing)}")
    return "; ".join(told)


def _apart(says: Sequence[str]) -> dict[str, str]:
    """Return for each of several texts the parts between commas that not all of them have."""
    parts = {each: each.split(", ") for each in says}
    common = set.intersection(*(set(own) for own in parts.values()))
    return {
        each: ", ".join(part for part in own if part not in common) or each for each, own in parts.items()
    }
