"""Generating and measuring one cell as real subprocesses: whole records, and failures without a trace."""

from __future__ import annotations

import copy
import errno
import fcntl
import itertools
import json
import logging
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import forked_cells
import h5py
import numpy as np
import pytest
from own_environments import variables
from samples import CELL, SHAPE, STATES, file_specification, prepared, read_cell, write_cell

from hyperslab import cases
from hyperslab.cases.context import Context, VerificationError
from hyperslab.data.values import open_values
from hyperslab.formats import Unavailable
from hyperslab.formats.hdf5 import filter_setters
from hyperslab.formats.hdf5.array import FORMAT
from hyperslab.generate import generate
from hyperslab.measure import measure
from hyperslab.measuring import counters, locks, other_file_systems
from hyperslab.measuring.artifact import NOTE
from hyperslab.measuring.counters import OF_WRITES
from hyperslab.measuring.locks import ROOT_LOCK
from hyperslab.measuring.probes import PROBE_FILE, ensure_probe_file
from hyperslab.measuring.process import ends_in_one_line, storage_error
from hyperslab.records import read_record, write_record
from hyperslab.sites.roots import MARKER
from hyperslab.specifications import Specification
from hyperslab.studies.specification import text

pytestmark = pytest.mark.usefixtures("forked_alike")
Spec = Specification
SECONDS = 60


# ---- running the two programs


@pytest.fixture
def disk_root(disk: Path) -> Iterator[Path]:
    with prepared(disk) as root:
        yield root


@pytest.fixture
def memory_root(memory: Path) -> Iterator[Path]:
    with prepared(memory) as root:
        yield root


def artifact(root: Path) -> Path:
    return root / "study" / "layout" / "box.r0"


def data(root: Path) -> Path:
    return artifact(root) / "data.h5"


def command(program: str, spec: Spec, root: Path, *more: str) -> list[str]:
    start = [sys.executable, "-m", f"hyperslab.{program}", "--specification", text(spec)]
    return [*start, "--artifact", str(artifact(root)), *more]


def measure_command(spec: Spec, root: Path, record: Path) -> list[str]:
    return command("measure", spec, root, "--record", str(record), "--site", "here")


def forked(words: list[str]) -> list[str]:
    """The same program, which a server forks, as that of a run does."""
    _, _, module, *given = words
    return forked_cells.job(module, *given)


def run(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, env=variables(), capture_output=True, text=True, timeout=SECONDS)


def measured(spec: Spec, root: Path, record: Path) -> Any:
    """The record of a cell, its test file written first where it is a read case."""
    if spec["case"]["kind"] == "read":
        assert run(forked(command("generate", spec, root))).stderr == ""
    done = run(forked(measure_command(spec, root, record)))
    assert (done.returncode, done.stderr) == (0, "")
    return read_record(record)


def rows_of(record: dict[str, Any], state: str) -> list[dict[str, Any]]:
    return [row for row in record["repeats"] if row["state"] == state]


def left_in(directory: Path) -> list[str]:
    """Every file below a directory, but for those that belong to a root."""
    kept = {MARKER, PROBE_FILE, ROOT_LOCK}
    return sorted(path.name for path in directory.rglob("*") if path.is_file() and path.name not in kept)


# ---- a real cell, on a disk and in memory


