"""Study idx-resolution, small, from end to end: every way of having levels on one page, and in a mix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from clones import make_clone

pytestmark = pytest.mark.slow

CHUNKS = {"chunks": [8, 8, 16]}
LAYOUTS: dict[str, dict[str, Any]] = {
    "strided": CHUNKS,
    "means": {**CHUNKS, "pyramid": {"levels": 2, "by": "averaging"}},
    "zarr-levels": {"format": "zarr", **CHUNKS, "pyramid": {"levels": 3}},
    "idx": {"format": "idx", "bits_per_block": 10, "blocks_per_file": 16},
}
CASES = {
    "view": {"resolution": {"time": 16}, "level": 3, "picture": ["lat", "lon"]},
    "write": {"write": "whole", "repeats": {"write": 1}},
}


def test_the_study_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    axes = np.meshgrid(*(np.linspace(0, 3, size) for size in (20, 30, 50)), indexing="ij")
    np.save(tmp_path / "donor.npy", np.sin(axes[0] + axes[1] * axes[2]).astype("float32"))
    monkeypatch.setenv("HYPERSLAB_DONOR", str(tmp_path / "donor.npy"))
    workplace = make_clone(tmp_path / "clone")
    workplace.write_study("small", {
        "extends": "idx-resolution", "dataset": {"shape": [32, 40, 100]}, "layouts": LAYOUTS, "cases": CASES,
        "rounds": 1, "repeats": {"cold": 2, "warm": 2}, "tradeoff": [], "claims": {},
        "recommendation": {"mix": {"view": 2, "write": 1}, "size_bound": 3, "confirm_rounds": 0},
    })  # fmt: skip
    page = workplace.build("results/small/report.html")
    assert "Traceback" not in page
    here = workplace.directory / "results" / "small"
    table = pd.read_parquet(here / "measurements.parquet")
    views = table[table["case"] == "view"]
    assert set(views["layout"]) == {*LAYOUTS} and (views["first_picture_s"] > 0).all()
    # In memory a cold read is one that the library alone has nothing of.
    cold = views[views["state"].str.endswith("cold")]
    assert (cold["first_requested_bytes"] == cold["first_requested_predicted_bytes"]).all()
    assert [one["level"] for one in json.loads(views["levels"].iloc[0])] == [3, 2, 1, 0]
    pyramids = table[table["pyramid_bytes"].notna()]
    assert set(pyramids["layout"]) == {"means", "zarr-levels"}
    assert (pyramids["pyramid_bytes"] == pyramids["pyramid_predicted_bytes"]).all()
    html = (here / "report.html").read_text(encoding="utf-8")
    assert "Level by level: view" in html and "Coarser levels, bytes" in html
    assert (here / "figures/disk/resolution-view.svg").stat().st_size > 10_000
    (site,) = json.loads((here / "recommendation.json").read_text(encoding="utf-8"))["sites"]
    assert set(site["shares"]) == {f"view {cold['state'].iloc[0]}", "write write"} and site["pick"] in LAYOUTS
