"""Faults of a cluster, each really caused: every other cell survives, and the next run makes what is missing.

One run suffers them all at once, each at a site and node of its own; a job fails, is cancelled or comes back.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pandas as pd
import preloaded
import pytest
from clones import LONGEST_SECONDS
from faulty import STUDY, CellProcess, Suffered, catch, half_records, left_behind, snapshot, wait_for

from cluster import Cluster
from slurm_clones import (
    NODES,
    Clusters,
    batch_job,
    job_state,
    look_early,
    make_slurm_clone,
    queue,
)

pytestmark = [pytest.mark.slurm, pytest.mark.faults, pytest.mark.slow]

TARGET = "results/faults/summary.csv"
# What generate runs under (hyperslab.batch): takes memory until its job is killed, once there is a record.
HOG = f"""#!{sys.executable}
import os, sys, time
from pathlib import Path
site = Path("results/faults/cells/over-memory")
if "/over-memory/" in " ".join(sys.argv) and list(site.glob("*/*.json")):
    taken = []
    for _ in range(30):
        taken.append(b"x" * 50_000_000)
        time.sleep(0.1)
    time.sleep(600)
os.execvp(sys.argv[1], sys.argv[1:])
"""


@dataclass(kw_only=True)
class Run(Suffered):
    """The study on its cluster, after the run in which everything happened."""

    cluster: Cluster
    jobs: dict[str, str] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)

    def befall(self, site: str) -> CellProcess | None:
        """Cause the fault of a site, to the job that measures its batch."""
        return FAULTS[site](self, site, self.roots[site])

    def job(self, site: str) -> str:
        """The job that measures a site's batch; a process that was caught before keeps it from ending."""
        self.jobs[site] = batch_job(self.cluster, site, self.name)
        return self.jobs[site]

    def marker(self, site: str) -> Path:
        return self.results / "faults/batches" / site / "r0of1.json"


def killed_writing(run: Run, site: str, root: Path) -> CellProcess:
    """kill -9 of everything that the job has started, while it writes a test file."""
    process = catch("generate", root)
    run.cluster.run("scancel", "--signal=KILL", "--full", run.job(site))
    return process


def cancelled(run: Run, site: str, root: Path) -> CellProcess:
    """scancel from outside."""
    process = catch("measure", root)
    run.cluster.run("scancel", run.job(site))
    return process


def over_time(run: Run, site: str, root: Path) -> CellProcess:
    """A cell that hangs, while it measures, until its job's time is over and Slurm kills it."""
    process = catch("measure", root)
    run.cluster.run("scontrol", "update", f"jobid={run.job(site)}", "timelimit=0")
    return process


def over_memory(run: Run, site: str, root: Path) -> None:
    """Nothing to do here: the hog takes more than the job may have."""
    run.job(site)


def node_down(run: Run, site: str, root: Path) -> CellProcess:
    """The node is set down; Slurm requeues the job, which starts again when the node is back."""
    process = catch("measure", root)
    job = run.job(site)
    node = f"nodename=n{1 + list(SITES).index('node-down')}"
    run.cluster.run("scontrol", "update", node, "state=down", "reason=test")
    wait_for(lambda: job_state(run.cluster, job) == "PENDING", "the job to be requeued", pause=0.2)
    run.cluster.run("scontrol", "update", node, "state=resume")
    return process


Fault = Callable[[Run, str, Path], CellProcess | None]
FAULTS: dict[str, Fault] = {
    "killed-writing": killed_writing,
    "cancelled": cancelled,
    "over-time": over_time,
    "over-memory": over_memory,
    "node-down": node_down,
}
SITES = list(FAULTS)


@pytest.fixture(scope="module")
def cluster(clusters: Clusters) -> Cluster:
    return clusters.of(nodes=len(SITES), memory_limits=True)


