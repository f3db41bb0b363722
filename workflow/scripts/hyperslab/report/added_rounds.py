"""Which rounds were added beyond the first, for which comparisons, and why there are no more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperslab import text as fmt
from hyperslab.report.data import Data
from hyperslab.report.model import Check, table
from hyperslab.results.comparisons import ALPHA
from hyperslab.results.looks import level

NAME = "Added rounds"


def added_rounds(data: Data) -> list[Check]:
    """Return how many rounds each comparison had and why it has no more; nothing where none are added."""
    found = data.rounds
    if found is None:
        return []
    listed = found["comparisons"]
    open_ = [entry for entry in listed if entry["open"]]
    total = fmt.count(len(listed), "comparison")
    further = sum(entry["rounds"] > found["first"] for entry in listed)
    cost = (
        f"Looked at after {fmt.listing(map(str, found['looks']))} rounds, at a level of "
        f"{fmt.percent(level(found['first'], found['most'], ALPHA), 2)} each, so that all looks together err "
        f"at {fmt.percent(ALPHA, 0)}. Tables of speeds and speed-ups leave that out: their intervals are of "
        "95 % each."
    )
    if open_:
        state = f"{len(open_):,} of {total} {'are' if len(open_) > 1 else 'is'} still open."
    else:
        state = _decided(len(listed), further)
    columns = ["Site", "Comparison", "#Rounds", "Why no more"]
    rows = [_row(entry) for entry in sorted(listed, key=lambda entry: not entry["open"])]
    note = "Rounds: those that all cells of the comparison have in common."
    shown = table("Rounds of each comparison", columns, rows, note, folded=True)
    return [Check(NAME, f"{state} {cost}", "bad" if open_ else "good", [shown])]


def _row(entry: Mapping[str, Any]) -> list[Any]:
    return [fmt.listing(entry["sites"]), entry["says"], entry["rounds"], entry["why"]]


def _decided(number: int, further: int) -> str:
    """Return that all comparisons are decided, and how many of them took more than the first rounds."""
    if number < 2:
        took = "more than " if further else ""
        decided = f"The only comparison is decided, in {took}the first rounds."
        return decided if number else "There are no comparisons to decide."
    return f"All of {number:,} comparisons are decided, {further:,} of them in more than the first rounds."
