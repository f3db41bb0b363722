"""When two copies of an array in one file pay, predicted or measured."""

from __future__ import annotations

import math
from collections.abc import Mapping

# They have to be better than the best single layout by this factor, or nobody would keep both.
PAYS = 1.25
# Between the names of the two in that of the layout which has both.
AND = "-and-"


def geometric_mean(times: Mapping[str, float], weights: Mapping[str, float], floor_s: float) -> float:
    """Return the weighted geometric mean of seconds, each at least the floor."""
    total = sum(weights[name] for name in times)
    logs = sum(weights[name] * math.log(max(floor_s, seconds)) for name, seconds in times.items())
    return math.exp(logs / total)


def gain(
    single: Mapping[str, float], pair: Mapping[str, float], weights: Mapping[str, float], floor_s: float
) -> float:
    """Return how many times as fast reads of `pair` are, as weighted geometric mean of seconds."""
    one = {name: single[name] for name in pair}
    return geometric_mean(one, weights, floor_s) / geometric_mean(pair, weights, floor_s)
