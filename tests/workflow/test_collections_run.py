"""A collection through the whole workflow: one file a day, a month and one for all, from study to report."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from clones import Clone, make_clone

from hyperslab.records import read_record

pytestmark = pytest.mark.slow
STUDY: dict[str, Any] = {
    "title": "A tiny collection",
    "dataset": {
        "axes": ["day", "lat", "lon"],
        "shape": [12, 90, 180],
        "dtype": "float32",
        "fill": "daily-grid",
        "collection": {"along": "day", "first": "2016-02-24"},
    },
    "layouts": {"month": {"files": "month", "chunks": "unidata"}, "day": {"files": 1}},
    "cases": {
        "series": {"read": {"lat": 1, "lon": 1}, "states": ["cold"]},
        "days": {"summaries": {"day": "all"}, "processes": [2], "states": ["cold", "warm"]},
        "fetched": {"summaries": {"day": "all"}, "processes": [1], "fetch": True, "states": ["cold"]},
        "open": {"open_all": True},
    },
    "sites": ["disk"],
    "rounds": 1,
    "repeats": {"cold": 2, "warm": 2},
    "recommendation": {"confirm_rounds": 0},
}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A clone whose study `grids` was measured up to its report."""
    clone = make_clone(tmp_path_factory.mktemp("grids") / "clone")
    clone.write_study("grids", STUDY)
    clone.build("--", "results/grids/report.html")
    return clone


def test_every_case_has_its_rows(measured: Clone) -> None:
    table = pd.read_parquet(measured.directory / "results/grids/measurements.parquet")
    assert set(table["case"]) == {"series", "days-2p", "fetched-1p", "open"}
    files = table.groupby("layout")["files"].unique()
    assert {name: list(found) for name, found in files.items()} == {"day": [12], "month": [2]}
    fetched = table[table["case"] == "fetched-1p"]
    assert (fetched["fetch_s"] > 0).all() and table[table["case"] == "series"]["fetch_s"].isna().all()
    assert (table[table["case"] == "open"].groupby("layout")["calls"].max() == [12, 2]).all()
    assert not table["stale"].any()


def test_the_report_says_what_a_collection_is(measured: Clone) -> None:
    page = (measured.directory / "results/grids/report.html").read_text(encoding="utf-8")
    assert "a file for each" in page
    assert "daily-grid" in page
    record = read_record(measured.directory / "results/grids/cells/disk/day/series.r0.json")
    assert record["file"]["files"] == 12
    assert not list((measured.directory / "testfiles").rglob("*.h5"))
