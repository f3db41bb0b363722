"""Sites of a cluster: what a batch asks of Slurm, what room it needs, and which jobs are those of a run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml
from studies import BASE

from hyperslab import batch, probe_site
from hyperslab.advising import at_sites
from hyperslab.advising.prices import Storage
from hyperslab.advising.probe import Probe
from hyperslab.measuring import locks, probe_directories
from hyperslab.planning import (
    invocation,
    progress,
    run_course,
    sites_table,
    slurm,
    slurm_patches,
    study_checks,
)
from hyperslab.planning.batch_jobs import BatchJobs
from hyperslab.planning.batches import USED_SHARE, Batch, split
from hyperslab.planning.cell_jobs import CellJobs
from hyperslab.planning.confirmation import RUN_VARIABLE
from hyperslab.planning.drawings import Drawing, most_together
from hyperslab.planning.inventory import Inventory
from hyperslab.planning.invocation import Invocation
from hyperslab.planning.page_inputs import PageInputs
from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.planning.reachability import left_out
from hyperslab.planning.request import Request
from hyperslab.planning.reruns import Reruns
from hyperslab.planning.site_checks import RESERVE_BYTES, largest_bytes
from hyperslab.planning.study_checks import check_room
from hyperslab.records import Cell
from hyperslab.sites import mounts, places, roots
from hyperslab.sites.configuration import load_sites
from hyperslab.sites.places import Place
from hyperslab.validation.errors import ConfigurationError


def inventory(
    directory: Path, platform: dict[str, Any], site: dict[str, Any], **file_system: Any
) -> Inventory:
    """A project with the study `mine` at a site `far` of a cluster."""
    (directory / "config/studies").mkdir(parents=True, exist_ok=True)
    study = {**yaml.safe_load(BASE), "sites": ["far"]}
    (directory / "config/studies/mine.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    content = {
        "platforms": {"nodes": {"executor": "slurm", **platform}},
        "file_systems": {"shared": {"root": str(directory / "files")} | file_system},
        "sites": {"far": {"platform": "nodes", "file_system": "shared", **site}},
    }
    file = directory / "config/sites.yaml"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    return Inventory(directory, load_sites(file), file, {}, "")


class Resources(dict[str, Any]):
    """Resources of a job as plug-ins read them."""

    __getattr__ = dict.__getitem__


@pytest.mark.parametrize(
    ("platform", "option"),
    [
        # All processors of the node: the plug-in asks for none, and the step of a job has what the job has.
        ({}, ""),
        ({"exclusive": False}, "--cpus-per-task=1"),
        ({"exclusive": False, "cpus": 8}, "--cpus-per-task=8"),
        ({"cpus": 8}, "--cpus-per-task=8"),
    ],
)
def test_a_batch_has_the_processors_of_its_node_or_those_that_are_asked_for(
    tmp_path: Path, platform: dict[str, Any], option: str
) -> None:
    # Not by whoever only collects tests: it takes a second.
    from snakemake_executor_plugin_slurm_jobstep import get_cpu_setting

    asked = BatchJobs(inventory(tmp_path, platform, {})).resources("far")
    job: Any = SimpleNamespace(threads=1, resources=Resources(asked))
    assert get_cpu_setting(job, gpu=False) == option


def test_what_is_said_of_a_batch_whose_time_was_over_tells_if_it_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    jobs, study = BatchJobs(found := inventory(tmp_path, {}, {})), found.study("mine")
    (batch,) = jobs.of("mine", "far")
    jobs.note([study], "main")

    def said(attempt: int) -> tuple[str, bool]:
        wildcards = SimpleNamespace(study="mine", batch=batch.name)
        rule, params = SimpleNamespace(name="batch_far"), SimpleNamespace(site="far")
        job = SimpleNamespace(rule=rule, wildcards=wildcards, params=params, attempt=attempt, restart_times=1)
        return jobs.judge(job, "TIMEOUT")

    for attempt, words in ((1, "and goes on where it stopped"), (2, "and no attempt is left")):
        # It came further than the attempt before.
        record = Path(jobs.records(study, "far", batch.name)[attempt])
        record.parent.mkdir(parents=True, exist_ok=True)
        record.touch()
        text, again = said(attempt)
        assert again and words in text and "platforms.nodes.minutes" in text
    text, again = said(1)
    assert not again and "for one cell" in text


def test_batches_side_by_side_need_room_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wide = {"concurrency": 4}
    needed = 4 * largest_bytes(inventory(tmp_path, {}, wide).study("mine")) + RESERVE_BYTES
    for cap, fits in ((needed, True), (needed - 1, False)):
        found = inventory(tmp_path, {}, wide, cap_bytes=cap)
        if fits:
            check_room(found.study("mine"), ["far"], found)
            continue
        with pytest.raises(ConfigurationError, match="for 4 test artifacts at once"):
            check_room(found.study("mine"), ["far"], found)
        # Inside a batch the artifacts of others take their room already.
        roots.prepare(str(tmp_path / "files"), roots.Root())
        found.batched = "far"
        check_room(found.study("mine"), ["far"], found)


def test_values_that_are_copied_from_a_donor_need_room_beside_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    results, told = tmp_path / "results", os.statvfs
    (results / "mine").mkdir(parents=True)
    full = SimpleNamespace(f_bavail=512, f_frsize=4096, f_files=0, f_favail=0)
    monkeypatch.setattr(os, "statvfs", lambda place: full if Path(place) == results else told(place))

    def check(rows: int) -> PlannedStudy:
        np.save(tmp_path / "donor.npy", np.zeros((rows, 30, 400), "f8"))
        found = inventory(tmp_path, {}, {})
        file = tmp_path / "config/studies/mine.yaml"
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        content["dataset"] |= {"dtype": "float64", "donor": {"path": str(tmp_path / "donor.npy")}}
        file.write_text(yaml.safe_dump(content), encoding="utf-8")
        check_room(study := found.study("mine"), ["far"], found)
        return study

    # Only what the donor holds is copied, however large the array is.
    study = check(10)
    with pytest.raises(ConfigurationError, match=r"/results: has no room for 1\.92 MB of values that mine "):
        check(20)
    Path(study.donor_copy).touch()
    check(20)


def test_values_that_are_copied_from_a_donor_need_room_beside_test_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save(tmp_path / "donor.npy", np.zeros((20, 30, 400), "f8"))
    found = inventory(tmp_path, {}, {})
    file = tmp_path / "config/studies/mine.yaml"
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    content["dataset"] |= {"dtype": "float64", "donor": {"path": str(tmp_path / "donor.npy")}}
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    study = found.study("mine")
    both = largest_bytes(study) + RESERVE_BYTES + 20 * 30 * 400 * 8
    free = SimpleNamespace(f_bavail=both, f_frsize=1, f_files=0, f_favail=0)
    monkeypatch.setattr(os, "statvfs", lambda _: free)
    check_room(study, ["far"], found)
    free.f_bavail -= 1
    with pytest.raises(ConfigurationError, match="GB beside what is copied of its donor, but study mine"):
        check_room(study, ["far"], found)
    # Where it is copied already, it takes its room already.
    Path(study.donor_copy).parent.mkdir(parents=True)
    Path(study.donor_copy).touch()
    check_room(study, ["far"], found)


@pytest.mark.parametrize("workers", ["processes", "ranks", "dask"])
def test_workers_that_srun_starts_are_refused_where_a_site_is_throttled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for cgroup in (None, "/sys/fs/cgroup/slow"):
        found = inventory(tmp_path, {}, {}, **({"cgroup": cgroup} if cgroup else {}))
        file = tmp_path / "config/studies/mine.yaml"
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        content["cases"]["deviation"] = {"summaries": {"z": "all"}, workers: [2]}
        file.write_text(yaml.safe_dump(content), encoding="utf-8")
        if cgroup and workers != "processes":
            said = "cases.deviation: srun starts these workers outside of the cgroup .* site 'far'$"
            with pytest.raises(ConfigurationError, match=said):
                check_room(found.study("mine"), ["far"], found)
        else:
            check_room(found.study("mine"), ["far"], found)


def test_jobs_that_measure_nothing_are_charged_to_the_account_of_the_first_site(tmp_path: Path) -> None:
    platform = {"partition": "regular", "account": "m1", "qos": "debug", "constraint": "cpu", "minutes": 7}
    found = inventory(tmp_path, platform, {})
    where = {"slurm_partition": "regular", "slurm_account": "m1", "qos": "debug", "constraint": "cpu"}
    assert BatchJobs(found).aside == where
    assert where.items() <= BatchJobs(found).resources("far").items()
    found = inventory(tmp_path, {}, {})
    assert BatchJobs(found).aside == {}
    found = inventory(tmp_path, platform, {})
    found.left_out["far"] = "no cluster here"
    assert BatchJobs(found).aside == {}


def test_a_job_with_too_little_memory_for_warm_files_is_told_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def said(memory_mb: int) -> list[str]:
        found = inventory(tmp_path, {"memory_mb": memory_mb}, {})
        batches = BatchJobs(found)
        return [*progress.lines(found, batches, Reruns(found, batches, ""), ["mine"])]

    # The largest file has less than a megabyte.
    assert said(1001) == []
    (line,) = said(1000)
    assert "warm reads of the largest files may be left out" in line
    assert line.endswith(f"raise platforms.nodes.memory_mb in {tmp_path}/config/sites.yaml to 1001")


def test_jobs_that_measure_nothing_ask_for_no_more_time_than_their_platform_gives(tmp_path: Path) -> None:
    found = inventory(tmp_path, {"minutes": 60}, {})
    assert [BatchJobs(found).minutes_aside(wanted) for wanted in (30, 61)] == [30, 60]
    found = inventory(tmp_path, {"minutes": 60}, {})
    found.left_out["far"] = "no cluster here"
    assert BatchJobs(found).minutes_aside(61) == 61


def test_jobs_of_pages_ask_together_for_no_more_time_than_their_platform_gives(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    def asked(minutes: int, jobs: int) -> dict[str, Any]:
        found = inventory(tmp_path, {"partition": "short", "minutes": minutes}, {})
        return BatchJobs(found).aside_for_pages(jobs)

    assert asked(20, 1) == {"slurm_partition": "short", "runtime": 20}
    # As a group they take the time of all.
    assert asked(60, 3)["runtime"] == 20
    assert asked(2, 3)["runtime"] == 1
    # What the profile says stays where it fits.
    assert asked(90, 3) == asked(30, 1) == {"slurm_partition": "short"}
    names = [Drawing(study, site, ("sizes",), scored=False) for study in "ab" for site in ("x", "y")]
    assert (most_together(names), most_together([])) == (3, 1)
    files = (pytestconfig.rootpath / "rules").glob("*.smk")
    rules = [rule for file in files for rule in file.read_text("utf-8").split("\nrule ")]
    of_pages = [rule for rule in rules if "localrule: PLAN.aggregate_here" in rule]
    assert len(of_pages) == 9
    assert all("**PLAN.batches.aside_for_pages()" in rule or "**FOR_" in rule for rule in of_pages)


def test_roots_on_the_servers_of_one_file_system_are_not_measured_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mount_of(path: str) -> mounts.Mount:
        if path.startswith("/scratch/"):
            return mounts.Mount("/scratch", "lustre", "10.0.0.1@tcp:/scratch", "rw")
        return mounts.Mount("/", "ext4", "/dev/sda1", "rw")

    monkeypatch.setattr(mounts, "mount_of", mount_of)
    roots_of = {"wide": "/scratch/wide", "narrow": "/scratch/narrow", "one": "/one", "other": "/other"}
    content: dict[str, Any] = {
        "platforms": {"nodes": {"executor": "slurm"}},
        "file_systems": {name: {"root": root} for name, root in roots_of.items()},
        "sites": {name: {"platform": "nodes", "file_system": name} for name in roots_of},
    }
    content["file_systems"]["inside"] = {"root": "/scratch/inside", "node_local": True}
    content["sites"]["inside"] = {"platform": "nodes", "file_system": "inside", "concurrency": 2}
    content["sites"]["login"] = {"file_system": "narrow"}
    (file := tmp_path / "sites.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    jobs = CellJobs(Inventory(tmp_path, load_sites(file), file, {}, ""), tmp_path)
    slots = {name: jobs.slots_of(name) for name in content["sites"]}
    assert slots["wide"] == slots["narrow"] == {"slot_file_system_wide": 1}
    assert slots["login"] == {"slot_file_system_wide": 1, "slot_platform_local": 1}
    # Of a file system that is none of servers the nodes may have one each, as of disks inside them.
    assert [slots[name] for name in ("one", "other", "inside")] == [
        {f"slot_file_system_{name}": 1} for name in ("one", "other", "inside")
    ]
    assert jobs.slots["slot_file_system_wide"] == 1


def test_a_run_looks_at_the_mounts_of_its_own_sites_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server of another one may be away, and whoever looks there waits for it."""
    looked: list[str] = []

    def mount_of(path: str) -> mounts.Mount:
        looked.append(path)
        return mounts.Mount("/", "ext4", "/dev/sda1", "rw")

    monkeypatch.setattr(mounts, "mount_of", mount_of)
    found = inventory(tmp_path, {}, {})
    found.sites["away"] = {**found.sites["far"], "name": "away", "root": "/away"}
    found.used = frozenset(["far"])
    assert CellJobs(found, tmp_path).slots_of("far") == {"slot_file_system_shared": 1}
    assert looked == [str(tmp_path / "files")]