def test_read_cell_on_a_disk(disk_root: Path, tmp_path: Path) -> None:
    record = measured(CELL, disk_root, tmp_path / "cells" / "box.r0.json")
    assert record["specification"] == CELL
    # As in a run: what these tests cost.
    assert record["environment"]["HYPERSLAB_FORKED"] == "1"
    assert (record["site"], record["protocol"], record["skipped"]) == ("here", CELL["protocol"], {})
    assert [(row["state"], row["repeat"]) for row in record["repeats"]] == [
        (state, repeat) for state in ("warm", "session", "cold") for repeat in range(STATES[state])
    ]
    for row in record["repeats"]:
        assert row["time_s"] > 0
        assert row["asked_bytes"] == 5 * 5 * 100 * 2
        assert row["chunks_touched"] in (8, 4, 12, 16, 6)
        assert row["chunk_bytes"] == row["chunks_touched"] * 4 * 4 * 128 * 2
    for row in rows_of(record, "cold"):
        assert row["resident_before"] <= 0.01 < row["resident_after"]
        assert row["requested_bytes"] == row["requested_predicted_bytes"] > row["chunk_bytes"]
        assert row["open_s"] > 0 < row["close_s"]
    # Opening reads ahead, which is all of a small file where the kernel is set to read far.
    near = (record["file_system"]["read_ahead_bytes"] or 2**40) * 2 < record["file"]["file_bytes"]
    assert sum(row["device_bytes"] for row in rows_of(record, "cold")) > 0 or not near
    for row in rows_of(record, "warm"):
        assert row["resident_before"] >= 0.99 <= row["resident_after"]
        assert "requested_predicted_bytes" not in row
    # Not each: the process may have to page in a part of its own code.
    assert statistics.median(row["device_bytes"] for row in rows_of(record, "warm")) == 0
    session = rows_of(record, "session")
    assert session[0]["resident_before"] <= 0.01
    residency = [session[0]["resident_before"], *(row["resident_after"] for row in session)]
    assert residency == sorted(residency)
    assert [row["resident_before"] for row in session] == residency[:-1]
    for state in ("session", "warm"):
        rows = rows_of(record, state)
        assert [("open_s" in row, "close_s" in row) for row in rows[1:-1]] == [(False, False)] * (
            len(rows) - 2
        )
        assert rows[0]["open_s"] > 0 < rows[-1]["close_s"]
    assert len({tuple(row["origin"]) for row in record["repeats"]}) > 10
    assert record["file"]["index_bytes"] == record["file"]["index_predicted_bytes"]
    assert record["writer"]["writer"] == "allocated"
    assert record["locks"] == {"node": True, "root": True}
    earlier, later = (record["probes"][when] for when in ("before", "after"))
    assert earlier["compute_s"] > 0 < later["read_s"] and earlier != later
    assert 0 < record["peak_memory_bytes"] < 2**30
    assert (
        record["writer"]["began"]["boottime_s"]
        < record["began"]["boottime_s"]
        < record["ended"]["boottime_s"]
    )
    assert record["began"]["boot_id"] == record["ended"]["boot_id"]
    assert record["file_system"]["memory_resident"] is False
    # The test file stays until the scheduler removes it; the writer's note is in the record.
    assert left_in(disk_root) == []
    assert left_in(tmp_path) == ["box.r0.json", "hyperslab-node.lock"]


def test_read_cell_in_memory(memory_root: Path, tmp_path: Path) -> None:
    spec: Spec = {**CELL, "layout": {**CELL["layout"], "chunks": None}}
    record = measured(spec, memory_root, tmp_path / "box.r0.json")
    assert record["skipped"] == {}
    counts = {state: len(rows_of(record, state)) for state in ("library-cold", "warm", "session", "cold")}
    assert counts == {"library-cold": 4, "warm": 5, "session": 6, "cold": 0}
    assert record["file_system"]["memory_resident"] is True
    for row in record["repeats"]:
        assert row["resident_before"] >= 0.99
        assert (row["chunks_touched"], row["chunk_bytes"]) == (0, row["asked_bytes"])
    for row in rows_of(record, "library-cold"):
        assert row["requested_bytes"] == row["requested_predicted_bytes"] > row["asked_bytes"]


