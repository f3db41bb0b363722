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
    "layouts": {"contiguous": None},
    "cases": {"all": {"parallel": {"datasets": 2, "bytes": 16384, "transfer": 4096}, "ranks": [2]}},
    "sites": ["cluster"],
    "rounds": 1,
    "repeats": {"cold": 1, "warm": 1, "write": 1},
    "recommendation": {"confirm_rounds": 0},
}
# 64 KiB a rank.
WEAK = {
    "extends": "idx-weak",
    "dataset": {"shape": [64, 32, 32]},
    "cases": {
        "slabs": {
            "layouts": ["pidx"],
            "subvolumes": {"along": "x", "each": 32, "ways": ["per-level-fast", "aggregated", "plain"]},
            "ranks": [2],
        },
        "hdf5": {
            "layouts": ["chunked"],
            "subvolumes": {"along": "x", "each": 32, "ways": ["collective"]},
            "ranks": [1, 2],
        },
    },
    "sites": ["cluster"],
    "rounds": 1,
    "repeats": {"write": 1},
}
TABLES = [f"results/{name}/measurements.parquet" for name in ("parallel", "weak")]


def srun(python: Path) -> str:
    """What starts ranks of this Python in a step: MPICH speaks PMI 2, Open MPI PMIx."""
    asked = "from mpi4py import MPI; print(MPI.Get_library_version())"
    quiet = {**os.environ, "MPI4PY_RC_INITIALIZE": "0"}
    said = subprocess.run([python, "-c", asked], env=quiet, capture_output=True, text=True, check=True).stdout
    return f"srun --overlap --mpi={'pmix' if 'Open MPI' in said else 'pmi2'}"


def test_ranks_on_two_nodes_write_together(require: Callable[[str | None], None], tmp_path: Path) -> None:
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
    clone.write_study("weak", WEAK)
    (clone.directory / ".venv-mpi").symlink_to(made.parent)
    launcher = f"mpi={srun(clone.directory / '.venv-mpi' / 'bin' / 'python')}"
    with short_lived_cluster(require):
        clone.build("--config", launcher, "--", *TABLES)
    table, weak = (pd.read_parquet(clone.directory / name) for name in TABLES)
    assert {*table["case"]} == {f"all-{api}-2r" for api in ("hdf5", "mpiio", "posix", "file-per-process")}
    assert (table["processes"] == 2).all() and {*table["node"]} <= {"n1", "n2"}
    ways = {f"slabs-{way}-2r" for way in ("per-level-fast", "aggregated", "plain")}
    assert {*weak["case"]} == ways | {"hdf5-collective-1r", "hdf5-collective-2r"}
    assert {*weak[weak["processes"] == 2]["nodes"]} == {*table["nodes"]} == {"n1 n2"}
    assert {*weak[weak["processes"] == 1]["nodes"]} <= {"n1", "n2"}
    assert not list((tmp_path / "files").rglob("*.h5*"))
