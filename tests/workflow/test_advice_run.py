"""Advice for a file from the command to the page: predicted, written, measured and told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401 (its filters, by which the copies are stored)
import numpy as np
import pytest
from clones import make_clone

READS = "image: [all, all, 1]; 3 x spectrum: [1, 1, all]"


@pytest.mark.slow
def test_a_file_and_its_reads_become_a_page_with_a_verified_pick(tmp_path: Path) -> None:
    clone = make_clone(tmp_path / "clone")
    values = np.random.default_rng(0).poisson(1.0, (40, 50, 500)).astype("uint16")
    with h5py.File(tmp_path / "mine.h5", "w") as file:
        file.create_dataset("RD/counts", data=values, chunks=(1, 1, 500), compression="gzip")
    done = subprocess.run(
        [sys.executable, "-m", "hyperslab.advise", f"{tmp_path}/mine.h5::/RD/counts", "--reads", READS]
        # Two copies without filters fit, however slow these are beside other work.
        + ["--copies", "yes", "--size-bound", "2.5"],
        cwd=clone.directory,
        env={**os.environ, "PYTHONPATH": "workflow/scripts"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    study = done.stdout.strip()
    assert study == "advice-mine"
    results = clone.directory / "results" / study
    foretold = json.loads((results / "prediction.json").read_text(encoding="utf-8"))
    both = foretold["sites"]["disk"]["copies"]
    # The advice, and the file with two copies, which were measured beside the others.
    page_and_copies = [f"results/{study}/advice.html", f"results/{study}/layout/{both['layout']}.h5"]
    clone.build(*page_and_copies)
    page = (results / "advice.html").read_text(encoding="utf-8")
    (site,) = json.loads((results / "recommendation.json").read_text(encoding="utf-8"))["sites"]
    measured = {entry["layout"] for entry in site["ranking"]}
    assert site["pick"] in measured == {entry["layout"] for entry in foretold["sites"]["disk"]["measured"]}
    assert site["pick"] in page and "predicted" in page and "data:image/svg+xml" in page
    assert clone.planned(*page_and_copies) == {}
    with h5py.File(results / "layout" / f"{both['layout']}.h5") as file:
        copies = [file["RD/counts"], file["RD/counts-second"]]
        assert all(np.array_equal(one[...], values) for one in copies)
        served = dict(zip((one.attrs["for_reads"] for one in copies), copies, strict=True))
        assert {name for names in served for name in names.split(", ")} == {"image", "spectrum"}
    # What reads one layout in one round has written it once, where the file is the same for both reads.
    records = [json.loads(file.read_text()) for file in (results / "cells").rglob("*.json")]
    written = [record for record in records if "generate_s" in record["writer"]]
    layouts = len(foretold["sites"]["disk"]["measured"])
    first = [record for record in written if record["specification"]["round"] in ("r0", "r1", "r2")]
    assert len(first) == 3 * (layouts + 1) and not list((clone.directory / "testfiles").rglob("*.h5"))


@pytest.mark.slow
def test_a_study_that_asks_for_advice_becomes_the_page_and_a_dry_run_says_what_comes_first(
    tmp_path: Path,
) -> None:
    clone = make_clone(tmp_path / "clone")
    fill = {"axes": ["t", "y", "x"], "shape": [40, 32, 32], "dtype": "uint16", "fill": "counts"}
    asked = {"dataset": fill, "reads": {"frame": {"t": 1}}, "sites": ["disk"], "state": "warm"}
    clone.write_study("advice-plan", {"advise": {**asked, "seconds": 60}})
    target = "results/advice-plan/advice.html"
    dry = clone.run("--dry-run", target)
    assert dry.returncode and "its sites have not been probed" in dry.stderr
    assert not (clone.directory / "results").exists()
    clone.build(target)
    page = (clone.directory / target).read_text(encoding="utf-8")
    assert "The times are of warm reads" in page and "Nobody said how it is read" not in page
    # As it was asked, nothing is left to do; asked otherwise, it is probed again. Nobody says how long that
    # may take, since a busy machine needs longer.
    assert clone.planned(target) == {}
    clone.write_study("advice-plan", {"advise": {**asked, "size_bound": 0.0001}})
    refused = clone.run(target)
    assert refused.returncode and "no layout is predicted" in refused.stderr