@pytest.mark.parametrize("strategy", ["whole", "chunk"])
def test_write_cell_on_a_disk(disk_root: Path, tmp_path: Path, strategy: str) -> None:
    spec = write_cell(file_specification((8, 10, 200), (3, 4, 64)), strategy, 3)
    record = measured(spec, disk_root, tmp_path / "all.r0.json")
    assert [(row["state"], row["repeat"]) for row in record["repeats"]] == [("write", n) for n in range(3)]
    assert ["discarded_reference_s" in row for row in record["repeats"]] == [True, False, False]
    for row in record["repeats"]:
        parts = [row[f"{part}_s"] for part in ("create", "write", "flush", "close", "fsync")]
        assert all(part > 0 for part in parts)
        assert row["time_s"] == pytest.approx(sum(parts))
        assert row["reference_s"] > 0
        assert row["asked_bytes"] == 8 * 10 * 200 * 2
        assert row["written_bytes"] >= record["file"]["stored_bytes"] > row["asked_bytes"]
        assert row["requested_writes"] > 0
    assert record["file"]["chunks"] == 3 * 3 * 4
    assert record["writer"] is None
    assert left_in(disk_root) == []


def test_write_cell_in_memory(memory_root: Path, tmp_path: Path) -> None:
    spec = write_cell(file_specification((8, 10, 200), order="zyx"), "spectrum", 2)
    record = measured(spec, memory_root, tmp_path / "all.r0.json")
    assert [row["repeat"] for row in record["repeats"]] == [0, 1]
    assert left_in(memory_root) == []


def test_what_the_kernel_does_not_count_is_empty(memory_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "_opened", lambda process: None)
    spec = write_cell(file_specification((8, 10, 200)), "whole", 1)
    [row] = measure(spec, artifact(memory_root), None)["repeats"]
    assert row["time_s"] > 0 and row["asked_bytes"] == 8 * 10 * 200 * 2
    assert {name for name in row if row[name] is None} == set(OF_WRITES)


@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_cell_looks_at_no_file_system_that_its_layout_leaves_alone(
    memory_root: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A name that is too long: to look there raises, as at a mount whose server is gone.
    monkeypatch.setenv(other_file_systems.VARIABLE, json.dumps({"far": "/" + "x" * 300}))
    spec = CELL if kind == "read" else write_cell(file_specification((8, 10, 200)), "whole", 1)
    assert measured(spec, memory_root, tmp_path / "box.r0.json")["repeats"]
    assert left_in(memory_root) == []


def test_a_donor_fills_the_array(memory_root: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "donor.npy", np.arange(3 * 5 * 7, dtype=np.uint16).reshape(3, 5, 7))
    spec = copy.deepcopy(CELL)
    spec["dataset"]["shape"], spec["dataset"]["donor"] = [6, 7, 50], {"path": "elsewhere"}
    spec["layout"]["chunks"], spec["case"]["extent"] = [2, 3, 20], [6, 7, 3]
    donor = ["--donor", str(tmp_path / "donor.npy")]
    assert run(forked([*command("generate", spec, memory_root), *donor])).returncode == 0
    with h5py.File(data(memory_root)) as file:
        assert file["data"][3, 5, 7] == np.load(tmp_path / "donor.npy")[0, 3, 0]
    done = run(forked([*measure_command(spec, memory_root, tmp_path / "a.json"), *donor]))
    assert (done.returncode, done.stderr) == (0, "")


def test_jobs_of_a_node_share_a_lock_whatever_their_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(locks.VARIABLE)
    for own in ("one", "other"):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / own))
        assert locks._of_node() == Path("/tmp/hyperslab-node.lock")
    for name, value in {"SLURM_CLUSTER_NAME": "c", "SLURMD_NODENAME": "n1"}.items():
        monkeypatch.setenv(name, value)
    assert locks._of_node() == Path("/tmp/hyperslab-c-n1-node.lock")
    monkeypatch.setenv(locks.VARIABLE, str(tmp_path))
    assert locks._of_node() == tmp_path / "hyperslab-c-n1-node.lock"


def test_two_jobs_never_overlap(memory_root: Path, tmp_path: Path) -> None:
    spec = write_cell(file_specification((8, 10, 200)), "whole", 3)
    names = ["one", "other"]
    jobs = []
    for name in names:
        words = measure_command(spec, memory_root, tmp_path / f"{name}.json")
        words[words.index("--artifact") + 1] = str(memory_root / name)
        jobs.append(subprocess.Popen(forked(words), env=variables()))
    assert [job.wait(SECONDS) for job in jobs] == [0, 0]
    records = [read_record(tmp_path / f"{name}.json") for name in names]
    spans = sorted((record["began"]["boottime_s"], record["ended"]["boottime_s"]) for record in records)
    assert spans[0][1] < spans[1][0]


