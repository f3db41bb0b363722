"""Advice for a file from the command to the page: predicted, written, measured and told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from clones import make_clone

READS = "image: [all, all, 1]; 3 x spectrum: [1, 1, all]"


@pytest.mark.slow
def test_a_file_and_its_reads_become_a_page_with_a_verified_pick(tmp_path: Path) -> None:
    clone = make_clone(tmp_path / "clone")
    values = np.random.default_rng(0).poisson(1.0, (20, 30, 200)).astype("uint16")
    with h5py.File(tmp_path / "mine.h5", "w") as file:
        file.create_dataset("counts", data=values, chunks=(1, 1, 200), compression="gzip")
    done = subprocess.run(
        [sys.executable, "-m", "hyperslab.advise", f"{tmp_path}/mine.h5::/counts", "--reads", READS],
        cwd=clone.directory,
        env={**os.environ, "PYTHONPATH": "workflow/scripts"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    study = done.stdout.strip()
    assert study == "advice-mine"
    clone.build(f"results/{study}/advice.html")
    results = clone.directory / "results" / study
    page = (results / "advice.html").read_text(encoding="utf-8")
    foretold = json.loads((results / "prediction.json").read_text(encoding="utf-8"))
    (site,) = json.loads((results / "recommendation.json").read_text(encoding="utf-8"))["sites"]
    measured = {entry["layout"] for entry in site["ranking"]}
    assert site["pick"] in measured == {entry["layout"] for entry in foretold["measured"]}
    assert site["pick"] in page and "predicted" in page and "data:image/svg+xml" in page
    assert clone.planned(f"results/{study}/advice.html") == {}
