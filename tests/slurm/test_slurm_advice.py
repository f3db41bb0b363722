"""Advice for a file whose site is a cluster's: probed on a node through srun, measured in a batch job."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from slurm_clones import NODES, Clusters, look_early, make_slurm_clone

pytestmark = [pytest.mark.slurm, pytest.mark.slow]
READS = "image: [all, all, 1]"


def test_a_site_of_a_cluster_is_probed_and_measured_on_its_nodes(tmp_path: Path, clusters: Clusters) -> None:
    clone = make_slurm_clone(
        tmp_path / "clone",
        {"main": {**NODES, "partition": "main"}},
        {"shared": {"root": str(tmp_path / "files")}},
        {"cluster": ("main", "shared")},
    )
    look_early(clone)
    values = np.random.default_rng(0).poisson(1.0, (20, 30, 200)).astype("uint16")
    with h5py.File(tmp_path / "mine.h5", "w") as file:
        file.create_dataset("counts", data=values, chunks=(1, 1, 200), compression="gzip")
    command = [sys.executable, "-m", "hyperslab.advise", f"{tmp_path}/mine.h5::/counts", "--reads", READS]
    variables = {**os.environ, "PYTHONPATH": "workflow/scripts"}
    results = clone.directory / "results" / "advice-mine"
    cluster = clusters.of()
    asked = subprocess.run(
        command, cwd=clone.directory, env=variables, capture_output=True, text=True, check=False
    )
    assert asked.returncode == 0, asked.stderr[-3000:]
    # The job of srun, which has probed; those of other tests have other names.
    jobs = cluster.run("scontrol", "show", "job").split("\n\n")
    (probed,) = [job for job in jobs if "JobName=python" in job]
    assert "JobState=COMPLETED" in probed
    made = results / "study.yaml"
    text, count = re.subn(r"^rounds: .*$", "rounds: 2", made.read_text(encoding="utf-8"), flags=re.M)
    assert count == 1
    # How many rounds are added depends on the time that is left: test_slurm_adaptive.py has some added.
    made.write_text(text, encoding="utf-8")
    clone.build("results/advice-mine/advice.html")
    foretold = json.loads((results / "prediction.json").read_text(encoding="utf-8"))
    (site,) = json.loads((results / "recommendation.json").read_text(encoding="utf-8"))["sites"]
    assert site["site"] == "cluster"
    assert site["pick"] in {entry["layout"] for entry in foretold["sites"]["cluster"]["measured"]}
    assert site["pick"] in (results / "advice.html").read_text(encoding="utf-8")
    records = [json.loads(file.read_text()) for file in (results / "cells").rglob("*.json")]
    # Slurm's names of the nodes are not this machine's.
    assert records and platform.node() not in {record["machine"]["node"] for record in records}
