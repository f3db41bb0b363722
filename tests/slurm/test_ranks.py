"""MPI ranks inside a real Slurm job: the same study as with mpirun, started by srun."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import yaml
from clones import REPOSITORY, make_clone

from cluster import missing, running_cluster

pytestmark = [pytest.mark.slurm, pytest.mark.mpi, pytest.mark.slow]
STUDY = {
    "title": "Tiny parallel access",
    "dataset": {"axes": ["dataset", "element"], "shape": [2, 8192], "dtype": "uint32"},
    "layouts": {"contiguous": None},
    "cases": {"all": {"parallel": {"datasets": 2, "bytes": 16384, "transfer": 4096}, "ranks": [2]}},
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


def test_a_study_of_ranks_runs_in_a_batch_job(require: Callable[[str | None], None]) -> None:
    made = REPOSITORY / ".venv-mpi" / "made"
    said = made.read_text(encoding="utf-8").strip() if made.exists() else "it was not made (envs/create-mpi)"
    require(missing() or (None if said == "ready" else f"no environment of MPI ranks: {said}"))
    # A short path: pytest's own may be too long for a step's socket.
    with tempfile.TemporaryDirectory(prefix="hs-") as name:
        directory = Path(name)
        clone = make_clone(directory / "clone")
        clone.write_study("parallel", STUDY)
        (clone.directory / ".venv-mpi").symlink_to(made.parent)
        sites = {
            "platforms": {
                "main": {"executor": "slurm", "partition": "main", "memory_mb": 3000, "minutes": 20}
            },
            "file_systems": {"shared": {"root": str(directory / "files")}},
            "sites": {"cluster": {"platform": "main", "file_system": "shared"}},
        }
        (clone.directory / "sites.yaml").write_text(yaml.safe_dump(sites), encoding="utf-8")
        profile = clone.directory / "profiles" / "slurm" / "config.yaml"
        settings = yaml.safe_load(profile.read_text(encoding="utf-8"))
        settings |= {"slurm-status-command": "squeue", "slurm-init-seconds-before-status-checks": 5}
        profile.write_text(yaml.safe_dump({**settings, "latency-wait": 5, "retries": 0}), encoding="utf-8")
        launcher = f"mpi={srun(clone.directory / '.venv-mpi' / 'bin' / 'python')}"
        words = ["snakemake", "--profile", "profiles/slurm", "--config", "sites=sites.yaml", launcher]
        with running_cluster(directory / "slurm"):
            done = subprocess.run(
                [sys.executable, "-m", *words, "--", REPORT],
                cwd=clone.directory, capture_output=True, text=True, timeout=400, check=False,
            )  # fmt: skip
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        table = pd.read_parquet(clone.directory / "results/parallel/measurements.parquet")
        assert {*table["case"]} == {f"all-{api}-2r" for api in ("hdf5", "mpiio", "posix", "file-per-process")}
        assert (table["processes"] == 2).all() and {*table["node"]} <= {"n1", "n2"}
        assert not list((directory / "files").rglob("*.h5*"))
