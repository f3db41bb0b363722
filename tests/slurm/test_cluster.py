"""The test cluster itself: it comes up and goes down whatever was done to it, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster import SYSTEM_CONF, Cluster, missing, running_cluster
from cluster_processes import wait_until
from slurm_clones import Clusters
from test_cluster_jobs import reaches, submit

pytestmark = pytest.mark.slurm
SCRIPT = Path(__file__).with_name("cluster.py")


@pytest.fixture
def directory(require: Callable[[str | None], None], clusters: Clusters) -> Iterator[Path]:
    """A short path: pytest's own may be too long for a step's socket. There is no other cluster."""
    require(missing())
    clusters.end()
    with tempfile.TemporaryDirectory(prefix="hs-") as path:
        yield Path(path)


@pytest.fixture
def cluster(directory: Path) -> Iterator[Cluster]:
    with running_cluster(directory) as running:
        yield running


def script(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *words], capture_output=True, text=True, timeout=60)


@pytest.mark.slow
def test_script_puts_back_what_it_replaced_and_can_be_repeated(directory: Path) -> None:
    empty = not os.path.lexists(SYSTEM_CONF)
    if empty:
        SYSTEM_CONF.symlink_to(directory / "earlier.conf")
    before = SYSTEM_CONF.lstat().st_ino
    try:
        goes_up(directory)
        assert script("status", "--dir", str(directory)).returncode == 0
        again = script("up", "--dir", str(directory))
        assert again.returncode == 1 and "already up" in again.stderr and again.stderr.count("\n") == 1
        other = script("up", "--dir", f"{directory}/other")
        assert other.returncode == 1 and "another Slurm cluster" in other.stderr
        assert script("down", "--dir", f"{directory}/other").stdout.startswith("nothing to stop")
        job = submit(Cluster(directory), "trap '' TERM; sleep 600 & wait")
        assert reaches(Cluster(directory), job, "RUNNING")
        goes_down(directory)
        assert SYSTEM_CONF.lstat().st_ino == before
        goes_up(directory)
        goes_down(directory)
        assert SYSTEM_CONF.lstat().st_ino == before
        assert script("down", "--dir", str(directory)).stdout.startswith("nothing to stop")
        assert script("status", "--dir", str(directory)).returncode == 1
    finally:
        if empty:
            SYSTEM_CONF.unlink()


def goes_up(directory: Path) -> None:
    up = script("up", "--dir", str(directory))
    assert (up.returncode, up.stderr) == (0, "")


def goes_down(directory: Path) -> None:
    assert script("down", "--dir", str(directory)).stdout.startswith("stopped")
    assert leftovers(directory) == []


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
