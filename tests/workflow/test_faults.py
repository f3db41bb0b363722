"""Faults on one machine, each really caused: killed cells, failing file systems, a flipped bit, two runs.

One run suffers a group of faults, each at a site of its own; then the next run is asked for the same again.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import preloaded
import pytest
import yaml
from clones import Clone, make_clone
from faulty import (
    STUDY,
    CellProcess,
    Suffered,
    catch,
    half_records,
    left_behind,
    load,
    no_load_possible,
    snapshot,
    wait_for,
)
from samples import file_specification, write_cell

import loop_file_systems
from hyperslab.measuring import probe_directories
from hyperslab.measuring.artifact import NOTE
from hyperslab.measuring.locks import ROOT_LOCK
from hyperslab.sites import roots
from hyperslab.sites.schema import LEAST_MEMORY_MB
from hyperslab.studies.specification import text

pytestmark = [pytest.mark.faults, pytest.mark.slow]

# What happens to a site, given its root and the folder of its records; a process that was caught is returned.
Fault = Callable[[Path, Path], CellProcess | None]


def with_sites(clone: Clone, name: str, roots: dict[str, Path], **more: Any) -> None:
    """Give the clone a study of this name on sites of its own, whose roots these are."""
    content = {
        "file_systems": {site: {"root": str(root)} for site, root in roots.items()},
        "sites": {site: {"file_system": site} for site in roots},
    }
    file = clone.directory / "config" / "sites.local.yaml"
    file.write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    clone.write_study(name, {**STUDY, "sites": list(roots), **more})


def suffer(suffered: Suffered, target: str, faults: Mapping[str, Fault]) -> None:
    """Run until the target, with these faults."""
    suffered.suffer(
        {site: partial(fault, suffered.roots[site], suffered.cells(site)) for site, fault in faults.items()},
        target,
    )


# ---- processes that are killed, and a bit that flips


def kill(program: str) -> Fault:
    """A fault: kill -9 of a process in the middle of its work."""

    def fault(root: Path, _: Path) -> CellProcess:
        process = catch(program, root)
        process.send(signal.SIGKILL)
        return process

    return fault


GONE_SECONDS = 1.0


def flip_a_bit(root: Path, cells: Path) -> CellProcess:
    """A fault: one bit of a test file differs when it is read, after its writer has let go of it."""
    descriptor = os.open(root / ROOT_LOCK, os.O_RDWR)
    done: list[CellProcess] = []

    def flipped() -> bool:
        # Writing and reading hold this lock, so that none of them is at work now.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            # Unlike a Path's, this glob minds no directory that goes while it looks.
            for data in map(Path, glob.iglob(f"{glob.escape(str(root))}/**/data.h5", recursive=True)):
                found = CellProcess(0, data.parent)
                if not (data.parent / NOTE).exists() or found.record(cells).exists():
                    continue
                # One that has been read is removed as soon as its record is there.
                time.sleep(GONE_SECONDS)
                if data.exists() and not found.record(cells).exists():
                    with data.open("r+b") as content:
                        content.seek(-1, os.SEEK_END)
                        last = content.read(1)[0]
                        content.seek(-1, os.SEEK_END)
                        content.write(bytes([last ^ 1]))
                    done.append(found)
                    return True
            return False
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)

    wait_for(flipped, "a test file between writing and reading", pause=0.002)
    os.close(descriptor)
    return done[0]


KILLED = {
    "killed-writing": kill("generate"),
    "killed-reading": kill("measure"),
    "killed-write-case": kill("measure"),
}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Suffered:
    """A run in which cells were killed and a bit was flipped."""
    top = tmp_path_factory.mktemp("killed")
    faults: dict[str, Fault] = {**KILLED, "flipped": flip_a_bit}
    suffered = Suffered(make_clone(top / "clone"), "killed", {site: top / site for site in [*faults, "calm"]})
    # The last byte of a contiguous file is a value.
    cases = {
        "all": {**STUDY["cases"]["all"], "sites": ["killed-*ing", "calm"]},
        "whole": {"write": "chunk", "repeats": {"write": 2}, "sites": ["killed-write-case"]},
        "plain": {**STUDY["cases"]["all"], "layouts": ["contiguous"], "sites": ["flipped"]},
    }
    with_sites(suffered.clone, "killed", suffered.roots, cases=cases)
    suffer(suffered, "results/killed/summary.csv", faults)
    return suffered


@pytest.mark.parametrize("site", KILLED)
def test_a_killed_cell_leaves_nothing_behind(killed: Suffered, site: str) -> None:
    assert killed.status == 1
    assert not killed.caught[site].record(killed.cells(site)).exists()
    assert len(killed.records(site)) == 3
    assert not killed.left


def test_a_flipped_bit_fails_its_cell_and_names_the_selection(killed: Suffered) -> None:
    flipped = killed.caught["flipped"]
    assert not flipped.record(killed.cells("flipped")).exists()
    (line,) = killed.complaints("flipped")
    assert line.startswith(f"hyperslab.measure: {flipped.artifact}: VerificationError: ")
    assert "selection 0 of state warm differs from what was written: origin (0, 0, 0), " in line
    # At once in the terminal, too.
    assert line in killed.printed
    assert len(killed.records("flipped")) == 1


def test_every_other_cell_survives_and_the_next_run_measures_what_is_missing(killed: Suffered) -> None:
    assert len(killed.records("calm")) == 4
    assert not killed.complaints("calm")
    # The summary is made of what there is.
    partial = pd.read_csv(killed.results / "killed/summary.csv")
    assert len(partial) == len(killed.after)
    # As a probe of an advice leaves it that is killed.
    dead = killed.roots["killed-writing"] / f"{probe_directories.PREFIX}dead"
    dead.mkdir()
    made = killed.clone.made("results/killed/summary.csv")
    measured = {rule: count for rule, count in made.items() if rule.startswith("measure_")}
    assert measured == {f"measure_{site}": 1 for site in killed.caught}
    now = snapshot(killed.results)
    assert {name: now[name] for name in killed.after} == killed.after
    assert len(now) == len(killed.after) + len(killed.caught)
    assert not left_behind(*killed.roots.values()) and not dead.exists()
    assert len(pd.read_csv(killed.results / "killed/summary.csv")) == len(now)


# ---- file systems that fail


def fill(root: Path, _: Path) -> None:
    """A fault: somebody else takes all the space that is left."""
    with (root / "somebody else's").open("wb") as file:
        for size in (2**20, 2**12):
            try:
                while True:
                    os.posix_fallocate(file.fileno(), file.tell(), size)
                    file.seek(size, os.SEEK_CUR)
            except OSError:
                continue


def make_read_only(root: Path, _: Path) -> None:
    """A fault: the file system takes no more writes."""

    def remounted() -> bool:
        # Refused as long as a file is open for writing.
        command = ["mount", "-o", "remount,ro", str(root)]
        return subprocess.run(command, capture_output=True).returncode == 0

    wait_for(remounted, f"{root} to become read-only")


def take_away(root: Path, _: Path) -> None:
    """A fault: the file system is gone, its empty mount point stays."""
    subprocess.run(["umount", "--lazy", str(root)], check=True)


FAILING: dict[str, Fault] = {"full": fill, "read-only": make_read_only, "gone": take_away}
SAID = {
    "full": "No space left on device",
    "read-only": "Read-only file system",
    "gone": "the file system under test has vanished",
}


@pytest.fixture(scope="module")
def failing(
    tmp_path_factory: pytest.TempPathFactory, require: Callable[[str | None], None]
) -> Iterator[Suffered]:
    """A run in which three of four file systems fail."""
    require(loop_file_systems.missing("ext4"))
    top = tmp_path_factory.mktemp("failing")
    loops = loop_file_systems.Loops(top / "loops")
    loops.up([(name, "ext4") for name in FAILING], 160 * 2**20)
    try:
        roots = {"calm": top / "calm", **{name: loops.mount_point(name) for name in FAILING}}
        suffered = Suffered(make_clone(top / "clone"), "failing", roots)
        with_sites(suffered.clone, "failing", roots)
        suffer(suffered, "results/failing/summary.csv", FAILING)
        yield suffered
    finally:
        loops.down(list(FAILING))


@pytest.mark.parametrize("site", FAILING)
def test_the_cells_of_a_failing_file_system_say_why_in_one_line(failing: Suffered, site: str) -> None:
    assert failing.status == 1
    there = len(failing.records(site))
    assert 0 < there < 4
    complaints = failing.complaints(site)
    assert len(complaints) == 4 - there
    for line in complaints:
        assert re.match(r"hyperslab\.(generate|measure): .*Error: ", line)
        assert SAID[site] in line


def test_other_file_systems_go_on(failing: Suffered) -> None:
    assert len(failing.records("calm")) == 4
    assert not failing.complaints("calm")


def test_tables_are_made_of_what_is_there(failing: Suffered) -> None:
    assert "results/failing/summary.csv is made of what was measured" in failing.printed
    partial = pd.read_csv(failing.results / "failing/summary.csv")
    found = {site: len(failing.records(site)) for site in failing.roots}
    assert dict(partial["site"].value_counts()) == found


# ---- runs that are stopped, and runs that meet


def other_file_system(directory: Path) -> Path:
    """A directory of usual temporary files on another file system than `directory`."""
    devices = {os.stat(place).st_dev: Path(place) for place in ("/dev/shm", "/var/tmp", "/tmp")}
    return next(place for device, place in devices.items() if device != os.stat(directory).st_dev)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    """A clone with letters beyond ASCII and spaces in its path, whose results lie on another file system."""
    top = tmp_path_factory.mktemp("stopped") / "räume frei 自由"
    clone = make_clone(top / "klon é")
    with_sites(clone, "stopped", {"here": top / "test files ü"})
    with tempfile.TemporaryDirectory(prefix="hyperslab-", dir=other_file_system(top)) as elsewhere:
        (clone.directory / "results").symlink_to(elsewhere)
        yield clone


SUMMARY = "results/stopped/summary.csv"


@contextlib.contextmanager
def measuring(clone: Clone, root: Path) -> Iterator[tuple[preloaded.Run, CellProcess]]:
    """A run, and a process of it stopped while it measures; when the block ends, the run has ended."""
    with clone.running(SUMMARY) as process:
        caught = catch("measure", root)
        try:
            yield process, caught
        finally:
            caught.send(signal.SIGCONT)


def test_stopped_runs_leave_nothing_half_made_and_a_second_run_is_refused(stopped: Clone) -> None:
    root = stopped.directory.parent / "test files ü"
    results = stopped.directory / "results"
    cells = results / "stopped/cells/here"

    # Ctrl-C reaches the whole group of processes, as from a terminal.
    with measuring(stopped, root) as (process, caught):
        os.killpg(process.pid, signal.SIGINT)
    assert process.returncode != 0
    assert not caught.record(cells).exists()
    interrupted = snapshot(results)
    assert not left_behind(root) + half_records(results)

    # SIGTERM lets the cell finish that is being measured, and begins no other.
    with measuring(stopped, root) as (process, caught):
        finished = snapshot(results)
        process.send_signal(signal.SIGTERM)
        # The cell may only go on, and end, when the run has understood.
        understood = "Will exit after finishing currently running jobs"
        wait_for(lambda: understood in stopped.log(SUMMARY).read_text(encoding="utf-8"), "word of SIGTERM")
    assert process.returncode != 0
    assert caught.record(cells).exists()
    terminated = snapshot(results)
    assert len(terminated) == len(finished) + 1
    assert not left_behind(root) + half_records(results)
    # Nobody waits for tables after having stopped a run.
    assert not (stopped.directory / SUMMARY).exists()

    with measuring(stopped, root) as (process, caught):
        second = stopped.run(SUMMARY)
    assert second.returncode == 1
    assert "cannot be locked" in second.stderr
    assert process.returncode == 0
    assert caught.record(cells).exists()

    whole = snapshot(results)
    assert len(whole) == 4
    assert {name: whole[name] for name in terminated} == terminated
    assert {name: terminated[name] for name in interrupted} == interrupted
    assert not left_behind(root) + half_records(results)
    assert not stopped.planned(SUMMARY)
    assert os.stat(results).st_dev != os.stat(root).st_dev


# ---- load from outside, and measuring again


LOADED: dict[str, Any] = {
    "dataset": {**STUDY["dataset"], "shape": [8, 8, 256]},
    "layouts": {"contiguous": None, "4x4x256": {"chunks": [4, 4, 256]}},
    "cases": {"all": {"read": {"x": 8}, "states": ["warm"], "repeats": {"warm": 20}}},
    "rounds": 5,
}


@pytest.mark.quiet
def test_load_is_shown_by_the_probe_flagged_and_measured_again(
    tmp_path: Path, require: Callable[[str | None], None]
) -> None:
    require(no_load_possible())
    clone, target = make_clone(tmp_path / "clone"), "results/loaded/summary.csv"
    results = clone.directory / "results"
    with_sites(clone, "loaded", {"here": tmp_path / "root"}, **LOADED)

    def table() -> pd.DataFrame:
        rows = pd.read_parquet(results / "loaded/measurements.parquet")
        return rows.drop_duplicates(["layout", "round"]).set_index(["layout", "round"])

    # The last of five rounds suffers.
    with clone.running(target) as process:

        def present(count: int) -> bool:
            return len(snapshot(results)) >= count or process.poll() is not None

        wait_for(lambda: present(8), "four rounds")
        with load():
            wait_for(lambda: present(10), "the fifth round")
    assert process.returncode == 0, clone.log(target).read_text(encoding="utf-8")[-4000:]
    before, kept = table(), snapshot(results)
    loaded = before.xs(4, level="round", drop_level=False)
    quiet = before.drop(index=loaded.index)
    assert (loaded["probe_compute_s"] > 1.25 * quiet["probe_compute_s"].median()).all()
    assert loaded["noisy"].all()

    flagged = [
        f"loaded/cells/here/{layout}/all.r{number}.json" for layout, number in before.index[before["noisy"]]
    ]
    clone.build("--config", "remeasure=noisy", "--", target)
    now = snapshot(results)
    assert {name for name in now if now[name] != kept[name]} == set(flagged)
    again = table().loc[loaded.index]
    assert (again["probe_compute_s"] < loaded["probe_compute_s"]).all()

    # One cell by its name, and one whose record is gone.
    (results / "loaded/cells/here/4x4x256/all.r2.json").unlink()
    assert clone.planned("--config", "remeasure=here/contiguous/all.r0", "--", target)["measure_here"] == 2


# ---- memory


def test_a_cell_that_wants_more_memory_than_its_job_has_fails_by_itself(tmp_path: Path) -> None:
    roots.prepare(str(tmp_path / "root"), roots.Root(memory_mb=LEAST_MEMORY_MB))
    # 400 MB in one piece, where 250 MB are left.
    cell = write_cell(file_specification((100, 100, 20_000)), "whole", 1)
    file, record = tmp_path / "root/study/layout/all.r0", tmp_path / "all.r0.json"
    done = subprocess.run(
        [sys.executable, "-m", "hyperslab.measure", "--specification", text(cell), "--artifact", str(file),
         "--site", "here", "--record", str(record)],
        env={**os.environ, "PYTHONPATH": str(Path(roots.__file__).parents[2]), "SLURM_JOB_ID": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"hyperslab.measure: {file}: MemoryError: ")
    assert "a cell may take 250 MB here: the smallest memory_mb of the platforms that use its root" in line
    assert not record.exists()
    assert not left_behind(tmp_path)
