"""Through a real cluster: a study to its report, several nodes and file systems, results from elsewhere."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from clones import TINY, Clone, make_clone
from faulty import STUDY, catch, cell_processes, half_records, left_behind, snapshot, wait_for

from cluster import Cluster
from hyperslab.planning import slurm
from slurm_clones import NODES, Clusters, make_slurm_clone, queue

pytestmark = [pytest.mark.slurm, pytest.mark.sites, pytest.mark.slow]

# A study as small as `tiny` under the name that `snakemake` builds by itself.
QUICK: dict[str, Any] = {
    **TINY,
    "layouts": {name: TINY["layouts"][name] for name in ("auto", "4x4x64")},
    "cases": {**TINY["cases"], "slices": {"read": {"z": 5}, "states": ["cold", "warm"]}},
    "sites": "all",
    "score": None,
}
CELLS = 9
REPORT = "results/quick/report.html"
SUMMARY = "results/quick/summary.csv"
SUBMITTED = "has been submitted with SLURM jobid"
# What must be the same wherever a cell is measured.
COUNTED = [
    "asked_bytes", "chunks_touched", "chunk_bytes", "requested_predicted_bytes", "file_bytes", "data_bytes",
    "padding_bytes", "index_bytes", "remainder_bytes", "chunks", "adjacent_share", "chunk_shape", "stale",
]  # fmt: skip


@pytest.fixture(scope="module")
def cluster(clusters: Clusters) -> Cluster:
    pair = "PartitionName=pair Nodes=n[5-6] MaxTime=INFINITE State=UP"
    hidden = "PartitionName=hidden Nodes=n[1-2] Hidden=YES MaxTime=1-12:00:00 State=UP"
    return clusters.of(nodes=6, cpus=4, lines=(pair, hidden))


def pack(clone: Clone, *arguments: str) -> None:
    command = [sys.executable, "workflow/scripts/pack.py", *arguments]
    subprocess.run(command, cwd=clone.directory, check=True, capture_output=True)


def measurements(clone: Clone, study: str = "quick") -> pd.DataFrame:
    return pd.read_parquet(clone.directory / "results" / study / "measurements.parquet")


# ---- from `snakemake --profile slurm` to the report, and results that travel


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sites") / "räume frei"


def clone_on_the_cluster(directory: Path, root: Path) -> Clone:
    clone = make_slurm_clone(
        directory,
        {"nodes": NODES},
        {"disk": {"root": "testfiles"}, "shared": {"root": str(root)}},
        {"disk": {"file_system": "disk"}, "node": ("nodes", "shared")},
    )
    clone.write_study("quick", QUICK)
    return clone


@pytest.fixture(scope="module")
def measured(cluster: Cluster, top: Path) -> tuple[Clone, str]:
    """A clone in which `snakemake --profile slurm` has run, exactly that, and what it printed."""
    clone = clone_on_the_cluster(top / "klon", top / "shared")
    before = clone.build("--dry-run")
    assert re.search(
        rf"quick: site node: {CELLS} cells to measure \(0 there\), 0\.0 GB to write, about \d+ (s|min) of "
        "measuring, in 1 Slurm job of at most 30 min",
        before,
    )
    assert not (top / "shared").exists()
    return clone, clone.build()


def test_a_study_goes_through_the_cluster_to_its_report(
    measured: tuple[Clone, str], cluster: Cluster, top: Path
) -> None:
    clone, printed = measured
    assert (clone.directory / REPORT).exists()
    # The batch: tables, figures and report are made on the submit host.
    assert printed.count(SUBMITTED) == 1
    assert "site disk is left out (this is the login node; --config local=true measures on it)" in printed
    assert re.search(rf"hyperslab: quick: \d+ of {CELLS} cells, about \d+ s left", printed)
    table = measurements(clone)
    assert set(table["site"]) == {"node"}
    assert not table["overlap"].any() and not table["stale"].any()
    assert set(table["node"]) <= set(cluster.node_names)
    assert not queue(cluster)
    assert not left_behind(top / "shared") + half_records(clone.directory / "results")
    log = clone.directory / "results/quick/logs/node"
    assert (log / "auto/slices.r1.log").exists() and (log / "r0of1.log").exists()
    assert not clone.planned()
    assert clone.planned("--config", "local=true")["measure_disk"] == CELLS
    # On this machine, and not by a job: the scheduler that has none to run gets none.
    target = "results/quick/cells/disk/auto/slices.r0.json"
    assert SUBMITTED not in clone.build(target, "--config", "local=true")
    record = json.loads((clone.directory / target).read_text(encoding="utf-8"))
    assert "SLURM_JOB_ID" not in record["environment"]
    for folder in ("cells", "logs"):
        shutil.rmtree(clone.directory / "results/quick" / folder / "disk")


@pytest.fixture(scope="module")
def travelled(measured: tuple[Clone, str], top: Path) -> tuple[Clone, str]:
    """A clone that knows of no cluster: it has unpacked those results, and measured its own."""
    packed = top / "quick.tar.xz"
    pack(measured[0], "pack", "quick", "--output", str(packed))
    clone = make_clone(top / "other")
    sites = {"file_systems": {"disk": {"root": "testfiles"}}, "sites": {"disk": {"file_system": "disk"}}}
    (clone.directory / "config/sites.local.yaml").write_text(yaml.safe_dump(sites), encoding="utf-8")
    clone.write_study("quick", QUICK)
    pack(clone, "unpack", str(packed))
    return clone, clone.build()


def test_results_of_a_cluster_appear_beside_local_ones(
    measured: tuple[Clone, str], travelled: tuple[Clone, str]
) -> None:
    clone, printed = travelled
    assert re.search(rf"site node is left out \(.* does not describe it\); its {CELLS} results here", printed)
    assert set(pd.read_csv(clone.directory / SUMMARY)["site"]) == {"disk", "node"}
    page = (clone.directory / REPORT).read_text(encoding="utf-8")
    assert "disk: use" in page and "node: use" in page
    there, here = (
        {
            name: content
            for name, (_, content) in snapshot(c.directory / "results").items()
            if "/node/" in name
        }
        for c in (measured[0], clone)
    )
    assert len(here) > CELLS
    assert [name for name in there.keys() | here.keys() if there.get(name) != here.get(name)] == []
    assert not clone.planned()


def test_cells_and_counts_are_the_same_locally_and_through_slurm(travelled: tuple[Clone, str]) -> None:
    table = measurements(travelled[0])
    key = ["layout", "case", "round", "state", "repeat"]
    both = [rows.set_index(key)[COUNTED].sort_index() for _, rows in table.groupby("site")]
    assert len(both) == 2
    pd.testing.assert_frame_equal(*both)
    summary = pd.read_csv(travelled[0].directory / SUMMARY)
    results = [set(map(tuple, rows[key[:4]].to_numpy())) for _, rows in summary.groupby("site")]
    assert results[0] == results[1]


def test_results_copied_to_another_clone_of_the_cluster_need_no_job(
    measured: tuple[Clone, str], travelled: tuple[Clone, str], top: Path
) -> None:
    clone = clone_on_the_cluster(top / "second", top / "shared")
    pack(clone, "unpack", str(top / "quick.tar.xz"))
    plan = clone.planned(SUMMARY)
    assert plan == {"summarise": 1}
    # A cell that is missing, or asked for, needs its batch.
    assert clone.planned("--config", "remeasure=node/auto/*", "--", SUMMARY)["batch_node"] == 1
    (clone.directory / "results/quick/cells/node/auto/slices.r1.json").unlink()
    assert clone.planned(SUMMARY)["batch_node"] == 1


def test_a_deleted_and_a_named_cell_are_measured_again_alone_and_tables_are_a_job(
    measured: tuple[Clone, str], cluster: Cluster
) -> None:
    clone = measured[0]
    results = clone.directory / "results"
    before = snapshot(results)
    (results / "quick/cells/node/auto/slices.r1.json").unlink()
    again = ("--config", "remeasure=node/4x4x64/write.r2", "aggregate=cluster", "--", SUMMARY)
    printed = clone.build(*again)
    now = snapshot(results)
    changed = {name for name in now if now[name] != before[name]}
    assert changed == {f"quick/cells/node/{cell}.json" for cell in ("auto/slices.r1", "4x4x64/write.r2")}
    assert now.keys() == before.keys()
    # The batch and the tables.
    assert printed.count(SUBMITTED) == 2


@pytest.mark.usefixtures("cluster")
def test_every_partition_is_known_with_its_limit() -> None:
    slurm.partitions.cache_clear()
    limits = dict.fromkeys(("main", "first", "pair"), math.inf)
    assert slurm.partitions() == {**limits, "hidden": 36 * 60}
    slurm.partitions.cache_clear()
    slurm.node_count.cache_clear()
    assert slurm.node_count("hidden") == 2
    assert slurm.node_count("hidden,first") == 2


# ---- several nodes


def test_batches_side_by_side_and_disks_of_nodes(cluster: Cluster, tmp_path: Path) -> None:
    """concurrency: 2, as tasks of one Slurm array, a file system in each node, and reader: other-node."""
    shared, inside, apart = (tmp_path / name for name in ("shared", "inside", "apart"))
    clone = make_slurm_clone(
        tmp_path / "clone",
        {
            "wide": {**NODES, "constraint": "n1|n2"},
            "pair": {**NODES, "partition": "pair"},
            "two": {**NODES, "constraint": "n3|n4"},
        },
        {
            "shared": {"root": str(shared)},
            "inside": {"root": f"{inside}/$SLURMD_NODENAME/files", "node_local": True},
            "apart": {"root": str(apart)},
        },
        {
            "wide": {"platform": "wide", "file_system": "shared", "concurrency": 2},
            "inside": ("pair", "inside"),
            "apart": ("two", "apart"),
        },
    )
    clone.write_study("spread", {**STUDY, "sites": ["wide", "inside"]})
    clone.write_study("apart", {**STUDY, "sites": ["apart"], "rounds": 1, "reader": "other-node"})
    targets = ["results/spread/summary.csv", "results/apart/summary.csv"]
    planned = clone.build("--dry-run", *targets)
    assert planned.count("in 2 Slurm jobs of at most 30 min") == 2
    assert "in 1 Slurm job of at most 30 min" in planned

    cells = clone.directory / "results/spread/cells/wide"

    def node_of(record: Path) -> str:
        return str(json.loads(record.read_text(encoding="utf-8"))["machine"]["node"])

    def goes_on_without(node: str) -> bool:
        return any(node_of(record) != node for record in cells.glob("*/*.json"))

    # Jobs of one rule that are submitted together become an array.
    options = ("--slurm-array-jobs", "batch_wide", "--")
    with clone.running(*options, *targets) as process:
        # While one batch stands still in the middle of a measurement, the other goes on.
        caught = catch("measure", shared)
        environment = Path(f"/proc/{caught.pid}/environ").read_bytes()
        waits = environment.split(b"SLURMD_NODENAME=")[1].split(b"\0")[0].decode()
        wait_for(lambda: goes_on_without(waits), "a record of the other batch", pause=0.2)
        tasks = cluster.run("squeue", "--noheader", "--array", "--format=%i").split()
        assert any(re.fullmatch(r"\d+_\d+", task) for task in tasks), tasks
        caught.send(signal.SIGCONT)
    printed = clone.log(*targets).read_text(encoding="utf-8")
    assert process.returncode == 0, printed[-4000:]
    # None is taken for one that the controller has forgotten, and submitted again.
    assert "Trying to restart" not in printed

    table = measurements(clone, "spread")
    nodes = table.groupby("site")["node"].agg(set)
    assert nodes["wide"] == {"n1", "n2"}
    assert nodes["inside"] == {"n5", "n6"}
    assert (table["node"] == table["writer_node"]).all()
    # The submit host neither sees nor makes what only a node has.
    assert sorted(os.listdir(inside)) == ["n5", "n6"]
    assert not left_behind(shared, inside, apart)

    two = measurements(clone, "apart")
    assert (two["node"] != two["writer_node"]).all()
    assert set(two["node"]) | set(two["writer_node"]) == {"n3", "n4"}
    assert not queue(cluster)


def intervals(record: dict[str, Any]) -> list[tuple[float, float]]:
    """When a cell's file was written and when it was measured, on the boot-time clock."""
    parts = [record["writer"], record]
    return [(part["began"]["boottime_s"], part["ended"]["boottime_s"]) for part in parts]


