"""The rule of a recommendation: expected time or largest regret, with a floor."""

from __future__ import annotations

import numpy as np
import pytest

from hyperslab.results.rule import objective

# Two requests of three layouts, the first of which nobody notices.
TIMES = [np.array([0.001, 0.009, 0.020]), np.array([0.4, 0.2, 0.1])]


@pytest.mark.parametrize(
    ("shares", "expected"),
    [([0.75, 0.25], [0.1075, 0.0575, 0.04]), (None, [4.0, 2.0, 2.0])],
    ids=["mix", "regret"],
)
def test_times_under_the_floor_count_as_the_floor(shares: list[float] | None, expected: list[float]) -> None:
    assert objective(TIMES, shares, [0.001, 0.1], 0.01) == pytest.approx(expected)


@pytest.mark.parametrize("shares", [[0.5, 0.5], None], ids=["mix", "regret"])
def test_what_is_not_known_is_not_small(shares: list[float] | None) -> None:
    judged = objective([np.array([np.nan, 1.0]), np.array([1.0, 1.0])], shares, [1.0, 1.0], 0.01)
    assert np.isnan(judged).tolist() == [True, False]