def test_data_stay_while_another_run_may_be_timing_them(memory_root: Path) -> None:
    data(memory_root).parent.mkdir(parents=True)
    data(memory_root).write_bytes(b"another's")
    with (memory_root / ROOT_LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        job = subprocess.Popen(command("generate", CELL, memory_root), text=True)
        deadline = time.monotonic() + SECONDS
        while not any(path.endswith(ROOT_LOCK) for path in open_files(job)):
            assert job.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        found = data(memory_root).read_bytes() if data(memory_root).exists() else b""
    assert job.wait(SECONDS) == 0
    assert found == b"another's" and h5py.is_hdf5(data(memory_root))


def test_data_that_another_run_has_written_are_refused_and_left_to_it(
    memory_root: Path, tmp_path: Path
) -> None:
    # Of that shape and type, so that values alone could not tell them.
    generate(file_specification(SHAPE, (5, 4, 100)), artifact(memory_root), None)
    done = run(forked(measure_command(CELL, memory_root, tmp_path / "box.r0.json")))
    assert (done.returncode, done.stderr) == (
        1,
        f"hyperslab.measure: {artifact(memory_root)}: OthersData: these data are of another specification; "
        "another run uses the same root: give each its own root, or run one after the other\n",
    )
    assert left_in(memory_root) == ["data.h5", NOTE] and not (tmp_path / "box.r0.json").exists()


# ---- failures leave nothing


def flip_a_bit(path: Path, element: tuple[int, ...]) -> None:
    """Invert one bit of one element of a test file, wherever its chunk lies."""
    with h5py.File(path) as file:
        dataset = file["data"]
        chunk = tuple(i // c * c for i, c in zip(element, dataset.chunks, strict=True))
        start = dataset.id.get_chunk_info_by_coord(chunk).byte_offset
        inside = tuple(i - c for i, c in zip(element, chunk, strict=True))
        offset = start + int(np.ravel_multi_index(inside, dataset.chunks)) * dataset.dtype.itemsize
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x10]))


@pytest.mark.parametrize("state", ["cold", "warm", "session"])
def test_one_flipped_bit_fails_the_cell(disk_root: Path, tmp_path: Path, state: str) -> None:
    whole = read_cell(file_specification((8, 10, 200), (3, 4, 64)), (8, 10, 200), {state: 2})
    path = artifact(disk_root)
    generate(whole, path, None)
    flip_a_bit(data(disk_root), (5, 7, 111))
    done = run(forked(measure_command(whole, disk_root, tmp_path / "box.r0.json")))
    assert done.returncode == 1
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith(f"hyperslab.measure: {path}: VerificationError: {path}")
    assert line.endswith(
        f"selection 0 of state {state} differs from what was written: origin (0, 0, 0), extent (8, 10, 200)"
    )
    assert left_in(disk_root) == []
    assert left_in(tmp_path) == ["hyperslab-node.lock"]


def test_a_flipped_bit_fails_exactly_where_it_is_read(disk_root: Path) -> None:
    spec = read_cell(file_specification((8, 10, 200), (3, 4, 64)), (8, 10, 199), {"cold": 1})
    path = disk_root / "a.h5"
    FORMAT.generate(str(path), spec, open_values(spec["dataset"]))
    context = Context(spec, FORMAT, str(path), open_values(spec["dataset"]), False)
    [row] = cases.load("read")(context).repeats
    inside, outside = ((5, 7, 0), (5, 7, 199)) if row["origin"][2] == 0 else ((5, 7, 199), (5, 7, 0))
    flip_a_bit(path, outside)
    assert len(cases.load("read")(context).repeats) == 1
    flip_a_bit(path, inside)
    with pytest.raises(VerificationError):
        cases.load("read")(context)


