"""The environment of MPI ranks: its locks, what its program imports, and what is said where there is none."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from samples import file_specification, values_of
from test_environments import ROOT, packages, pins, reached

from hyperslab import formats, layouts
from hyperslab.cases.context import Context
from hyperslab.cases.mpi import environment, launch
from hyperslab.measuring import job_nodes
from hyperslab.measuring.artifact import Artifact

LOCKS = sorted((ROOT / "envs" / "mpi").glob("*.lock"))
CREATE = ROOT / "envs" / "create-mpi"
# One rank that is killed ends the others.
SRUN = ["srun", "--kill-on-bad-exit=1"]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_a_lock_pins_what_its_source_asks_for_by_hash_and_names_no_address(lock: Path) -> None:
    text = lock.read_text()
    assert "//" not in text and "index-url" not in text
    entries = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert entries and all("==" in entry and "--hash=sha256:" in entry for entry in entries)
    assert pins(f"envs/mpi/{lock.stem}.in") == pins(f"envs/mpi/{lock.name}")


def test_ranks_run_on_the_versions_of_the_workflow() -> None:
    ours = {**pins("envs/mpi/h5py.in"), **pins("envs/mpi/tools.in")}
    assert pins("envs/mpi/h5py.in").items() <= ours.items()
    for package in ("h5py", "numpy"):
        assert ours[package] == pins("requirements.in")[package]


def test_ranks_import_nothing_that_their_environment_lacks() -> None:
    programs = {"ranks", "hyperslab.cases.reduce.ranks", "hyperslab.cases.parallel.ranks"}
    # The registries name what no rank runs, too: selections, and formats that ranks cannot open together.
    alone = {name for name in formats.MODULES if not layouts.load(name).abilities.ranks}
    others = {
        "hyperslab.cases.read",
        "hyperslab.cases.resolution",
        "hyperslab.cases.timed_selections",
        "hyperslab.cases.clients",
        "hyperslab.cases.open_all",
        "hyperslab.cases.dask_cluster",
        "hyperslab.cases.rows",
        "hyperslab.measuring.object_store",
        "hyperslab.measuring.received",
        *(formats.MODULES[name].rpartition(".")[0] for name in alone),
    }
    run = {name for name in reached(programs) if not name.startswith(tuple(others))}
    assert packages(run) == {"h5py", "mpi4py", "numpy"}


def test_what_is_not_run_by_ranks_needs_no_mpi() -> None:
    others = {
        "hyperslab.measure",
        "hyperslab.generate",
        "hyperslab.planning.plan",
        "figures",
        "report",
        "summarise",
    }
    assert "mpi4py" not in packages(reached(others))


def create(directory: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """envs/create-mpi in an environment with these variables."""
    command = ["sh", str(CREATE), str(ROOT / "envs" / "mpi"), str(directory)]
    return subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=60, check=False
    )


def test_without_a_compiler_of_mpi_the_reason_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = create(tmp_path / ".venv-mpi", MPICC="no-such-mpicc")
    assert done.returncode == 0, done.stderr
    monkeypatch.chdir(tmp_path)
    said = environment.missing()
    assert said is not None and said.startswith("there is no MPI here: no no-such-mpicc (Debian, Ubuntu: ")
    assert said in done.stdout and "\n" not in said


def test_without_a_parallel_hdf5_the_reason_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "mpicc"
    compiler.write_text("#!/bin/sh\necho gcc -lmpich\n")
    compiler.chmod(0o755)
    serial = tmp_path / "hdf5" / "include"
    serial.mkdir(parents=True)
    (serial / "H5pubconf.h").write_text("/* #undef H5_HAVE_PARALLEL */\n")
    done = create(tmp_path / ".venv-mpi", MPICC=str(compiler), HDF5_DIR=str(tmp_path / "hdf5"))
    assert done.returncode == 0, done.stderr
    monkeypatch.chdir(tmp_path)
    said = environment.missing()
    assert said is not None and said.startswith(
        f"there is an MPI here but no parallel HDF5 for it, in {serial}"
    )


def test_ranks_take_the_launcher_of_the_mpi_that_they_were_built_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert environment.missing() is None
    assert environment.resolved(["mpirun", "-n", "2"]) == ["mpirun", "-n", "2"]
    Path(".venv-mpi").mkdir()
    Path(".venv-mpi/launcher").write_text("mpirun.mpich\n")
    assert environment.resolved(["mpirun", "-n", "2"]) == ["mpirun.mpich", "-n", "2"]


def test_srun_spreads_ranks_over_the_nodes_of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(job_nodes.JOB, raising=False)
    assert environment.resolved(["srun", "-n", "2"]) == [*SRUN, "-n", "2"]
    monkeypatch.setenv(job_nodes.JOB, "7")
    monkeypatch.setenv("SLURMD_NODENAME", "n2")
    monkeypatch.setenv("SLURM_NNODES", "1")
    monkeypatch.setenv("SLURM_MPI_TYPE", "pmix")
    monkeypatch.setattr(
        job_nodes, "described", lambda: "   NodeList=n[1-3]\n   NumNodes=3 NumCPUs=6 NumTasks=3"
    )
    monkeypatch.setattr(job_nodes, "_said", lambda *words: "n1\nn2\nn3\n" if words[-1] == "n[1-3]" else "")
    # The node of whoever asks comes first, and a rank has a node to itself where there are enough.
    assert environment.resolved(["srun", "-n", "1"]) == [*SRUN, "--nodes=1", "--nodelist=n2", "-n", "1"]
    assert environment.resolved(["srun", "-n", "2"]) == [*SRUN, "--nodes=2", "--nodelist=n2,n1", "-n", "2"]
    assert environment.resolved(["srun", "-n", "6"])[2:-2] == ["--nodes=3", "--nodelist=n2,n1,n3"]
    assert environment.resolved(["srun", "-n", "7"])[4] == "--overcommit"
    assert environment.resolved(["srun", "--nodes=1", "-n", "2"]) == [*SRUN, "--nodes=1", "-n", "2"]
    # What is configured stands behind it, and counts.
    assert environment.resolved(["srun", "--kill-on-bad-exit=0"]) == [*SRUN, "--kill-on-bad-exit=0"]
    # What a step says of itself srun would take for its own options.
    given = job_nodes.environment()
    assert given[job_nodes.JOB] == "7" and "SLURM_NNODES" not in given and "PATH" in given
    # It takes this one as its own --mpi, as it is meant.
    assert given["SLURM_MPI_TYPE"] == "pmix"


def test_a_task_of_an_array_is_asked_for_by_its_own_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_nodes, "_said", lambda *words: words[-1])
    # Of the last task it is the number of the array, by which Slurm would tell of all tasks.
    monkeypatch.setenv(job_nodes.JOB, "8")
    for name in job_nodes.OF_AN_ARRAY:
        monkeypatch.delenv(name, raising=False)
    assert job_nodes.described() == "8"
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "8")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "2")
    assert job_nodes.described() == "8_2"


def test_a_controller_that_is_away_names_no_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(job_nodes.JOB, "7")
    monkeypatch.setattr(job_nodes, "described", lambda: "")
    with pytest.raises(OSError, match="Slurm does not say which nodes job 7 has"):
        job_nodes.names()


def test_the_launcher_is_that_of_the_configuration_else_of_the_executor() -> None:
    assert environment.launcher("local") == "mpirun"
    assert environment.launcher("slurm") == "srun --overlap"
    assert environment.launcher("slurm", "mpiexec --bind-to core") == "mpiexec --bind-to core"


@pytest.mark.parametrize(
    ("complaint", "variable"),
    [
        ("mpirun has detected an attempt to run as root.", "OMPI_ALLOW_RUN_AS_ROOT=1"),
        ("There are not enough slots available in the system", "OMPI_MCA_rmaps_base_oversubscribe=1"),
    ],
)
def test_a_launcher_that_refuses_is_told_with_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complaint: str, variable: str
) -> None:
    monkeypatch.chdir(tmp_path)
    launcher = tmp_path / "launcher"
    launcher.write_text(f"#!/bin/sh\necho -----; echo '{complaint}'; echo 'More of it.'; exit 1\n")
    launcher.chmod(0o755)
    spec = file_specification((2, 2048))
    context = Context(spec, formats.load("hdf5"), "a.h5", values_of(spec), False, launcher=str(launcher))
    with pytest.raises(ChildProcessError, match=f"status 1: {complaint}.* \\(set {variable}"):
        launch.ranks(context, "reduce.ranks")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        # Of a rank that was killed srun alone tells; others that it ends after it say nothing of use.
        (["a warning of MPI", "srun: error: n2: task 1: Killed", "srun: error: n1: task 0: Terminated"], 1),
        (["a complaint", "srun: error: n2: task 1: Exited with exit code 1"], 0),
        (["rank 1 of 2: ValueError: no", "srun: error: n1: tasks 0-1: Killed"], 0),
    ],
)
def test_of_a_rank_that_was_killed_it_is_said_where(said: list[str], words: int) -> None:
    error = launch._failure(137, "", "\n".join(said))
    assert str(error) == f"MPI ranks ended with status 137: {said[words]}"


def test_files_of_ranks_go_with_the_data(tmp_path: Path) -> None:
    for name in ("a.h5", "a.h5.part0", "a.h5.part11", "a.h5.part-plain", "a.h5x", "b.h5"):
        (tmp_path / name).touch()
    Artifact(tmp_path / "a.h5").clear()
    assert {path.name for path in tmp_path.glob("*.h5*")} == {"a.h5x", "b.h5"}