def test_what_is_far_away_is_cut_into_more_jobs(tmp_path: Path) -> None:
    found = inventory(tmp_path, {"minutes": 60}, {})
    assert len(BatchJobs(found).of("mine", "far")) == 1
    found = inventory(tmp_path, {"minutes": 60}, {})
    found.sites["far"]["store"] = {"latency_ms": 0.0, "bandwidth": 1e4}
    assert len(BatchJobs(found).of("mine", "far")) > 1


ROUNDS = [(f"layout{layout}", "slices", f"r{number}") for number in range(3) for layout in range(3)]


def parts(cells: list[Cell], seconds: list[float], count: int) -> list[list[Cell]]:
    """The cells of each of `count` batches, which together are all of them."""
    found = [Batch("main", index, count).of(cells, seconds) for index in range(count)]
    assert [cell for part in found for cell in part] == cells
    return found


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_round_is_one_block_where_there_are_no_more_batches_than_rounds(count: int) -> None:
    found = parts(ROUNDS, [1.0, 5.0, 1.0] * 3, count)
    rounds = [{round_ for _, _, round_ in part} for part in found]
    assert all(rounds) and sum(map(len, rounds)) == 3


@pytest.mark.parametrize("count", [4, 7, 9])
def test_more_batches_than_rounds_take_about_the_same_time(count: int) -> None:
    seconds = [1.0, 5.0, 1.0] * 3
    taken = dict(zip(ROUNDS, seconds, strict=True))
    sums = [sum(taken[cell] for cell in part) for part in parts(ROUNDS, seconds, count)]
    assert all(sums) and max(sums) <= sum(seconds) / count + max(seconds)


