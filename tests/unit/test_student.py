"""Student's t: the same numbers as scipy.stats."""

from __future__ import annotations

import numpy as np
import scipy

from hyperslab.results import student


def test_values_are_those_of_scipy_to_the_last_bit() -> None:
    chance = np.random.default_rng(1)
    freedom = np.concatenate([[1.0, 2.0, np.inf, 0.0, np.nan, 1e9], chance.uniform(0.3, 500, 5000)])
    probability = np.concatenate([[0.5, 1e-12, 0.025, 0.025, 0.025, 1.0], chance.uniform(1e-9, 1, 5000)])
    values = np.concatenate([[0.0, -np.inf, np.nan, 3.0, 3.0, np.inf], chance.normal(0, 10, 5000)])
    t = scipy.stats.t
    np.testing.assert_array_equal(student.quantile(probability, freedom), t.ppf(probability, freedom))
    np.testing.assert_array_equal(student.critical(probability, freedom), t.isf(probability, freedom))
    np.testing.assert_array_equal(student.above(values, freedom), t.sf(values, freedom))
