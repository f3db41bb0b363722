"""The test cluster itself: it comes up, survives what tests do to it, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster import SYSTEM_CONF, Cluster, missing, running_cluster
from cluster_processes import wait_until

pytestmark = pytest.mark.slurm
SCRIPT = Path(__file__).with_name("cluster.py")


@pytest.fixture
def directory(require: Callable[[str | None], None]) -> Iterator[Path]:
    """A short path: pytest's own may be too long for a step's socket."""
    require(missing())
    with tempfile.TemporaryDirectory(prefix="hs-") as path:
        yield Path(path)


@pytest.fixture
def cluster(directory: Path) -> Iterator[Cluster]:
    with running_cluster(directory) as running:
        yield running


def script(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *words], capture_output=True, text=True, timeout=60)


def submit(cluster: Cluster, command: str, *options: str) -> str:
    """The id of a batch job that runs `command` on n1."""
    output = f"--output={cluster.directory}/log/job-%j.txt"
    words = ("sbatch", "--parsable", "--nodelist=n1", output, *options, f"--wrap={command}")
    return cluster.run(*words).strip()


def state(cluster: Cluster, job: str) -> str:
    return re.search(r"JobState=(\S+)", cluster.run("scontrol", "show", "job", job))[1]  # type: ignore[index]


def reaches(cluster: Cluster, job: str, wanted: str, seconds: float = 30) -> bool:
    return wait_until(lambda: state(cluster, job) == wanted, seconds)


def test_every_node_runs_a_step_and_a_batch_job(cluster: Cluster) -> None:
    for node in cluster.node_names:
        assert cluster.run("srun", "-w", node, "printenv", "SLURMD_NODENAME").strip() == node
    assert len(cluster.run("srun", "-N2", "hostname").split()) == 2
    assert reaches(cluster, submit(cluster, "srun true"), "COMPLETED")


def test_scancel_ends_what_the_job_started(cluster: Cluster) -> None:
    job = submit(cluster, "sleep 600 & sleep 600")
    assert reaches(cluster, job, "RUNNING")
    # "RUNNING" is the controller's word: the job's two children may not have started yet.
    assert wait_until(lambda: len(cluster.processes("job")) >= 3, 15)
    cluster.run("scancel", job)
    assert reaches(cluster, job, "CANCELLED")
    assert wait_until(lambda: not cluster.processes("job"), 15)


@pytest.mark.slow
def test_job_of_a_downed_node_is_requeued_under_its_id_and_finishes_after_resume(cluster: Cluster) -> None:
    first_time_long = '[ -n "$SLURM_RESTART_COUNT" ] || sleep 600'
    job = submit(cluster, f'echo "restart ${{SLURM_RESTART_COUNT:-0}}"; {first_time_long}')
    assert reaches(cluster, job, "RUNNING")
    cluster.run("scontrol", "update", "nodename=n1", "state=down", "reason=test")
    assert reaches(cluster, job, "PENDING")
    assert "down" in cluster.run("sinfo", "-h", "-n", "n1", "-p", "first", "-o", "%T")
    cluster.run("scontrol", "update", "nodename=n1", "state=resume")
    assert reaches(cluster, job, "COMPLETED", seconds=60)
    assert (cluster.directory / f"log/job-{job}.txt").read_text().splitlines()[-1] == "restart 1"


def test_job_over_its_memory_fails(directory: Path) -> None:
    with running_cluster(directory, memory_limits=True) as cluster:
        hog = f"{sys.executable} -c 'import time; block = bytearray(400_000_000); time.sleep(60)'"
        job = submit(cluster, hog, "--mem=100M")
        assert reaches(cluster, job, "FAILED")


@pytest.mark.slow
def test_script_puts_back_what_it_replaced_and_can_be_repeated(directory: Path) -> None:
    empty = not os.path.lexists(SYSTEM_CONF)
    if empty:
        SYSTEM_CONF.symlink_to(directory / "earlier.conf")
    before = SYSTEM_CONF.lstat().st_ino
    try:
        for _ in range(2):
            start = time.monotonic()
            up = script("up", "--dir", str(directory))
            assert (up.returncode, up.stderr) == (0, "")
            assert time.monotonic() - start < 60
            assert script("status", "--dir", str(directory)).returncode == 0
            again = script("up", "--dir", str(directory))
            assert again.returncode == 1 and "already up" in again.stderr and again.stderr.count("\n") == 1
            other = script("up", "--dir", f"{directory}/other")
            assert other.returncode == 1 and "another Slurm cluster" in other.stderr
            assert script("down", "--dir", f"{directory}/other").stdout.startswith("nothing to stop")
            job = submit(Cluster(directory), "trap '' TERM; sleep 600 & wait")
            assert reaches(Cluster(directory), job, "RUNNING")
            assert script("down", "--dir", str(directory)).stdout.startswith("stopped")
            assert leftovers(directory) == []
            assert SYSTEM_CONF.lstat().st_ino == before
        assert script("down", "--dir", str(directory)).stdout.startswith("nothing to stop")
        assert script("status", "--dir", str(directory)).returncode == 1
    finally:
        if empty:
            SYSTEM_CONF.unlink()


def leftovers(directory: Path) -> list[int]:
    return Cluster(directory).processes("daemon") + Cluster(directory).processes("job")


KILLED_AFTER = """
import os, signal, sys
from pathlib import Path
import cluster
plain_run = cluster.Cluster.run
def run(self, *command, **options):
    output = plain_run(self, *command, **options)
    if command[0] == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
    return output
cluster.Cluster.run = run
cluster.up(cluster.Cluster(Path(sys.argv[1])))
"""


@pytest.mark.parametrize("command", ["munged", "slurmctld", "slurmd", "sinfo"])
def test_down_cleans_up_after_up_was_killed(directory: Path, command: str) -> None:
    before = os.path.lexists(SYSTEM_CONF)
    words = [sys.executable, "-c", KILLED_AFTER, str(directory), command]
    killed = subprocess.run(words, env=os.environ | {"PYTHONPATH": str(SCRIPT.parent)}, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert leftovers(directory) and os.path.lexists(SYSTEM_CONF)
    assert script("down", "--dir", str(directory)).stdout.startswith("stopped")
    assert leftovers(directory) == []
    assert os.path.lexists(SYSTEM_CONF) == before


def test_down_ends_jobs_and_daemons_when_controller_and_node_daemons_were_killed(cluster: Cluster) -> None:
    job = submit(cluster, "setsid sleep 600 & srun sleep 600")
    assert reaches(cluster, job, "RUNNING")
    wait_until(lambda: len(cluster.processes("job")) >= 5, 5)
    for pid in cluster.processes("daemon"):
        os.kill(pid, signal.SIGKILL)
    assert script("down", "--dir", str(cluster.directory)).stdout.startswith("stopped")
    assert leftovers(cluster.directory) == []


def test_refusals_are_one_line(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = subprocess.run(
        [sys.executable, str(SCRIPT), "up", "--dir", str(directory)],
        capture_output=True, text=True, env={"PATH": str(directory)},
    )  # fmt: skip
    assert bare.returncode == 1 and "apt-get install" in bare.stderr and bare.stderr.count("\n") == 1
    spaces = script("up", "--dir", f"{directory}/a b")
    assert spaces.returncode == 1 and spaces.stderr.count("\n") == 1
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert missing() == "a Slurm cluster needs root"
