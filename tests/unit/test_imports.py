"""What modules import that are imported themselves, one after the other: what all need takes a second."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parents[2] / "workflow" / "scripts"
PROGRAM = """
import importlib, sys

def without(*unwanted):
    found = sys.modules.keys() & {*unwanted}
    assert not found, found

figures = importlib.import_module("hyperslab.studies.figures")
figures.names({"cases": {}, "grids": [], "score": False, "tradeoff": []})
# Names need no plotting.
without("pandas", "matplotlib", "seaborn", "hyperslab.figures")
for module in ("results.statistics", "results.recommend", "claims.evaluate", "report.build", "report.render"):
    importlib.import_module(f"hyperslab.{module}")
    # Tables, verdicts and pages do without the import of a second.
    without("scipy.stats")
for kind in ("canvas", *figures.CAPTIONS):
    importlib.import_module(f"hyperslab.figures.{kind}")
# Drawing needs no measuring.
without("h5py", "snakemake")
"""


def test_what_is_made_of_results_imports_no_more_than_it_needs() -> None:
    environment = {**os.environ, "PYTHONPATH": str(SCRIPTS)}
    subprocess.run([sys.executable, "-c", PROGRAM], env=environment, timeout=120, check=True)
