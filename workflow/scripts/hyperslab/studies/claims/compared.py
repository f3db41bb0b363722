"""Which cells a resolved claim compares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def cells_of(comparison: Mapping[str, Any], instance: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield (side, layout, case) of one atomic comparison: of both sides, or of the layouts with marks."""
    for side in ("a", "b"):
        for cell in instance.get(side, ()):
            yield from ((side, layout, case) for _, case, layout, _, _ in cell["terms"])
    if "pool" in instance:
        ranked = instance["pool"] if comparison["kind"] == "matched_marks" else instance["layouts"]
        cases = [entry["case"] for entry in comparison["score"]["criteria"] if entry.get("case")]
        yield from (("a", layout, case) for layout in ranked for case in cases)


def compared(claim: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Return (layout, case) of the cells that a claim compares."""
    return {
        (layout, case)
        for comparison in claim["comparisons"]
        for instance in comparison["instances"]
        for _, layout, case in cells_of(comparison, instance)
    }


def candidates(
    claims: Iterable[Mapping[str, Any]], picked: Iterable[tuple[str, str]]
) -> set[tuple[str, str]]:
    """Return the (layout, case) cells that some comparison of a study can ever need more rounds of.

    `picked` are those that a recommendation is made of.
    """
    cells = set(picked)
    for claim in claims:
        for comparison in claim["comparisons"]:
            if comparison["judged"] and not comparison["exact"]:
                for instance in comparison["instances"]:
                    cells |= {(layout, case) for _, layout, case in cells_of(comparison, instance)}
    return cells
