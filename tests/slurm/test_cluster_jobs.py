"""What jobs do on the test cluster; those that fail or are requeued are in test_slurm_faults.py."""

from __future__ import annotations

import pytest

from cluster import Cluster
from cluster_processes import wait_until
from slurm_clones import Clusters, job_state

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def cluster(clusters: Clusters) -> Cluster:
    return clusters.of()


def submit(cluster: Cluster, command: str, *options: str) -> str:
    """The id of a batch job that runs `command` on n1."""
    output = f"--output={cluster.directory}/log/job-%j.txt"
    words = ("sbatch", "--parsable", "--nodelist=n1", output, *options, f"--wrap={command}")
    return cluster.run(*words).strip()


def reaches(cluster: Cluster, job: str, wanted: str, seconds: float = 30) -> bool:
    """Whether a job comes into a state in time."""
    return wait_until(lambda: job_state(cluster, job) == wanted, seconds)


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
