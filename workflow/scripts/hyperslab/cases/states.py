"""The states of a case, one after the other; what could not be brought into a state yields nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from hyperslab.measuring.pagecache import NotInState


def each_state(
    asked: Collection[str], states: Iterable[str], measure: Callable[[str], None], rows: list[Any]
) -> dict[str, str]:
    """Measure those of `states` that are asked for, in their order; returns why which could not be had.

    What such a state has added to `rows` is dropped: part of a state is not a sample of it.
    """
    skipped = {}
    for state in states:
        if state in asked:
            before = len(rows)
            try:
                measure(state)
            except NotInState as reason:
                del rows[before:]
                skipped[state] = str(reason)
    return skipped