def test_two_runs_at_once_do_not_disturb_each_other(cluster: Cluster, tmp_path: Path) -> None:
    """Two studies on one file system from two nodes, and on one node with two file systems."""
    sharing = {**NODES, "exclusive": False}
    shared = tmp_path / "shared"
    clone = make_slurm_clone(
        tmp_path / "clone",
        {"first": {**sharing, "constraint": "n1"}, "second": {**sharing, "constraint": "n2"}},
        {"shared": {"root": str(shared)}, "other": {"root": str(tmp_path / "other")}},
        {"a": ("first", "shared"), "b": ("second", "shared"), "c": ("first", "other")},
    )
    clone.write_study("one", {**STUDY, "sites": ["a"]})
    clone.write_study("two", {**STUDY, "sites": ["b", "c"]})
    targets = [f"results/{study}/summary.csv" for study in ("one", "two")]
    with clone.running(targets[0]) as first, clone.running(targets[1]) as second:
        # One stands still in the middle of a measurement until the other one would like to work there, too.
        caught = catch("measure", shared)
        wait_for(
            # The one that waits has made no directory yet.
            lambda: (
                {"one", "two"}
                <= {
                    process.artifact.relative_to(shared).parts[0].rpartition("-")[0]
                    for program in ("generate", "measure")
                    for process in cell_processes(program, shared)
                }
            ),
            "both runs to be at their cells",
            pause=0.2,
        )
        caught.send(signal.SIGCONT)
    for process, target in zip((first, second), targets, strict=True):
        assert process.returncode == 0, clone.log(target).read_text(encoding="utf-8")[-4000:]

    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for path in (clone.directory / "results").glob("*/cells/*/*/*.json"):
        record = json.loads(path.read_text(encoding="utf-8"))
        assert record["locks"] == {"node": True, "root": True}
        found.setdefault((path.parts[-5], record["site"]), []).extend(intervals(record))
    assert {key: len(times) for key, times in found.items()} == dict.fromkeys(
        [("one", "a"), ("two", "b"), ("two", "c")], 8
    )
    for sites in (("a", "b"), ("a", "c")):
        timed = sorted(time for key, times in found.items() if key[1] in sites for time in times)
        for (_, ended), (began, _) in zip(timed, timed[1:], strict=False):
            assert ended <= began
    # They did run at once: each began before the other had ended.
    spans = [
        (min(began for began, _ in times), max(ended for _, ended in times))
        for key in ("one", "two")
        if (times := [time for (study, _), them in found.items() if study == key for time in them])
    ]
    for (began, ended), (other_began, other_ended) in combinations(spans, 2):
        assert began < other_ended and other_began < ended
