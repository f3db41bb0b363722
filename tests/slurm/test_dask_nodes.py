"""Dask workers inside a real Slurm job: started by srun on both of its nodes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import yaml
from clones import make_clone
from own_environments import interpreter

from cluster import missing, running_cluster
from hyperslab.layouts.environments import OF_WORKERS

pytestmark = [pytest.mark.slurm, pytest.mark.slow]
STUDY = {
    "title": "Days shared by two nodes",
    "dataset": {
        "axes": ["day", "lat", "lon"],
        "shape": [40, 45, 90],
        "dtype": "float32",
        "fill": "daily-grid",
        "collection": {"along": "day", "first": "2016-02-20"},
    },
    "layouts": {"month": {"files": "month"}},
    "cases": {"days": {"summaries": {"day": "all"}, "dask": [2], "states": ["cold", "warm"]}},
    "sites": ["cluster"],
    "rounds": 1,
    "repeats": {"cold": 1, "warm": 1},
    "recommendation": {"confirm_rounds": 0},
}
REPORT = "results/days/report.html"


def test_workers_on_two_nodes_share_the_days(require: Callable[[str | None], None]) -> None:
    require(missing())
    environment = Path(interpreter(OF_WORKERS["dask"], require)).parents[1]
    # A short path: pytest's own may be too long for a step's socket.
    with tempfile.TemporaryDirectory(prefix="hs-") as name:
        directory = Path(name)
        clone = make_clone(directory / "clone")
        clone.write_study("days", STUDY)
        (clone.directory / ".venv-releases").mkdir()
        (clone.directory / ".venv-releases" / environment.name).symlink_to(environment)
        main = {"executor": "slurm", "partition": "main", "memory_mb": 3000, "minutes": 20, "nodes": 2}
        sites = {
            "platforms": {"main": main},
            "file_systems": {"shared": {"root": str(directory / "files")}},
            "sites": {"cluster": {"platform": "main", "file_system": "shared"}},
        }
        (clone.directory / "sites.yaml").write_text(yaml.safe_dump(sites), encoding="utf-8")
        profile = clone.directory / "profiles" / "slurm" / "config.yaml"
        settings = yaml.safe_load(profile.read_text(encoding="utf-8"))
        settings |= {"slurm-status-command": "squeue", "slurm-init-seconds-before-status-checks": 5}
        profile.write_text(yaml.safe_dump({**settings, "latency-wait": 5, "retries": 0}), encoding="utf-8")
        words = ["snakemake", "--profile", "profiles/slurm", "--config", "sites=sites.yaml", "--", REPORT]
        with running_cluster(directory / "slurm"):
            done = subprocess.run(
                [sys.executable, "-m", *words],
                cwd=clone.directory, capture_output=True, text=True, timeout=400, check=False,
            )  # fmt: skip
            logs = "".join(file.read_text() for file in (clone.directory / "results").rglob("*.log"))
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:] + logs[-3000:]
        table = pd.read_parquet(clone.directory / "results/days/measurements.parquet")
        assert set(table["case"]) == {"days-2d"} and (table["processes"] == 2).all()
        assert not list((directory / "files").rglob("*.h5*"))
