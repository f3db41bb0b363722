"""The rule of a recommendation: what layouts are judged by, predicted or measured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def objective(
    times: Iterable[Any], shares: Iterable[float] | None, best: Iterable[float], floor_s: float
) -> Any:
    """Return what is to be least: the expected seconds of a mix, or without shares the largest regret, which
    is a time over that of the best layout.

    `times` has the seconds of each request that counts, as a number or as arrays of one shape (of layouts, of
    layouts x rounds), which the result has, too. `shares` say how often each is asked and add up to 1; `best`
    has the seconds of the best layout for each and counts without shares alone. What takes less than
    `floor_s` counts as that, because nobody notices the difference. Where a time is NaN, so is the result:
    what is not known is not small.
    """
    counted = [np.maximum(floor_s, each) for each in times]
    if shares is not None:
        return sum(share * each for share, each in zip(shares, counted, strict=True))
    return np.maximum.reduce([each / max(floor_s, least) for each, least in zip(counted, best, strict=True)])
