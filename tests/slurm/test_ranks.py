"""MPI ranks inside a real Slurm job, on two nodes: the same study as with mpirun, started by srun."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from clones import REPOSITORY
from own_environments import ranks_environment, variables
from samples import file_specification, prepared

from cluster import Cluster
from cluster_processes import wait_until
from hyperslab.studies.specification import text
from slurm_clones import NODES, Clusters, look_early, make_slurm_clone

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
# A reduction that goes on until somebody ends it.
ENDLESS: Any = {
    **file_specification((32, 32, 4096)),
    "case": {
        "name": "slices-2r", "family": "slices", "kind": "reduce", "planes": "z", "split": "x",
        "extent": [32, 32, 512], "by": "ranks", "workers": 2, "states": ["warm"],
    },
    "repeats": {"warm": 10**5}, "study": "mine", "seed": 1, "round": "r0", "protocol": 1,
}  # fmt: skip
SECONDS = 180


@pytest.fixture(scope="module")
def environment(require: Callable[[str | None], None]) -> Path:
    """The environment of ranks."""
    return ranks_environment(require)


@pytest.fixture(scope="module")
def cluster(clusters: Clusters, environment: Path) -> Iterator[Cluster]:
    yield clusters.of()
    # No module that is of the cluster comes after this one (tests/conftest.py).
    clusters.end()


def srun(environment: Path) -> str:
    """What starts ranks of this environment in a step: MPICH speaks PMI 2, Open MPI PMIx."""
    python, asked = environment / "bin/python", "from mpi4py import MPI; print(MPI.Get_library_version())"
    quiet = {**os.environ, "MPI4PY_RC_INITIALIZE": "0"}
    said = subprocess.run([python, "-c", asked], env=quiet, capture_output=True, text=True, check=True).stdout
    return f"srun --overlap --mpi={'pmix' if 'Open MPI' in said else 'pmi2'}"


@pytest.mark.usefixtures("cluster")
def test_ranks_on_two_nodes_write_together(environment: Path, tmp_path: Path) -> None:
    clone = make_slurm_clone(
        tmp_path / "clone",
        {"main": {**NODES, "nodes": 2, "partition": "main", "memory_mb": 3000}},
        {"shared": {"root": str(tmp_path / "files")}},
        {"cluster": ("main", "shared")},
    )
    look_early(clone)
    clone.write_study("parallel", STUDY)
    clone.write_study("weak", WEAK)
    (clone.directory / ".venv-mpi").symlink_to(environment)
    clone.build("--config", f"mpi={srun(environment)}", "--", *TABLES)
    table, weak = (pd.read_parquet(clone.directory / name) for name in TABLES)
    assert {*table["case"]} == {f"all-{api}-2r" for api in ("hdf5", "mpiio", "posix", "file-per-process")}
    assert (table["processes"] == 2).all() and {*table["node"]} <= {"n1", "n2"}
    ways = {f"slabs-{way}-2r" for way in ("per-level-fast", "aggregated", "plain")}
    assert {*weak["case"]} == ways | {"hdf5-collective-1r", "hdf5-collective-2r"}
    assert {*weak[weak["processes"] == 2]["nodes"]} == {*table["nodes"]} == {"n1 n2"}
    assert {*weak[weak["processes"] == 1]["nodes"]} <= {"n1", "n2"}
    assert not list((tmp_path / "files").rglob("*.h5*"))


def ranks_with(cluster: Cluster, file: Path) -> dict[int, tuple[str, int]]:
    """Rank -> its node and process, of those that have a file open."""
    found = {}
    for process in map(str, cluster.processes("job")):
        with suppress(OSError):
            words = Path("/proc", process, "cmdline").read_bytes().split(b"\0")
            told = Path("/proc", process, "environ").read_text("utf-8", "replace").split("\0")
            opened = {os.readlink(entry) for entry in Path("/proc", process, "fd").iterdir()}
            if str(file) in opened and any(word.endswith(b"/ranks.py") for word in words):
                known = dict(entry.split("=", 1) for entry in told if "=" in entry)
                found[int(known["SLURM_PROCID"])] = (known["SLURMD_NODENAME"], int(process))
    return found


@pytest.mark.faults
def test_a_rank_killed_on_the_other_node_fails_the_cell_with_one_line(
    cluster: Cluster, environment: Path, tmp_path: Path
) -> None:
    with prepared(tmp_path.resolve()) as root:
        artifact, record, said = root / "mine/slices.r0", tmp_path / "record.json", tmp_path / "said"
        told = ["--specification", text(ENDLESS), "--artifact", str(artifact)]
        measuring = ["--record", str(record), "--site", "here", "--launcher", f"{srun(environment)} -n 2"]
        places = f"PYTHONPATH={variables()['PYTHONPATH']}"
        commands = [
            ["env", places, sys.executable, "-m", f"hyperslab.{program}", *told, *more]
            for program, more in (("generate", []), ("measure", measuring))
        ]
        # As in a batch, whoever measures is a step on one node.
        script = " && ".join(f"srun --nodes=1 --ntasks=1 {shlex.join(words)}" for words in commands)
        asked = ["--nodes=2", "--ntasks=2", "--chdir", str(REPOSITORY), "--output", str(said)]
        cluster.run("sbatch", *asked, "--wrap", script)
        ranks: dict[int, tuple[str, int]] = {}

        def at_work() -> bool:
            ranks.update(ranks_with(cluster, artifact / "data.h5"))
            return len(ranks) == 2

        assert wait_until(at_work, SECONDS), said.read_text()
        (first, _), (other, process) = ranks[0], ranks[1]
        assert {first, other} == {"n1", "n2"}
        os.kill(process, signal.SIGKILL)
        assert wait_until(lambda: not cluster.run("squeue", "--noheader").strip(), SECONDS)
        (line,) = [line for line in said.read_text().splitlines() if line.startswith("hyperslab.measure: ")]
        assert "ChildProcessError: MPI ranks ended with status " in line
        assert not record.exists() and not (root / "mine").exists()
        assert wait_until(lambda: not cluster.processes("job"), SECONDS)
