"""Dask workers inside a real Slurm job: on both of its nodes, and what is left when one of them is killed."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from clones import REPOSITORY, Clone
from own_environments import interpreter, variables
from samples import prepared

from cluster import Cluster
from cluster_processes import wait_until
from hyperslab.layouts.environments import OF_WORKERS
from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.studies.specification import text
from slurm_clones import NODES, Clusters, look_early, make_slurm_clone

pytestmark = [pytest.mark.slurm, pytest.mark.slow]
# Fewer and smaller days, in files of months.
STUDY: dict[str, Any] = {
    "extends": "ncep-workers",
    "dataset": {"shape": [40, 45, 90]},
    "layouts": {"month": {"files": "month"}},
    "sites": ["cluster"],
    "rounds": 1,
    "repeats": {"cold": 1, "warm": 1},
}
CASE = {"summaries": {"day": "all"}, "dask": [2], "states": ["warm"], "repeats": {"warm": 10**5}}
SECONDS = 180
TABLE = "results/days/measurements.parquet"


@pytest.fixture(scope="module")
def environment(require: Callable[[str | None], None]) -> Path:
    """The environment that has Dask, made from its lock where it is not there."""
    return Path(interpreter(OF_WORKERS["dask"], require)).parents[1]


@pytest.fixture(scope="module")
def cluster(clusters: Clusters, environment: Path) -> Cluster:
    return clusters.of()


@pytest.fixture
def clone(tmp_path: Path, environment: Path) -> Clone:
    """A clone with a site of two nodes at once."""
    made = make_slurm_clone(
        tmp_path / "clone",
        {"main": {**NODES, "nodes": 2, "partition": "main", "memory_mb": 3000}},
        {"shared": {"root": str(tmp_path / "files")}},
        {"cluster": ("main", "shared")},
    )
    look_early(made)
    (made.directory / ".venv-releases").mkdir()
    (made.directory / ".venv-releases" / environment.name).symlink_to(environment)
    return made


@pytest.mark.usefixtures("cluster")
def test_workers_on_two_nodes_share_the_days(clone: Clone, tmp_path: Path) -> None:
    clone.write_study("days", STUDY)
    clone.build("--", TABLE)
    table = pd.read_parquet(clone.directory / TABLE)
    nodes = table.groupby("case")["nodes"].agg(set)
    assert set(nodes.index) == {"summaries-1p", "summaries-2p", "summaries-1d", "summaries-2d"}
    assert nodes["summaries-2d"] == {"n1 n2"}
    assert all(nodes[case] in ({"n1"}, {"n2"}) for case in nodes.index.drop("summaries-2d"))
    assert (table[table["case"] == "summaries-2d"]["processes"] == 2).all()
    # Nor what Dask writes by itself, on either node.
    assert not [file for file in (tmp_path / "files").rglob("*") if "days" in str(file)]


def dask_workers(cluster: Cluster) -> dict[str, list[int]]:
    """Node -> the workers of Dask that run there."""
    found: dict[str, list[int]] = {}
    for process in cluster.processes("job"):
        try:
            words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
            told = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"distributed.cli.dask_worker" in words and not words[0].endswith(b"srun"):
            (node,) = (word.partition(b"=")[2] for word in told if word.startswith(b"SLURMD_NODENAME="))
            found.setdefault(node.decode(), []).append(process)
    return found


@pytest.mark.faults
def test_a_worker_killed_on_the_other_node_fails_the_cell_with_one_line(
    cluster: Cluster, clone: Clone, tmp_path: Path
) -> None:
    changed = {"cases": {"summaries": CASE}, "recommendation": {"confirm_rounds": 0}}
    clone.write_study("days", {**STUDY, **changed})
    study = PlannedStudy(clone.directory / "config/studies/days.yaml")
    spec = yaml.safe_load(study.cell_text("month", "summaries-2d", "r0"))
    with prepared(tmp_path) as root:
        artifact, record, said = root / "days/month/one.r0", tmp_path / "record.json", tmp_path / "said"
        told = ["--specification", text(spec), "--artifact", str(artifact)]
        places = f"PYTHONPATH={variables()['PYTHONPATH']}"
        commands = [
            ["env", places, sys.executable, "-m", f"hyperslab.{program}", *told, *more]
            for program, more in (("generate", []), ("measure", ["--record", str(record), "--site", "here"]))
        ]
        # As in a batch, whoever measures is a step on one node.
        script = " && ".join(f"srun --nodes=1 --ntasks=1 {shlex.join(words)}" for words in commands)
        asked = ["--nodes=2", "--ntasks=2", "--chdir", str(REPOSITORY), "--output", str(said)]
        cluster.run("sbatch", *asked, "--wrap", script)
        assert wait_until(lambda: set(dask_workers(cluster)) == {"n1", "n2"}, SECONDS), said.read_text()
        measuring = next(
            node
            for node in ("n1", "n2")
            if any(_measures(process, node) for process in cluster.processes("job"))
        )
        workers = dask_workers(cluster)
        (other,) = workers.keys() - {measuring}
        os.kill(workers[other][0], signal.SIGKILL)
        assert wait_until(lambda: not cluster.run("squeue", "--noheader").strip(), SECONDS)
        (line,) = [line for line in said.read_text().splitlines() if line.startswith("hyperslab.measure: ")]
        assert "ChildProcessError: srun, which had started 2 Dask workers, ended with status" in line
        assert re.search(r"before its work was done: srun: error: \S+: task \d: Killed$", line), line
        assert not record.exists() and not dask_workers(cluster)
        assert not list(root.rglob("*dask*")) and not (root / "days").exists()


def _measures(process: int, node: str) -> bool:
    """Whether a process measures a cell on this node."""
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        told = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"hyperslab.measure" in words and f"SLURMD_NODENAME={node}".encode() in told