@pytest.fixture(scope="module")
def run(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run in which everything happens at once."""
    top = tmp_path_factory.mktemp("faults")
    roots = {site: top / "räume frei" / site for site in SITES}
    clone = make_slurm_clone(
        top / "räume frei" / "klon",
        {site: {**NODES, "constraint": f"n{number}"} for number, site in enumerate(SITES, 1)},
        {site: {"root": str(root)} for site, root in roots.items()},
        {site: (site, site) for site in SITES},
    )
    look_early(clone)
    clone.write_study("faults", {**STUDY, "sites": "all"})
    suffering = Run(clone, "faults", roots, cluster=cluster)
    hog = cluster.directory / "hog"
    hog.write_text(HOG, encoding="utf-8")
    hog.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HYPERSLAB_WRITER", str(hog))
        faults = {site: partial(suffering.befall, site) for site in FAULTS}
        suffering.suffer(faults, "--retries", "0", "--", TARGET)
    suffering.states = {site: job_state(cluster, job) for site, job in suffering.jobs.items()}
    return suffering


STATES = {
    "killed-writing": "CANCELLED",
    "cancelled": "CANCELLED",
    "over-time": "TIMEOUT",
    "over-memory": "FAILED",
    "node-down": "COMPLETED",
}


@pytest.mark.parametrize("site", FAULTS)
def test_a_fault_costs_no_more_than_its_cell(run: Run, site: str) -> None:
    assert run.states[site] == STATES[site]
    survived = site == "node-down"
    assert len(run.records(site)) == 4 if survived else 0 < len(run.records(site)) < 4
    assert run.marker(site).exists() == survived
    if site in run.caught and not survived:
        assert not run.caught[site].record(run.results / "faults/cells" / site).exists()
    if site == "cancelled":
        # Who is told to end removes its files; of who is killed, or hangs, the next run removes them.
        wait_for(lambda: not left_behind(run.roots[site]), f"the cell of {site} to remove its files")


def test_other_sites_go_on(run: Run) -> None:
    assert run.status == 1
    # Its job has outlasted all others.
    assert len(run.records("node-down")) == 4
    assert run.marker("node-down").exists()
    assert f"{TARGET} is made of what was measured" in run.printed


def test_a_requeued_job_goes_on_where_it_stopped(run: Run) -> None:
    table = pd.read_parquet(run.results / "faults/measurements.parquet")
    attempts = table[table["site"] == "node-down"].groupby(["layout", "round"])["attempt"].max()
    assert attempts.min() == 0 and attempts.max() >= 1


def test_too_much_memory_is_said_by_slurm(run: Run) -> None:
    logs = (run.clone.directory / ".snakemake/slurm_logs").glob(
        f"*over-memory/**/{run.jobs['over-memory']}.log"
    )
    assert "exceeded memory limit" in "".join(log.read_text(encoding="utf-8") for log in logs)


# ---- snakemake itself is stopped, and then asked for everything

# Two sites of which cells are missing.
INTERRUPTED, TERMINATED = STOPPED = ("cancelled", "over-time")


@pytest.fixture(scope="module")
def stopped(run: Run) -> Run:
    """Two runs at once of what is missing at a site: Ctrl-C ends one; the other's job goes on until SIGTERM
    ends that.
    """

    def started(site: str) -> AbstractContextManager[preloaded.Run]:
        return run.clone.running(f"results/faults/batches/{site}/r0of1.json")

    def in_queue(site: str) -> bool:
        return any(f"_{site}_" in comment for comment in queue(run.cluster))

    with started(INTERRUPTED) as interrupted, started(TERMINATED) as terminated:
        with ThreadPoolExecutor(len(STOPPED)) as pool:
            list(pool.map(lambda site: catch("measure", run.roots[site]), STOPPED))
        os.killpg(interrupted.pid, signal.SIGINT)
        wait_for(lambda: not in_queue(INTERRUPTED), "the job to be cancelled", pause=0.2)
        assert interrupted.wait(LONGEST_SECONDS) != 0
        assert in_queue(TERMINATED)
        terminated.send_signal(signal.SIGTERM)
        wait_for(lambda: not in_queue(TERMINATED), "the other job to be cancelled", pause=0.2)
    assert terminated.returncode != 0
    return run


def test_stopping_snakemake_leaves_no_job_and_no_file_behind(stopped: Run) -> None:
    results = stopped.results
    assert not queue(stopped.cluster)
    for site in STOPPED:
        # What a killed job had left there has gone, too.
        assert not left_behind(stopped.roots[site]) + half_records(stopped.cells(site))
        assert len(stopped.records(site)) < 4 and not stopped.marker(site).exists()
    # Nobody waits for a page after having stopped a run.
    assert not (results / "faults/report.html").exists()
    now = snapshot(results)
    assert {name: now[name] for name in stopped.after} == stopped.after


def test_the_next_run_measures_what_is_missing_and_nothing_else(stopped: Run) -> None:
    results, before = stopped.results, snapshot(stopped.results)
    stopped.clone.build(TARGET)
    now = snapshot(results)
    assert len(now) == 4 * len(SITES)
    assert {name: now[name] for name in before} == before
    assert not left_behind(*stopped.roots.values()) + half_records(results)
    assert not list(results.glob("*/batches/*/.*"))
    assert not queue(stopped.cluster)
    assert not stopped.clone.planned(TARGET)
