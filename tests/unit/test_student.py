"""Student's t: the same numbers as scipy.stats, without its import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from hyperslab.results import student

PACKAGE = Path(__file__).parents[2] / "workflow" / "scripts"


def test_values_are_those_of_scipy_to_the_last_bit() -> None:
    chance = np.random.default_rng(1)
    freedom = np.concatenate([[1.0, 2.0, np.inf, 0.0, np.nan, 1e9], chance.uniform(0.3, 500, 5000)])
    probability = np.concatenate([[0.5, 1e-12, 0.025, 0.025, 0.025, 1.0], chance.uniform(1e-9, 1, 5000)])
    values = np.concatenate([[0.0, -np.inf, np.nan, 3.0, 3.0, np.inf], chance.normal(0, 10, 5000)])
    np.testing.assert_array_equal(student.quantile(probability, freedom), stats.t.ppf(probability, freedom))
    np.testing.assert_array_equal(student.critical(probability, freedom), stats.t.isf(probability, freedom))
    np.testing.assert_array_equal(student.above(values, freedom), stats.t.sf(values, freedom))


@pytest.mark.parametrize(
    "modules",
    [
        "results.statistics, hyperslab.results.recommend",
        "claims.evaluate",
        "report.build, hyperslab.report.render",
    ],
)
def test_tables_verdicts_and_pages_do_without_the_import_of_a_second(modules: str) -> None:
    code = f"import sys, hyperslab.{modules}; sys.exit('scipy.stats' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    assert (
        subprocess.run([sys.executable, "-c", code], env=environment, timeout=120, check=False).returncode
        == 0
    )