def test_no_batch_is_empty_where_one_cell_takes_nearly_all_the_time() -> None:
    assert [len(part) for part in parts(ROUNDS[:3], [100.0, 1.0, 1.0], 3)] == [1, 1, 1]


def test_no_job_gets_more_whole_rounds_than_fit_into_it() -> None:
    cells = [("layout", "slices", f"r{number}") for number in range(12)]
    seconds, minutes = [100.0] * 12, 4
    # All of it would fit into 9 jobs, each of which holds one round and a half.
    batches = split("main", cells, seconds, 1, minutes)
    sums = [100.0 * len(part) for part in parts(cells, seconds, len(batches))]
    assert max(sums) <= minutes * 60 * USED_SHARE


@pytest.mark.parametrize(
    ("standing", "unneeded"), [("today", True), ("older protocol", True), ("stale", False)]
)
def test_no_job_is_submitted_for_records_that_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, standing: str, unneeded: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    found = inventory(tmp_path, {}, {})
    study = found.study("mine")
    for record in map(Path, found.records_of(study, "far")):
        record.parent.mkdir(parents=True, exist_ok=True)
        record.touch()
    monkeypatch.setattr(PlannedStudy, "standing", lambda *_: standing)
    jobs = BatchJobs(found)
    assert bool(Reruns(found, jobs, "").markers(study, "far", "main")) != unneeded