def test_a_broken_file_fails_in_one_line(memory_root: Path, tmp_path: Path) -> None:
    path = data(memory_root)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no HDF5 at all" * 100)
    done = run(forked(measure_command(CELL, memory_root, tmp_path / "box.r0.json")))
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert left_in(memory_root) == []
    assert left_in(tmp_path) == ["hyperslab-node.lock"]


def test_a_missing_file_fails_in_one_line(memory_root: Path, tmp_path: Path) -> None:
    done = run(forked(measure_command(CELL, memory_root, tmp_path / "box.r0.json")))
    assert done.returncode == 1
    assert f"hyperslab.measure: {artifact(memory_root)}: FileNotFoundError" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def open_files(job: subprocess.Popen[str]) -> set[str]:
    """Paths of the files that a process has open."""
    paths = set()
    for entry in Path(f"/proc/{job.pid}/fd").iterdir():
        with suppress(OSError):
            paths.add(os.readlink(entry))
    return paths


def stopped(words: list[str], file: Path, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
    """Exit status and errors of a program that is sent a signal while it has `file`, or one in it, open."""
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as job:
        try:
            deadline = time.monotonic() + SECONDS
            while not any(path.startswith(str(file)) for path in open_files(job)):
                assert job.poll() is None, "it ended before it was sent a signal"
                assert time.monotonic() < deadline
                time.sleep(0.01)
            time.sleep(0.1)
            job.send_signal(number)
            _, errors = job.communicate(timeout=SECONDS)
            return job.returncode, errors
        finally:
            job.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_signal_in_mid_measure_leaves_nothing(
    memory_root: Path, tmp_path: Path, kind: str, number: signal.Signals
) -> None:
    if kind == "read":
        endless: Spec = {**CELL, "repeats": {**STATES, "cold": 10**7}}
        generate(endless, artifact(memory_root), None)
        assert left_in(memory_root) == ["data.h5", NOTE]
    else:
        endless = write_cell(file_specification((8, 10, 200)), "spectrum", 10**7)
    words = measure_command(endless, memory_root, tmp_path / "box.r0.json")
    assert stopped(words, artifact(memory_root), number) == (128 + number, "")
    assert left_in(memory_root) == []
    assert left_in(tmp_path) == ["hyperslab-node.lock"]


def test_a_signal_that_comes_in_a_callback_is_not_lost(memory_root: Path, tmp_path: Path) -> None:
    # Exceptions raised there are ignored, and an exit along with them.
    callback = """
import os, signal, sys, weakref
from pathlib import Path
from hyperslab.generate import stop_cleanly
stop_cleanly(Path(sys.argv[1]), Path(sys.argv[2]))
class Thing: pass
thing = Thing()
reference = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGTERM))
del thing
print("still here")
"""
    (memory_root / "box.r0").mkdir()
    for name in ("box.r0/data.h5", f"box.r0/{NOTE}", "partial"):
        (memory_root / name).touch()
    words = [sys.executable, "-c", callback, str(memory_root / "box.r0"), str(memory_root / "partial")]
    done = run(words)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGTERM, "", "")
    assert left_in(memory_root) == []


