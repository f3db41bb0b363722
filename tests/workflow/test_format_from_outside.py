"""Formats registered by one line in each of two tables, from a dry run to the report."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import fake_formats
import pandas as pd
import pytest
from clones import TINY, Clone, make_clone

REPORT = "results/outside/report.html"
STUDY = {
    **TINY,
    "title": "Formats from outside",
    "layouts": {
        "4x4x64": {"chunks": [4, 4, 64]},
        "planes": {"format": "planes", "planes": 2},
        "served": {"format": "served", "planes": 2},
    },
    "cases": {
        "slices": {"read": {"z": 5}, "states": ["cold", "warm", "session"]},
        "spectra": {"read": {"x": 1, "y": 1}},
        "write": {"write": "spectra-block"},
        "variance": {"reduce": {"z": 16}, "processes": [1, 2], "split": "x"},
    },
    "tradeoff": ["slices", "spectra"],
    "rounds": 1,
    "recommendation": {"confirm_rounds": 0},
}


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A clone in which two lines register each format."""
    clone = make_clone(tmp_path_factory.mktemp("outside") / "clone")
    scripts = clone.directory / "workflow" / "scripts"
    kept = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(fake_formats.__file__).parent, scripts / "fake_formats", ignore=kept)
    for room, table, entries in (
        ("layouts", "FORMATS", fake_formats.LAYOUTS),
        ("formats", "MODULES", fake_formats.MODULES),
    ):
        with (scripts / "hyperslab" / room / "__init__.py").open("a", encoding="utf-8") as file:
            file.writelines(f'{table}["{name}"] = "{module}"\n' for name, module in entries.items())
    clone.write_study("outside", STUDY)
    return clone


def test_two_lines_bring_a_format_into_the_report(outside: Clone) -> None:
    assert outside.made(REPORT)["measure_disk"] == 3 * 5
    results = outside.directory / "results" / "outside"
    table = pd.read_parquet(results / "measurements.parquet")
    assert set(table["layout"]) == set(STUDY["layouts"])
    assert set(table["case"]) == {"slices", "spectra", "write", "variance-1p", "variance-2p"}
    assert not table["stale"].any()
    # In memory a cold read is one that the library alone has nothing of.
    cold = table[table["state"].str.endswith("cold") & (table["layout"] != "4x4x64")]
    assert len(cold) == 2 * 4 * 3
    assert (cold["requested_bytes"] == cold["requested_predicted_bytes"]).all()
    page = (results / "report.html").read_text(encoding="utf-8")
    assert "served" in page
    (site,) = json.loads((results / "recommendation.json").read_text(encoding="utf-8"))["sites"]
    assert site["pick"] in STUDY["layouts"]
    left = [path for path in (outside.directory / "testfiles").rglob("*") if path.suffix in (".raw", ".h5")]
    assert left == []
