"""On a cluster, too, records and tables agree after any interruption; a run outlives its controller."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import preloaded
import pytest
from clones import LONGEST_SECONDS, Clone, jobs
from faulty import STUDY, CellProcess, catch, snapshot, wait_for

from cluster import Cluster, ClusterError
from slurm_clones import NODES, Clusters, batch_job, look_early, make_slurm_clone, queue

pytestmark = [pytest.mark.slurm, pytest.mark.faults, pytest.mark.slow]

TARGET = "results/batched/summary.csv"
# How much longer than its cells take a run is without a controller.
AWAY_SECONDS = float(os.environ.get("HYPERSLAB_AWAY_SECONDS", "0"))
# What decodes has some way to go where it goes on, between SIGCONT and SIGTERM of a job that is cancelled.
REMEASURED = "nodes/4x4x2048/all.r1"
REMEASURE = ("--config", f"remeasure={REMEASURED}", "--", TARGET)


@pytest.fixture(scope="module")
def cluster(clusters: Clusters) -> Cluster:
    return clusters.of()


def described(directory: Path, name: str, minutes: int = 30, **study: Any) -> Clone:
    """A clone with one site on the cluster, and a study of this name."""
    clone = make_slurm_clone(
        directory / name,
        {"nodes": {**NODES, "minutes": minutes}},
        {"shared": {"root": str(directory / "root")}},
        {"nodes": ("nodes", "shared")},
    )
    look_early(clone)
    clone.write_study(name, {**STUDY, "sites": ["nodes"], **study})
    return clone


@pytest.fixture(scope="module")
def batched(patient: tuple[Clone, str]) -> Clone:
    """A study that was measured on the cluster."""
    return patient[0]


def root_of(clone: Clone) -> Path:
    return clone.directory.parent / "root"


def in_tables(clone: Clone) -> bool:
    """Whether the table holds the very times of the records."""
    results = clone.directory / "results/batched"
    table = pd.read_parquet(results / "measurements.parquet")
    for (layout, number), rows in table.groupby(["layout", "round"]):
        record = json.loads((results / f"cells/nodes/{layout}/all.r{number}.json").read_text())
        if sorted(rows["time_s"]) != sorted(row["time_s"] for row in record["repeats"]):
            return False
    return len(table) == 4 * 20


def empty(cluster: Cluster) -> None:
    """Wait until nothing is in the queue."""
    wait_for(lambda: not queue(cluster), "the queue to be empty", pause=0.5)


def test_an_interrupted_remeasure_leaves_the_old_record_and_true_tables(
    cluster: Cluster, batched: Clone
) -> None:
    before = snapshot(batched.directory / "results")
    with batched.running(*REMEASURE) as process:
        caught = catch("measure", root_of(batched))
        os.killpg(process.pid, signal.SIGINT)
        # Going on before it is cancelled, the cell could come to its end.
        empty(cluster)
        caught.send(signal.SIGCONT)
    assert process.returncode != 0
    assert snapshot(batched.directory / "results") == before
    assert in_tables(batched)


def test_a_killed_snakemake_leaves_tables_that_the_next_run_makes_again(
    cluster: Cluster, batched: Clone
) -> None:
    before = snapshot(batched.directory / "results")
    with batched.running(*REMEASURE) as process:
        caught = catch("measure", root_of(batched))
        process.kill()
        caught.send(signal.SIGCONT)
    empty(cluster)
    after = snapshot(batched.directory / "results")
    assert [name for name in after if after[name] != before[name]] == [f"batched/cells/{REMEASURED}.json"]
    batched.build("--unlock", TARGET)
    # They are made again by the run of the next test, the first that is left alone since the interrupted one.
    assert batched.planned(TARGET)["summarise"] == 1


@contextlib.contextmanager
def controller_away(cluster: Cluster, *options: str) -> Iterator[None]:
    """Nobody controls the cluster for the length of a with block; then a controller with these options."""
    (pid,) = [pid for pid in cluster.processes("daemon") if b"slurmctld" in command_of(pid)]
    os.kill(pid, signal.SIGTERM)
    wait_for(lambda: pid not in cluster.processes("daemon"), "the controller to end")
    try:
        yield
    finally:
        cluster.run("slurmctld", *options, "-f", str(cluster.conf))


def command_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]


def held(clone: Clone, process: preloaded.Run) -> CellProcess:
    """The first measuring process of a run, stopped."""
    caught = catch("measure", root_of(clone))
    assert process.poll() is None
    return caught


WAITS = "hyperslab: batched: batch r0of1 of nodes waits in the queue: Nodes required for job are DOWN"


@pytest.fixture(scope="module")
def patient(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> tuple[Clone, str]:
    """The clone of a run, and what it printed, that found every node drained at first, and no controller
    later; it must succeed.
    """
    clone = described(tmp_path_factory.mktemp("agreement"), "batched")

    def update(*words: str) -> None:
        for node in cluster.node_names:
            cluster.run("scontrol", "update", f"nodename={node}", *words)

    def printed() -> str:
        return clone.log(TARGET).read_text(encoding="utf-8")

    update("state=drain", "reason=test")
    try:
        with clone.running(TARGET) as process:
            wait_for(lambda: WAITS in printed(), "a word")
            update("state=resume")
            caught = held(clone, process)
            with controller_away(cluster):
                wait_for(lambda: "controller does not answer; this run waits for it" in printed(), "a word")
                caught.send(signal.SIGCONT)
                cells = clone.directory / "results/batched/cells"
                wait_for(lambda: len(list(cells.glob("*/*/*.json"))) == 4, "the cells")
                time.sleep(AWAY_SECONDS)
                assert process.poll() is None
            assert process.wait(LONGEST_SECONDS) == 0, printed()[-3000:]
    finally:
        with contextlib.suppress(ClusterError):
            update("state=resume")
    return clone, printed()


def test_nodes_that_take_no_job_are_said_and_waited_for(patient: tuple[Clone, str]) -> None:
    _, printed = patient
    # While nodes come back one after the other, Slurm may give another reason, which is another line.
    assert printed.count(WAITS) == 1, printed[-3000:]


def test_a_run_outlives_a_controller_that_is_away(patient: tuple[Clone, str]) -> None:
    _, printed = patient
    assert "controller answers again" in printed
    assert printed.count("does not answer") == 1
    # sacct is installed, and has no accounting to ask.
    assert "sacct" not in printed
    assert "SLURM account" not in printed


@pytest.fixture(scope="module")
def forgotten(cluster: Cluster, batched: Clone) -> str:
    """What a run printed that measures what is gone, and whose job is forgotten; it must succeed."""
    record, marker = gone_from(batched)
    record.unlink()
    marker.unlink()
    with batched.running(TARGET) as process:
        caught = held(batched, process)
        # It comes back without its memory (-c), and knows of no job.
        with controller_away(cluster, "-c"):
            caught.send(signal.SIGCONT)
            wait_for(marker.exists, "the marker")
    printed = batched.log(TARGET).read_text(encoding="utf-8")
    assert process.returncode == 0, printed[-3000:]
    assert jobs(printed)["batch_nodes"] == 1
    return printed


def gone_from(clone: Clone) -> tuple[Path, Path]:
    """A record of the measured study, and the marker of its batch."""
    results = clone.directory / "results/batched"
    return results / f"cells/{REMEASURED}.json", results / "batches/nodes/r0of1.json"


@pytest.mark.usefixtures("forgotten")
def test_a_record_that_is_gone_with_its_marker_is_measured_again(batched: Clone) -> None:
    assert all(file.exists() for file in gone_from(batched))
    assert in_tables(batched)
    assert not batched.planned(TARGET)


def test_a_job_that_the_controller_has_forgotten_is_not_waited_for(forgotten: str) -> None:
    assert re.search(r"hyperslab: Slurm has forgotten job \d+; it has made what it was to make", forgotten)


Going = tuple[Clone, preloaded.Run]


@pytest.fixture(scope="module")
def long(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Going]:
    """A clone, and its run whose job Slurm ends because its time is over, and which may still go on."""
    # The cell that outlives its time has to be the first one, and so is one that is not soon over.
    cases = {"all": {**STUDY["cases"]["all"], "repeats": {"warm": 200}}}
    clone = described(tmp_path_factory.mktemp("long"), "long", cases=cases, rounds=1)
    with clone.running("results/long/summary.csv") as process:
        held(clone, process)
        cluster.run("scontrol", "update", f"jobid={batch_job(cluster, 'nodes', 'long')}", "timelimit=0")
        yield clone, process


VANISHED = "results/vanished/recommendation.json"
ATTEMPT = "hyperslab.batch: r0of1 of nodes on "


def batch_log(clone: Clone) -> str:
    """What the batch of the study has said."""
    return (clone.directory / "results/vanished/logs/nodes/r0of1.log").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def vanished(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    """A clone whose root vanished during a run, which failed for that; now it is there again."""
    clone = described(tmp_path_factory.mktemp("vanished"), "vanished")
    root = root_of(clone)
    mount = ["mount", "-t", "tmpfs", "-o", "size=128m", "hyperslab-test", str(root)]
    root.mkdir()
    subprocess.run(mount, check=True)
    try:
        with clone.running(VANISHED) as process:
            held(clone, process).send(signal.SIGCONT)
            cells = clone.directory / "results/vanished/cells"
            wait_for(lambda: list(cells.glob("*/*/*.json")), "a record", pause=0.005)
            caught = held(clone, process)
            subprocess.run(["umount", "--lazy", str(root)], check=True)
            caught.send(signal.SIGKILL)
        assert process.returncode == 1
        # Snakemake removes empty directories.
        assert not root.exists() or not list(root.iterdir())
        root.mkdir(exist_ok=True)
        subprocess.run(mount, check=True)
        yield clone
    finally:
        subprocess.run(["umount", "--lazy", str(root)], check=False)


# Slurm looks at limits twice a minute: meanwhile these tests go on.
@pytest.mark.usefixtures("long")
def test_a_root_that_vanishes_during_a_run_is_not_measured_on_what_lies_beneath(vanished: Clone) -> None:
    log = batch_log(vanished)
    assert log.count(ATTEMPT) == 2
    (line,) = [line for line in log.splitlines() if line.startswith("hyperslab: ")]
    gone = f"file_systems.shared.root: {root_of(vanished)} was there when the run began, and is not now"
    assert gone in line
    assert 0 < len(snapshot(vanished.directory / "results")) < 4


def test_a_cancelled_job_goes_on_under_a_name_that_tells_its_study(cluster: Cluster, vanished: Clone) -> None:
    results, before = vanished.directory / "results", batch_log(vanished)
    with vanished.running(VANISHED) as process:
        caught = held(vanished, process)
        names = cluster.run("squeue", "-h", "-o", "%j").split()
        assert "vanished" in {name.partition("_")[0] for name in names}
        cluster.run("scancel", batch_job(cluster, "nodes", "vanished"))
        caught.send(signal.SIGCONT)
    printed = vanished.log(VANISHED).read_text(encoding="utf-8")
    assert process.returncode == 0, printed[-3000:]
    assert "--specification" not in printed and "HYPERSLAB_" not in printed
    # Both attempts are in the log of the batch.
    assert batch_log(vanished).removeprefix(before).count(ATTEMPT) == 2
    records = [json.loads(content) for _, content in snapshot(results).values()]
    assert len(records) == 4
    assert {record["file_system"]["type"] for record in records} == {"tmpfs"}
    # All lie at one place, so that nothing but the state of its one case stands against a recommendation.
    (site,) = json.loads((vanished.directory / VANISHED).read_text(encoding="utf-8"))["sites"]
    counted = "recommendation: {states: [warm]} counts what was"
    assert site["reason"] == f"not measured here: all (cold; only warm); {counted}"


def test_a_cell_that_takes_longer_than_its_job_is_not_tried_twice(long: Going) -> None:
    clone, process = long
    status = process.wait(LONGEST_SECONDS)
    printed = clone.log("results/long/summary.csv").read_text(encoding="utf-8")
    assert status == 1
    (said,) = [
        line for line in printed.splitlines() if line.startswith("hyperslab: long: batch r0of1 of nodes")
    ]
    assert "took longer than 30 min for one cell; raise platforms.nodes.minutes of " in said
    assert "sites.local.yaml: another attempt would end in the same way" in said
    assert "Trying to restart" not in printed


def test_cells_that_may_not_fit_into_a_job_are_said_before(cluster: Cluster, tmp_path: Path) -> None:
    cases = {"all": {**STUDY["cases"]["all"], "repeats": {"warm": 100_000}}}
    clone = described(tmp_path, "endless", 5, cases=cases)
    said = clone.build("--dry-run", "results/endless/summary.csv")
    assert "site nodes: 2 of its kinds of cells may take longer than 5 min" in said
    assert "raise platforms.nodes.minutes in " in said