def test_no_job_is_submitted_for_a_batch_of_which_every_record_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where `minutes` was raised, so that there are fewer batches than when it was measured."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        PlannedStudy, "standing", lambda _, record, cell: "today" if record.exists() else "stale"
    )
    found = inventory(tmp_path, {}, {"concurrency": 3})
    study, jobs = found.study("mine"), BatchJobs(found)
    *measured, last = found.records_of(study, "far")
    for record in map(Path, measured):
        record.parent.mkdir(parents=True, exist_ok=True)
        record.touch()
    first, _, third = jobs.markers(study, "far")

    def wanted(remeasure: str = "") -> list[str]:
        return Reruns(found, jobs, remeasure).markers(study, "far", "main")

    assert wanted() == [third]
    assert wanted("far/*.r0") == [first, third]
    # When it is done the tables wait for no other file, or they would be made again.
    for done in map(Path, (last, third)):
        done.parent.mkdir(parents=True, exist_ok=True)
        done.touch()
    assert wanted() == [third]


def test_partitions_are_asked_once_how_many_nodes_they_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def said(*command: str) -> str:
        asked.append(command[0])
        # Beside names of partitions sinfo refuses --all.
        assert "--Node" in command and "--all" not in command
        return "n1 regular*\nn2 regular*\nn3 regular*\nn3 hidden\nn4 hidden\n"

    monkeypatch.setattr(slurm, "_said", said)
    slurm.node_count.cache_clear()
    found = inventory(tmp_path, {"partition": "regular,hidden"}, {}, node_local=True)
    assert [found.concurrency("far") for _ in range(3)] == [4, 4, 4]
    assert asked == ["sinfo"]
    assert slurm.node_count(None) == 3
    slurm.node_count.cache_clear()


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cluster with three partitions, one of them hidden."""
    program = tmp_path / "bin/sinfo"
    program.parent.mkdir()
    listed = "short 30:00\nday 1-12:00:30\n"
    program.write_text(
        f'#!/bin/sh\nprintf "{listed}"\ncase "$*" in *--all*) echo "hidden infinite";; esac\n', "utf-8"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    slurm.partitions.cache_clear()
    yield
    slurm.partitions.cache_clear()


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("platform", "why"),
    [
        ({"partition": "short,day"}, None),
        ({"partition": "hidden"}, None),
        ({}, None),
        ({"partition": "short,night"}, "this cluster has no partition 'night', only day, hidden, short"),
    ],
)
def test_hidden_partitions_and_lists_of_them_are_reached(
    tmp_path: Path, platform: dict[str, Any], why: str | None
) -> None:
    sites = inventory(tmp_path, platform, {}).sites
    assert left_out(sites, Invocation(executor="slurm"), True, "", False) == ({"far": why} if why else {})


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("platform", "said"),
    [
        ({"partition": "short", "minutes": 30}, None),
        (
            {"partition": "short", "minutes": 31},
            "31 min are more than jobs of partition short may take, 30 min",
        ),
        ({"partition": "short", "minutes": 31, "qos": "long"}, None),
        ({"partition": "short,day", "minutes": 2160}, None),
        ({"partition": "day", "minutes": 2161}, "partition day may take, 2160.5 min"),
        ({"partition": "short,day", "minutes": 2161}, "partitions short, day may take, 2160.5 min"),
        ({"partition": "short,hidden", "minutes": 2161}, None),
        ({"minutes": 2161}, None),
    ],
)
def test_more_minutes_than_a_partition_gives_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: dict[str, Any], said: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    found = inventory(tmp_path, platform, {})
    if said is None:
        check_room(found.study("mine"), ["far"], found)
        return
    with pytest.raises(ConfigurationError, match=f"sites.yaml: platforms.nodes.minutes: .*{said}$"):
        check_room(found.study("mine"), ["far"], found)


@pytest.mark.parametrize(("site", "count"), [({}, 3), ({"concurrency": 5}, 5)])
def test_disks_of_many_nodes_tear_no_round_unless_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, site: dict[str, Any], count: int
) -> None:
    monkeypatch.setattr(slurm, "node_count", lambda _: 40)
    found = inventory(tmp_path, {}, site, node_local=True)
    batches, cells = BatchJobs(found).of("mine", "far"), found.cells(found.study("mine"), "far", "main")
    assert len(batches) == count
    rounds = [{round_ for _, _, round_ in part} for part in parts(cells, [1.0] * len(cells), count)]
    whole = sum(map(len, rounds)) == 3
    assert whole == (not site)


def test_a_batch_leaves_no_marker_of_when_its_cells_were_shared_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = ("r0of1", "r2of3")
    kept = ("r1of2", "c0of1", "a1r0of1", "mine")
    for name in (*others, *kept):
        (tmp_path / f"{name}.json").touch()
    monkeypatch.setenv(RUN_VARIABLE, json.dumps({"snakefile": "Snakefile", "config": {}, "triggers": []}))
    monkeypatch.setattr(batch, "restarts", lambda: "0")
    # It is killed before it has measured anything.
    monkeypatch.setattr(batch, "_status_of", lambda *_: 1)
    words = ["--study", "mine", "--site", "far", "--batch", "r0of2"]
    monkeypatch.setattr(sys, "argv", ["batch", *words, "--output", str(tmp_path / "r0of2.json")])
    with pytest.raises(SystemExit, match="not every cell could be measured"):
        batch.main()
    assert {file.stem for file in tmp_path.glob("*.json")} == set(kept)


def executor() -> Any:
    """What the plug-in has before it is patched, as far as that is asked for."""
    return SimpleNamespace(
        run_uuid="1-2-3", _fallback_account_arg=None, next_seconds_between_status_checks=10, active_jobs=[],
        wait=False, check_active_jobs=None, run_jobs=None, report_job_success=None, report_job_error=None,
    )  # fmt: skip


def begun(name: str) -> str:
    """What the jobs of a run are named that begins now."""
    submits = executor()
    workflow = SimpleNamespace(scheduler=SimpleNamespace(_executor=submits))
    slurm_patches.begin(workflow, name, "*.json", lambda *_: ("", True))
    return slurm_patches.job_name(workflow)


def test_a_run_cancels_its_jobs_and_those_inside_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "has_accounting", lambda: True)
    monkeypatch.setenv(slurm_patches.OUTER_VARIABLE, "")
    outer = begun("mine")
    inner = begun("mine")
    assert (outer, inner) == ("mine_1-2-3", "mine_1-2-3_1-2-3")
    # A second run from the same directory measures the same study at other sites.
    queue = {"1": outer, "2": inner, "3": "mine_4-5-6", "4": f"{outer}4", "5": "an\nother"}
    cancelled: list[str] = []

    def said(command: str, *options: str) -> str:
        if command == "scancel":
            cancelled.extend(options)
        return "\n".join(f"{job}|{name}" for job, name in queue.items())

    monkeypatch.setattr(slurm, "_said", said)
    slurm.cancel_jobs("")
    assert not cancelled
    slurm.cancel_jobs(outer)
    assert cancelled == ["1", "2"]


STORAGE = Storage(
    latency_s=100e-6, waited_s=1e-9, ahead_s=0.5e-9, cached_s=0.1e-9, lookup_s=5e-6, open_s=5e-4,
    read_ahead_bytes=2**17,
)  # fmt: skip
PROBE = Probe(STORAGE, 0.0, {"cpu": 0.0}, 1000.0, 8 * 10**9)


def test_a_root_that_only_its_node_knows_is_probed_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site = {"root": "$ONLY_THERE/files", "node_local": True}
    found = inventory(tmp_path, {}, {}, **site)
    places: list[Path] = []

    def storage(place: Path, *_: Any) -> Probe:
        places.append(place)
        return PROBE

    def srun(command: list[str], **_: Any) -> Any:
        assert command[0] == "srun"
        monkeypatch.setattr(sys, "argv", command[command.index("hyperslab.probe_site") :])
        with monkeypatch.context() as node:
            node.setenv("ONLY_THERE", str(tmp_path))
            node.setattr(probe_site, "storage", storage)
            probe_site.main()
        return SimpleNamespace(returncode=0, stdout=capsys.readouterr().out)

    monkeypatch.setattr(subprocess, "run", srun)
    assert at_sites.probed(found.sites["far"], zarr=False, sites=found.sites_file) == PROBE
    assert places == [tmp_path / "files"]
    with pytest.raises(SystemExit, match="^hyperslab.probe_site: .* ONLY_THERE is not set$"):
        probe_site.main()


def of_root(root: Path) -> Any:
    """The options of a probe of a root."""
    return SimpleNamespace(root=root, file=None, cgroup=None, read_ahead_bytes=None, zarr=False)


@pytest.mark.usefixtures("own_locks")
def test_a_probe_takes_no_root_from_a_run_that_begins_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "new" / "files"

    def storage(*_: Any) -> Probe:
        roots.prepare(str(root), roots.Root())
        return PROBE

    monkeypatch.setattr(probe_site, "storage", storage)
    assert probe_site.probed(of_root(root)) == PROBE
    assert roots.identity_of(str(root))


@pytest.mark.usefixtures("own_locks")
def test_two_probes_of_a_new_root_at_once_do_not_take_it_from_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "new" / "files"

    def storage(place: Path, *_: Any) -> Probe:
        time.sleep(0.2)
        assert place.is_dir()
        return PROBE

    monkeypatch.setattr(probe_site, "storage", storage)
    with ThreadPoolExecutor() as pool:
        assert list(pool.map(probe_site.probed, [of_root(root)] * 2)) == [PROBE, PROBE]
    assert not (tmp_path / "new").exists()


# It is told to end while it has a directory in the root; what comes before is left out.
TERMINATED = """
import os, runpy, signal
from pathlib import Path
from hyperslab.advising import probe
from hyperslab.measuring.probe_directories import PREFIX
def library(path):
    assert list(Path("new/files").glob(f"{PREFIX}*/"))
    path.touch()
    os.kill(os.getpid(), signal.SIGTERM)
