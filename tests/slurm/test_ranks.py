"""MPI ranks inside a real Slurm job, on two nodes: the same study as with mpirun, started by srun."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from clones import REPOSITORY

from slurm_clones import NODES, look_early, make_slurm_clone, short_lived_cluster

pytestmark = [pytest.mark.slurm, pytest.mark.mpi, pytest.mark.slow]
STUDY = {
    "title": "Tiny parallel access",
    "dataset": {"axes": ["dataset", "element"], "shape": [2, 8192], "dtype": "uint32"},
    "layouts": {"contiguous": None, "idx": {"format": "idx", "bits_per_block": 8}},
    "cases": {
        "all": {
            "parallel": {"datasets": 2, "bytes": 16384, "transfer": 4096},
            "ranks": [2],
            "layouts": ["contiguous"],
        },
        "volumes": {
            "subvolumes": {"along": "dataset", "ways": ["aggregated", "plain"]},
            "ranks": [2],
            "layouts": ["idx"],
        },
    },
    "sites": ["cluster"],
    "rounds": 1,
    "repeats": {"cold": 1, "warm": 1, "write": 1},
    "recommendation": {"confirm_rounds": 0},
}
REPORT = "results/parallel/report.html"


def srun(python: Path) -> str:
    """What starts ranks of this Python in a step: MPICH speaks PMI 2, Open MPI PMIx."""
    asked = "from mpi4py import MPI; print(MPI.Get_library_version())"
    quiet = {**os.environ, "MPI4PY_RC_INITIALIZE": "0"}
    said = subprocess.run([python, "-c", asked], env=quiet, capture_output=True, text=True, check=True).stdout
    return f"srun --overlap --mpi={'pmix' if 'Open MPI' in said else 'pmi2'}"


def test_a_study_of_ranks_runs_in_a_batch_job(require: Callable[[str | None], None], tmp_path: Path) -> None:
    made = REPOSITORY / ".venv-mpi" / "made"
    said = made.read_text(encoding="utf-8").strip() if made.exists() else "it was not made (envs/create-mpi)"
    require(None if said == "ready" else f"no environment of MPI ranks: {said}")
    clone = make_slurm_clone(
        tmp_path / "clone",
        {"main": {**NODES, "nodes": 2, "partition": "main", "memory_mb": 3000}},
        {"shared": {"root": str(tmp_path / "files")}},
        {"cluster": ("main", "shared")},
    )
    look_early(clone)
    clone.write_study("parallel", STUDY)
    (clone.directory / ".venv-mpi").symlink_to(made.parent)
    launcher = f"mpi={srun(clone.directory / '.venv-mpi' / 'bin' / 'python')}"
    with short_lived_cluster(require):
        clone.build("--config", launcher, "--", REPORT)
    table = pd.read_parquet(clone.directory / "results/parallel/measurements.parquet")
    ways = {f"volumes-{way}-2r" for way in ("aggregated", "plain")}
    apis = {f"all-{api}-2r" for api in ("hdf5", "mpiio", "posix", "file-per-process")}
    assert {*table["case"]} == apis | ways
    assert (table["processes"] == 2).all() and {*table["node"]} <= {"n1", "n2"}
    assert not list((tmp_path / "files").rglob("*.h5*"))