@pytest.mark.parametrize("program", ["generate", "measure"])
def test_a_signal_while_waiting_for_another_job_leaves_nothing(
    memory_root: Path, tmp_path: Path, program: str
) -> None:
    if program == "measure":
        generate(CELL, artifact(memory_root), None)
    words = command("generate", CELL, memory_root)
    words = words if program == "generate" else measure_command(CELL, memory_root, tmp_path / "box.r0.json")
    with (memory_root / ROOT_LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert stopped(words, memory_root / ROOT_LOCK) == (128 + signal.SIGTERM, "")
    assert left_in(memory_root) == []
    assert left_in(tmp_path) == ["hyperslab-node.lock"]


@pytest.mark.parametrize("program", ["generate", "measure"])
def test_a_signal_while_another_run_may_be_timing_its_data_leaves_them(
    memory_root: Path, tmp_path: Path, program: str
) -> None:
    data(memory_root).parent.mkdir(parents=True)
    data(memory_root).write_bytes(b"another's")
    words = command("generate", CELL, memory_root)
    if program == "measure":
        # One that writes its own file has none before it holds the locks.
        writing = write_cell(file_specification((8, 10, 200)), "spectrum", 1)
        words = measure_command(writing, memory_root, tmp_path / "box.r0.json")
    with (memory_root / ROOT_LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert stopped(words, memory_root / ROOT_LOCK) == (128 + signal.SIGTERM, "")
        assert data(memory_root).read_bytes() == b"another's"


def test_what_a_build_lacks_is_a_result_of_read_cells_too(
    memory_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(name: str) -> None:
        raise Unavailable(f"this build has no {name}")

    monkeypatch.setattr(filter_setters, "_prepare", lacking)
    spec = read_cell(file_specification(SHAPE, (4, 4, 128), filters=[{"name": "szip"}]), (5, 5, 100), STATES)
    generate(spec, artifact(memory_root), None)
    assert left_in(memory_root) == [NOTE]
    record = measure(spec, artifact(memory_root), None)
    assert record["skipped"] == dict.fromkeys(STATES, "this build has no szip")
    assert record["repeats"] == [] and record["file"] == {"settings": {}}


def test_generate_leaves_nothing_where_it_fails(memory_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: str, *_: Any) -> str:
        Path(path).write_bytes(b"half a file")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FORMAT.__class__, "generate", lambda _, path, *rest: full(path, *rest))
    with pytest.raises(OSError, match="No space left"):
        generate(CELL, artifact(memory_root), None)
    assert left_in(memory_root) == []


@pytest.mark.parametrize("program", ["generate", "measure"])
def test_a_file_that_cannot_grow_fails_in_one_line(program: str, memory_root: Path, tmp_path: Path) -> None:
    """Nor can it be closed then, which h5py reports by another error."""
    spec = write_cell(
        file_specification(SHAPE, (4, 4, 128), filters=[{"name": "gzip", "level": 1}]), "chunk", 1
    )
    more = ("--record", str(tmp_path / "all.r0.json"), "--site", "here") if program == "measure" else ()
    done = run(["prlimit", "--fsize=100000", *command(program, spec, memory_root, *more)])
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith(f"hyperslab.{program}: {artifact(memory_root)}: OSError: [Errno 27] ")
    assert "File too large" in line
    assert left_in(memory_root) == []
    assert left_in(tmp_path) == ["hyperslab-node.lock"]


# As NFS has it: what a process has open stays under another name, so that its directory cannot be removed.
BUSY = """
import shutil
def busy(place, ignore_errors=False):
    if not ignore_errors:
        raise OSError(16, "Device or resource busy", ".nfs0001")
shutil.rmtree = busy
"""


@pytest.mark.parametrize("program", ["generate", "measure"])
def test_what_failed_is_said_where_open_files_stay(program: str, memory_root: Path, tmp_path: Path) -> None:
    spec = write_cell(
        file_specification(SHAPE, (4, 4, 128), filters=[{"name": "gzip", "level": 1}]), "chunk", 1
    )
    more = ("--record", str(tmp_path / "all.r0.json"), "--site", "here") if program == "measure" else ()
    _, _, _, *given = command(program, spec, memory_root, *more)
    main = f"{BUSY}from hyperslab.{program} import main\nmain()"
    done = run(["prlimit", "--fsize=100000", sys.executable, "-c", main, *given])
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert "File too large" in line


def test_a_record_is_not_lost_where_open_files_stay(memory_root: Path, tmp_path: Path) -> None:
    """Of a process that fails, Snakemake removes what it has written."""
    generate(CELL, artifact(memory_root), None)
    _, _, _, *given = measure_command(CELL, memory_root, tmp_path / "box.r0.json")
    done = run([sys.executable, "-c", f"{BUSY}from hyperslab.measure import main\nmain()", *given])
    assert (done.returncode, done.stderr) == (0, "")
    assert read_record(tmp_path / "box.r0.json")["repeats"]


def test_a_signal_ends_a_process_whose_open_files_stay(memory_root: Path) -> None:
    (memory_root / "box.r0").mkdir()
    (memory_root / "partial").touch()
    killed = f"""{BUSY}
import os, signal, sys
from pathlib import Path
from hyperslab.measuring.artifact import stop_cleanly
stop_cleanly(*map(Path, sys.argv[1:]))
os.kill(os.getpid(), signal.SIGTERM)
print("still here")
"""
    done = run([sys.executable, "-c", killed, str(memory_root / "box.r0"), str(memory_root / "partial")])
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGTERM, "", "")
    assert not (memory_root / "partial").exists()


def test_other_errors_are_none_of_the_storage() -> None:
    assert storage_error(RuntimeError("no such filter")) is None


# ---- records


def test_a_record_appears_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "deep" / "box.r0.json"
    write_record(target, {"repeats": [], "specification": 1})
    seen = []
    replace = Path.replace

    def noted(partial: Path, final: Path) -> Path:
        seen.append((read_record(final), read_record(partial)))
        return replace(partial, final)

    monkeypatch.setattr(Path, "replace", noted)
    write_record(target, {"repeats": [1], "specification": 2})
    # Until the very last step the old record was there, and the new one complete beside it.
    assert seen == [({"repeats": [], "specification": 1}, {"repeats": [1], "specification": 2})]
    assert read_record(target) == {"repeats": [1], "specification": 2}
    assert left_in(tmp_path / "deep") == ["box.r0.json"]


def test_a_record_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "box.r0.json"
    write_record(target, {"repeats": [], "specification": 1})

    def interrupted(partial: Path, content: bytes) -> int:
        partial.touch()
        raise SystemExit(143)

    monkeypatch.setattr(Path, "write_bytes", interrupted)
    with pytest.raises(SystemExit):
        write_record(target, {"repeats": [1], "specification": 2})
    assert read_record(target) == {"repeats": [], "specification": 1}
    assert left_in(tmp_path) == ["box.r0.json"]


def test_other_json_is_no_record(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"repeats": []}')
    with pytest.raises(ValueError, match="is not a record"):
        read_record(tmp_path / "a.json")


@pytest.mark.parametrize("repeats", range(1, 7))
def test_plain_and_timed_writes_take_turns_in_going_first(repeats: int) -> None:
    from hyperslab.cases.durable import reference_first

    turns = [reference_first(repeat, repeats) for repeat in range(repeats)]
    assert turns[-1], "the file read back must be the last one written"
    assert all(one != other for one, other in itertools.pairwise(turns))


def test_a_probe_file_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    (root := tmp_path / "root").mkdir()
    with pytest.raises(OSError, match="No space left"):
        ensure_probe_file(str(root))
    assert not list(root.iterdir())


def test_any_user_may_read_the_probe_file_that_another_has_written(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        written = ensure_probe_file(str(tmp_path))
    finally:
        os.umask(before)
    assert written.stat().st_mode & 0o777 == 0o644


def test_a_thread_that_cannot_be_started_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def limited(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", limited)
    # It would be so for all tests that follow.
    monkeypatch.setattr(logging, "disable", lambda: None)
    with pytest.raises(SystemExit) as ended, ends_in_one_line("hyperslab.measure", Path("a")):
        threading.Thread(target=print).start()
    assert ended.value.code == (
        "hyperslab.measure: a: RuntimeError: can't start new thread: this user or job runs as many as it may "
        "(ulimit -u, pids.max)"
    )


LEAVES_A_TASK = """
import asyncio
from pathlib import Path
from hyperslab.measuring.process import ends_in_one_line

with ends_in_one_line("hyperslab.measure", Path("a")):
    loop = asyncio.new_event_loop()
    task = loop.create_task(asyncio.sleep(300))
    loop.run_until_complete(asyncio.sleep(0))
    raise OSError("the gateway has ended")
"""


def test_of_what_a_library_leaves_undone_nothing_is_said() -> None:
    done = subprocess.run([sys.executable, "-c", LEAVES_A_TASK], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "hyperslab.measure: a: OSError: the gateway has ended\n")