probe._write = probe._reads = lambda *_: {}
probe._library = library
runpy.run_module("hyperslab.probe_site", run_name="__main__")
"""


@pytest.mark.usefixtures("own_locks")
def test_a_probe_that_is_told_to_end_leaves_nothing_in_its_root(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TERMINATED, "--root", "new/files"],
        cwd=tmp_path, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "hyperslab.probe_site: interrupted\n")
    assert not (tmp_path / "new").exists()


@pytest.mark.usefixtures("own_locks")
def test_what_a_killed_probe_leaves_in_its_root_is_named_and_removed_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TERMINATED.replace("SIGTERM", "SIGKILL"), "--root", "new/files"],
        cwd=tmp_path, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL
    root = tmp_path / "new" / "files"
    (left,) = root.glob(f"{probe_directories.PREFIX}*")
    assert sites_table._folders(str(root)) == [left.name]
    # A living probe holds this lock.
    with locks.in_root(str(root)):
        probe_directories.sweep(root)
    assert left.exists()
    monkeypatch.setattr(probe_site, "storage", lambda *_: PROBE)
    assert probe_site.probed(of_root(root)) == PROBE
    assert not left.exists()


@pytest.mark.usefixtures("own_locks")
def test_nothing_is_timed_on_a_node_while_a_file_is_read_to_probe_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def storage_of_file(*_: Any) -> Probe:
        with pytest.raises(locks.HeldElsewhere), locks.exclusive(locks._of_node(), wait=False):
            pass
        return PROBE

    monkeypatch.setattr(probe_site, "storage_of_file", storage_of_file)
    options = of_root(tmp_path)
    options.file = tmp_path / "mine.h5"
    assert probe_site.probed(options) == PROBE


def test_an_emptied_root_is_judged_on_its_node_where_this_machine_mounts_it_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = inventory(tmp_path, {}, {})
    study, root = found.study("mine"), str(tmp_path / "files")
    monkeypatch.setattr(study_checks, "_places", lambda _: [Place("lustre", "server:/scratch", "one")])

    def prepared(batched: str, kind: str, source: str) -> str:
        """The identity of the root when it is prepared by a run that finds it mounted so."""
        found.batched = batched
        monkeypatch.setattr(places, "place_of", lambda _, *known: Place(kind, source, *known))
        study_checks.prepare_roots(study, ["far"], found)
        return roots.identity_of(root)

    assert prepared("", "nfs4", "login:/scratch") == ""
    with pytest.raises(ConfigurationError, match="is lustre on other:/scratch now, "):
        prepared("far", "lustre", "other:/scratch")
    assert prepared("far", "lustre", "server:/scratch") == "one"
    assert prepared("", "nfs4", "login:/scratch") == "one"
    # A root that vanishes while the run goes on is another matter.
    (tmp_path / "files" / roots.MARKER).unlink()
    with pytest.raises(ConfigurationError, match="was there when the run began"):
        prepared("far", "lustre", "server:/scratch")


def test_metadata_on_a_disk_in_each_node_are_a_matter_of_the_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OF_A_NODE", raising=False)
    inventory(tmp_path, {}, {})
    file, sites = tmp_path / "config/studies/mine.yaml", tmp_path / "config/sites.yaml"
    driver = {"name": "split", "metadata_on": "own"}
    study = {**yaml.safe_load(BASE), "sites": ["far"], "layouts": {"apart": {"settings": {"driver": driver}}}}
    for key in ("grids", "score", "recommendation"):
        del study[key]
    study["cases"] = {"slices": study["cases"]["slices"]}
    file.write_text(yaml.safe_dump(study), encoding="utf-8")
    content = yaml.safe_load(sites.read_text(encoding="utf-8"))
    content["file_systems"]["own"] = {"root": "$OF_A_NODE/files", "node_local": True}
    content["sites"]["near"] = {"platform": "nodes", "file_system": "own"}
    sites.write_text(yaml.safe_dump(content), encoding="utf-8")

    def prepared(batched: str) -> None:
        found = Inventory(tmp_path, load_sites(sites, batched), sites, {}, batched)
        planned = found.study("mine")
        check_room(planned, ["far"], found)
        study_checks.prepare_roots(planned, ["far"], found)

    # The machine where jobs are submitted has no such disk, and nothing is made of the name of a variable.
    prepared("")
    assert not list(tmp_path.glob("$*"))
    with pytest.raises(ConfigurationError, match=r"own.root: \$OF_A_NODE/files: .* OF_A_NODE is not set"):
        prepared("far")
    monkeypatch.setenv("OF_A_NODE", str(tmp_path / "disk"))
    prepared("far")
    assert roots.is_prepared(str(tmp_path / "disk/files"))


def test_a_batch_that_would_measure_nothing_is_not_forced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_course, "check_room", lambda *_: None)
    found = inventory(tmp_path, {}, {})
    batches = BatchJobs(found)
    (marker,) = batches.markers(found.study("mine"), "far")

    def check(options: str, remeasure: str = "") -> None:
        called = invocation.read(("--cores", "1", *options.split(), "--", "results/mine/report.html"))
        reruns = Reruns(found, batches, remeasure)
        cells, inputs = CellJobs(found, tmp_path), PageInputs(found, reruns)
        course = run_course.RunCourse(
            Request({}, called, tmp_path), found, cells, batches, reruns, inputs, ["mine"]
        )
        course._check([marker], lambda _: True)

    forced = {f"--forcerun {name}": "--forcerun" for name in ("batch_far", f"./{marker}")}
    forced |= {"--forceall": "--forceall"}
    for options in forced:
        # Its records are missing.
        check(options)
    monkeypatch.setattr(PlannedStudy, "standing", lambda *_: "today")
    check("--forcerun summarise")
    for options, option in forced.items():
        with pytest.raises(ConfigurationError) as error:
            check(options)
        assert str(error.value) == (
            f"{option}: batch r0of1 of far has all its records, and its job would measure nothing: "
            "--config remeasure='far/*' has them measured again"
        )
        check(options, "far/*")
