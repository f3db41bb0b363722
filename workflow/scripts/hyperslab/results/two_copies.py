"""When two copies of an array in one file pay, predicted or measured."""

from __future__ import annotations

import math
from collections.abc import Mapping

# They have to be better than the best single layout by this factor, or nobody would keep both.
PAYS = 1.25


def gain(
    single: Mapping[str, float], pair: Mapping[str, float], weights: Mapping[str, float], floor_s: float
) -> float:
    """Return how many times as fast reads of `pair` are, as weighted geometric mean of seconds."""
    total = sum(weights[name] for name in pair)
    logs = sum(
        weights[name] * math.log(max(floor_s, single[name]) / max(floor_s, pair[name])) for name in pair
    )
    return math.exp(logs / total)
