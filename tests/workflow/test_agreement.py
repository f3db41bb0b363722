"""Whatever happened before, the next plain run makes records, tables and report agree; no record is lost."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import preloaded
import pytest
import yaml
from clones import LONGEST_SECONDS, REPORT, TINY, Clone
from faulty import CellProcess, catch, cell_processes, left_behind, snapshot, wait_for

CELL = "disk/auto/slices.r1"
RECORD = f"results/tiny/cells/{CELL}.json"
SUMMARY = "results/tiny/summary.csv"
CONFIRMED = "results/tiny/confirmation.json"
# Where a few cells tell as much.
FEW = {
    **TINY,
    "layouts": {name: TINY["layouts"][name] for name in ("contiguous", "auto")},
    "cases": {"slices": TINY["cases"]["slices"]},
    "rounds": 1,
}
REMEASURE = ("--config", f"remeasure={CELL}", "--", REPORT)


def in_tables(clone: Clone) -> bool:
    """Whether the table holds the very times of the records."""
    results = clone.directory / "results/tiny"
    table = pd.read_parquet(results / "measurements.parquet")
    # Three layouts and rounds of ten selections, and the writes.
    if len(table) != 3 * 3 * 10 + 3 * 2:
        return False
    for name, rows in table.groupby(["site", "layout", "case", "round"]):
        site, layout, case, number = name
        record = json.loads((results / f"cells/{site}/{layout}/{case}.r{number}.json").read_text())
        if sorted(rows["time_s"]) != sorted(row["time_s"] for row in record["repeats"]):
            return False
    return True


def in_report(clone: Clone) -> bool:
    """Whether the report is not older than such a table."""
    results = clone.directory / "results/tiny"
    report, made_of = (results / name for name in ("report.html", "measurements.parquet"))
    return in_tables(clone) and report.stat().st_mtime_ns >= made_of.stat().st_mtime_ns


def interrupted(clone: Clone, *arguments: str) -> CellProcess:
    """Ctrl-C while a cell of the clone is measured."""
    with clone.running(*arguments) as process:
        caught = catch("measure", clone.directory / "testfiles")
        os.killpg(process.pid, signal.SIGINT)
        caught.send(signal.SIGCONT)
    assert process.returncode != 0
    return caught


def test_an_interrupted_remeasure_leaves_the_old_record_and_true_tables(clone: Clone) -> None:
    before = snapshot(clone.directory / "results")
    interrupted(clone, *REMEASURE)
    assert snapshot(clone.directory / "results") == before
    clone.build(REPORT)
    assert before.keys() <= snapshot(clone.directory / "results").keys()
    assert in_report(clone)
    assert not clone.planned(REPORT)


def test_a_failed_remeasure_leaves_the_old_record_and_is_said_without_its_command(clone: Clone) -> None:
    before = snapshot(clone.directory / "results")
    with clone.running(*REMEASURE) as process:
        caught = catch("measure", clone.directory / "testfiles")
        caught.send(signal.SIGKILL)
    assert process.returncode == 1
    assert snapshot(clone.directory / "results") == before
    assert not left_behind(clone.directory / "testfiles")
    printed = clone.log(*REMEASURE).read_text(encoding="utf-8")
    assert "might be corrupted" not in printed
    assert "Error in rule measure_disk" in printed
    assert "--specification" not in printed and "HYPERSLAB_" not in printed
    last = [line for line in printed.splitlines() if line.startswith("hyperslab: ")][-1]
    assert "not everything could be done" in last
    assert last.endswith(f"{REPORT} shows the records that are there, as before this run")
    clone.build(SUMMARY)
    assert in_tables(clone)


def test_a_changed_study_keeps_what_it_measured_until_there_is_another(clone: Clone) -> None:
    before = snapshot(clone.directory / "results")
    changed = {**copy.deepcopy(TINY), "repeats": {**TINY["repeats"], "cold": 4}}
    clone.write_study("tiny", changed)
    caught = interrupted(clone, REPORT)
    gone = caught.record(clone.directory / "results/tiny/cells/disk")
    assert not gone.exists()
    clone.write_study("tiny", TINY)
    clone.build("--config", "measure=false", "--", SUMMARY)
    now = snapshot(clone.directory / "results")
    name = str(gone.relative_to(clone.directory / "results"))
    assert now[name] == before[name]
    assert in_tables(clone)


def test_a_killed_snakemake_leaves_tables_that_the_next_run_makes_again(clone: Clone) -> None:
    before = snapshot(clone.directory / "results")
    root = clone.directory / "testfiles"
    with clone.running(*REMEASURE) as process:
        caught = catch("measure", root)
        process.kill()
        caught.send(signal.SIGCONT)
    wait_for(lambda: not cell_processes("measure", root), "the orphan to end")
    after = snapshot(clone.directory / "results")
    assert {name for name in after if after[name] != before[name]} == {RECORD.removeprefix("results/")}
    clone.build("--unlock", REPORT)
    clone.build(SUMMARY)
    assert in_tables(clone)
    plan = clone.planned(REPORT)
    assert plan["report"] == 1 and not {"measure_disk", "summarise"} & plan.keys()


def test_a_record_that_was_exchanged_unnoticed_is_in_the_next_tables(clone: Clone) -> None:
    record = clone.directory / RECORD
    kept = record.stat()
    content = json.loads(record.read_text(encoding="utf-8"))
    content["repeats"][0]["time_s"] *= 2
    record.write_text(json.dumps(content), encoding="utf-8")
    os.utime(record, ns=(kept.st_atime_ns, kept.st_mtime_ns - 10**12))
    clone.build(REPORT)
    assert in_report(clone)
    # Touched or copied it is the same.
    os.utime(record)
    assert not clone.planned(REPORT)


def test_a_confirming_record_of_another_specification_is_measured_again(clone: Clone) -> None:
    results = clone.directory / "results"
    record = next(results.glob("tiny/cells/disk/*/slices.c0.json"))
    content = json.loads(record.read_text(encoding="utf-8"))
    asked = copy.deepcopy(content["specification"])
    content["specification"]["repeats"]["cold"] += 1
    # As a pack brings it: nothing that Snakemake noted says so.
    record.write_text(json.dumps(content), encoding="utf-8")
    before = snapshot(results)
    clone.build(CONFIRMED)
    assert json.loads(record.read_text(encoding="utf-8"))["specification"] == asked
    after = snapshot(results)
    assert {name for name in after if after[name] != before[name]} == {str(record.relative_to(results))}
    assert not clone.planned(CONFIRMED)


def test_a_deleted_figure_or_table_is_made_again_for_the_report(clone: Clone) -> None:
    results = clone.directory / "results/tiny"
    # Of these none comes from another.
    lost = [results / "score.json", results / "confirmation.parquet", next(results.rglob("session-*.svg"))]
    for file in lost:
        file.unlink()
    before = snapshot(clone.directory / "results")
    clone.build(REPORT)
    assert all(file.exists() for file in lost)
    assert snapshot(clone.directory / "results") == before
    # All of them come from this one.
    (results / "measurements.parquet").unlink()
    plan = clone.planned(REPORT)
    assert plan["summarise"] == plan["report"] == 1 and not plan["measure_disk"]


def test_a_moved_or_copied_directory_measures_nothing_again(clone: Clone, tmp_path: Path) -> None:
    copied = Clone(tmp_path / "copied")
    shutil.copytree(clone.directory, copied.directory, symlinks=True)
    before = snapshot(copied.directory / "results")
    copied.build(REPORT)
    assert snapshot(copied.directory / "results") == before


def test_another_root_of_a_site_is_no_reason_to_measure_again(
    clone: Clone, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PLACE", str(tmp_path / "another"))
    sites = clone.directory / "config/sites.local.yaml"
    sites.write_text("file_systems: {disk: {root: $PLACE}}\nsites: {disk: {file_system: disk}}\n")
    assert not clone.planned(REPORT)


def test_results_that_the_user_has_deleted_are_deleted(clone: Clone) -> None:
    clone.build("--delete-all-output", REPORT)
    assert not (clone.directory / RECORD).exists()
    assert not (clone.directory / REPORT).exists()


# ---- a site is the place it was


@contextlib.contextmanager
def mounted(directory: Path) -> Iterator[None]:
    """A file system of its own in `directory` for the length of a with block."""
    directory.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160m", "hyperslab-test", directory], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)


def with_root(clone: Clone, root: Path) -> None:
    """Have the site `disk` lie in this root."""
    sites = {"file_systems": {"disk": {"root": str(root)}}, "sites": {"disk": {"file_system": "disk"}}}
    (clone.directory / "config/sites.local.yaml").write_text(yaml.safe_dump(sites), encoding="utf-8")


def refusals(clone: Clone, target: str) -> Iterator[str]:
    """The one line of a run for a target, and that of a dry one, both of which refuse it."""
    for dry in ([], ["--dry-run"]):
        done = clone.run(*dry, target)
        assert done.returncode == 1
        (line,) = [line for line in done.stderr.splitlines() if line.startswith("hyperslab: ")]
        yield line


def test_a_root_that_is_another_place_stops_the_run(
    clone: Clone, tmp_path: Path, require: Callable[[str | None], None]
) -> None:
    require(None if os.geteuid() == 0 else "mounting needs root")
    root, results = tmp_path / "root", clone.directory / "results"
    shutil.rmtree(results)
    clone.write_study("tiny", FEW)
    with_root(clone, root)
    with mounted(root):
        clone.build(SUMMARY)
    before = snapshot(results)
    (results / "tiny/cells/disk/auto/slices.r0.json").unlink()
    for line in refusals(clone, SUMMARY):
        assert f"file_systems.disk.root: {root} is " in line
        assert "the records of tiny at disk were measured on tmpfs on hyperslab-test" in line
        assert not list(root.iterdir())
    # A new one of the same kind is the same place, and gets the identity that the records know.
    with mounted(root):
        clone.build(SUMMARY)
    assert snapshot(results).keys() == before.keys()
    records = [json.loads(content) for _, content in snapshot(results).values()]
    assert len({record["root"]["identity"] for record in records}) == 1
    assert {record["file_system"]["type"] for record in records} == {"tmpfs"}


def test_confirming_rounds_at_another_place_are_refused_before_anything_runs(
    clone: Clone, require: Callable[[str | None], None]
) -> None:
    require(None if os.access("/dev/shm", os.W_OK) else "/dev/shm cannot be written")
    root, before = Path("/dev/shm/hyperslab-elsewhere"), snapshot(clone.directory / "results")
    with_root(clone, root)
    chosen = {**TINY["recommendation"], "confirm_rounds": 2}
    clone.write_study("tiny", {**copy.deepcopy(TINY), "recommendation": chosen})
    for line in refusals(clone, REPORT):
        assert f"file_systems.disk.root: {root} is tmpfs on " in line
        assert "the records of tiny at disk were measured on " in line
    assert not root.exists() and snapshot(clone.directory / "results") == before


def test_results_of_several_places_are_recommended_from_only_where_the_user_says_so(clone: Clone) -> None:
    record = clone.directory / RECORD
    content = json.loads(record.read_text(encoding="utf-8"))
    content["file_system"]["type"] = "another"
    record.write_text(json.dumps(content), encoding="utf-8")
    recommendation = clone.directory / "results/tiny/recommendation.json"
    clone.build("results/tiny/recommendation.json")
    (site,) = json.loads(recommendation.read_text(encoding="utf-8"))["sites"]
    assert site["pick"] is None
    assert site["reason"].startswith("its results are of several places (another on ")
    chosen = {**TINY["recommendation"], "mixed": True}
    clone.write_study("tiny", {**copy.deepcopy(TINY), "recommendation": chosen})
    clone.build("results/tiny/recommendation.json")
    (site,) = json.loads(recommendation.read_text(encoding="utf-8"))["sites"]
    assert site["pick"]


# ---- what a run says


def test_a_remeasure_that_names_nothing_is_refused(clone: Clone) -> None:
    done = clone.run("--config", "remeasure=disk/atuo/*", "--", REPORT)
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("hyperslab: ")]
    assert line.startswith("hyperslab: --config: remeasure=disk/atuo/*: names no cell of tiny; ")
    assert "such as disk/contiguous/slices.r0" in line
    # What only sites that are left out have cannot be measured, either.
    done = clone.run("--config", f"remeasure={CELL}", "measure=False", "--", REPORT)
    assert done.returncode == 1
    assert "names only cells that this run cannot measure: disk: measure=false" in done.stderr


def test_a_dry_run_counts_the_cells_that_are_measured_again(clone: Clone) -> None:
    said = clone.build("--dry-run", "--config", "remeasure=disk/auto/slices.*", "--", REPORT)
    assert "tiny: site disk: 3 cells to measure, 3 of them again (9 there), " in said


def broken(clone: Clone, script: str) -> None:
    """Have a script of a rule end in a traceback."""
    file = clone.directory / "workflow/scripts" / script
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("def main(job: Any) -> None:", "def main(job: Any) -> None:\n    1 / 0"))


def test_a_report_that_could_not_be_made_is_not_said_to_be(clone: Clone) -> None:
    broken(clone, "summarise.py")
    done = clone.run(REPORT)
    assert done.returncode == 1
    printed = done.stdout + done.stderr
    assert printed.count("ZeroDivisionError") == 1
    assert max(map(len, printed.splitlines())) < 1000
    last = [line for line in printed.splitlines() if line.startswith("hyperslab: ")][-1]
    assert last == f"hyperslab: tiny: {REPORT} could not be made, and is still the one of before this run"
    (clone.directory / REPORT).unlink()
    done = clone.run(REPORT)
    last = [line for line in done.stderr.splitlines() if line.startswith("hyperslab: ")][-1]
    assert last == f"hyperslab: tiny: {REPORT} could not be made"


def test_a_run_ends_although_nobody_reads_what_it_says(clone: Clone) -> None:
    before = snapshot(clone.directory / "results")
    words = ("--profile", clone.profile, "--config", "remeasure=disk/auto/slices.r*", "--", SUMMARY)
    read, written = os.pipe()
    process = preloaded.begin(words, clone.directory, os.environ, written, written)
    os.close(written)
    try:
        caught = catch("measure", clone.directory / "testfiles")
        os.close(read)
        # The first that is said to nobody is that this job has failed.
        caught.send(signal.SIGKILL)
        assert process.wait(LONGEST_SECONDS / 3) == 1
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    # It went on with the two other cells, rather than ending of what it could not say.
    now = snapshot(clone.directory / "results")
    assert sum(now[name] != before[name] for name in before) == 2
