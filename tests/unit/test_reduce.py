"""Reductions by several processes: results, stopwatch, states, counts, and workers or parents that fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pytest
from process_tree import alive, called, children
from samples import file_specification, values_of
from test_workers import wait_until

from hyperslab import cases
from hyperslab.cases.context import Context, Outcome, VerificationError
from hyperslab.cases.reduce import case, moments
from hyperslab.cases.reduce.division import Processes, Share
from hyperslab.cases.reduce.moments import Moments
from hyperslab.cases.reduce.source import Source
from hyperslab.data.selections import Box
from hyperslab.formats.hdf5.array import FORMAT
from hyperslab.measuring import pagecache
from hyperslab.records import read_record
from hyperslab.specifications import CaseSpecification, Specification
from hyperslab.studies.specification import text

pytestmark = pytest.mark.usefixtures("own_locks")
Spec = Specification
SHAPE = (10, 12, 3000)
GZIP = ({"name": "gzip", "level": 1},)
SECONDS = 60


def reduce_cell(
    workers: int,
    repeats: dict[str, int],
    chunks: tuple[int, ...] | None = (4, 4, 128),
    filters: Any = (),
    order: str | None = None,
    planes: int = 300,
    shape: tuple[int, ...] = SHAPE,
) -> Spec:
    """What measure is told of a reduction of some planes along z, x split among processes."""
    spec = file_specification(shape, chunks, order=order, filters=filters)
    case: CaseSpecification = {
        "name": f"slices-{workers}p", "family": "slices", "kind": "reduce", "planes": "z", "split": "x",
        "extent": [*shape[:-1], planes], "by": "processes", "workers": workers, "states": list(repeats),
    }  # fmt: skip
    return {
        **spec,
        "case": case,
        "repeats": repeats,
        "study": "mine",
        "seed": 1,
        "round": "r0",
        "protocol": 1,
    }


def outcome_of(spec: Spec, directory: Path, memory_resident: bool, values: Any = None) -> Outcome:
    """The outcome of a cell whose test file is made for it."""
    path = directory / "a.h5"
    FORMAT.generate(str(path), spec, values_of(spec))
    try:
        return cases.load("reduce")(
            Context(spec, FORMAT, str(path), values or values_of(spec), memory_resident)
        )
    finally:
        path.unlink()


# ---- results


# How many workers reduce which layout, and in how many places a chunk has rows of x of two of them.
CELLS: dict[str, tuple[int, Any, Any, str | None, int]] = {
    "gzip-1": (1, (4, 4, 128), GZIP, None, 0),
    # 10 rows of x among 3: 3, 3 and 4; 3 and 6 lie inside the chunks 0-3 and 4-7.
    "gzip-3": (3, (4, 4, 128), GZIP, None, 2),
    "z first-2": (2, (4, 4, 128), (), "zxy", 1),
    "contiguous-2": (2, None, (), None, 0),
}


class Reduced(NamedTuple):
    """What a cell found: its rows, what was to be verified of each, and where its workers share chunks."""

    spec: Spec
    rows: list[dict[str, Any]]
    found: list[case.Found]
    shared: int


@pytest.fixture(scope="module")
def made(memory: Path) -> Callable[[str], Reduced]:
    """`made(name)`: what a cell of that kind found, once for all tests."""

    @cache
    def once(name: str) -> Reduced:
        workers, chunks, filters, order, shared = CELLS[name]
        found: list[case.Found] = []
        verify = case.Repeats.verify

        def kept(self: case.Repeats, values: Any) -> None:
            found.extend(self.found)
            verify(self, values)

        spec = reduce_cell(workers, {"cold": 3, "warm": 2, "session": 2}, chunks, filters, order)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(case.Repeats, "verify", kept)
            return Reduced(spec, outcome_of(spec, memory, True).repeats, found, shared)

    return once


@pytest.fixture(params=CELLS)
def reduced(request: pytest.FixtureRequest, made: Callable[[str], Reduced]) -> Reduced:
    """One cell of each kind."""
    return made(request.param)


def test_the_variance_is_that_of_the_values_written(reduced: Reduced) -> None:
    rows, workers = reduced.rows, reduced.spec["case"]["workers"]
    assert [row["state"] for row in rows] == ["warm"] * 2 + ["session"] * 2 + ["library-cold"] * 3
    whole = values_of(reduced.spec).block((0, 0, 0), SHAPE)
    for row, one in zip(rows, reduced.found, strict=True):
        assert row["processes"] == workers
        assert row["time_s"] > 0
        planes = whole[Box(tuple(row["origin"]), one.box.extent).slices()]
        np.testing.assert_allclose(one.variance, planes.var(), rtol=1e-12)
        np.testing.assert_allclose(one.planes.variance, planes.var(axis=(0, 1)), rtol=1e-12)


def test_what_all_workers_request_is_what_arithmetic_says(reduced: Reduced) -> None:
    for row in reduced.rows:
        if row["state"] == "library-cold":
            assert row["requested_bytes"] == row["requested_predicted_bytes"]
        assert row["asked_bytes"] == 10 * 12 * 300 * 2
        across = 3 * len({z // 128 for z in range(row["origin"][2], row["origin"][2] + 300)})
        assert row["chunks_shared"] == reduced.shared * across
        assert row["physical_cores"] >= 1


def test_every_number_of_processes_reduces_the_same_runs_of_planes(made: Callable[[str], Reduced]) -> None:
    # Cells of one, two and three workers, whatever their layouts.
    first, *others = ([(row["state"], row["origin"]) for row in made(name).rows] for name in CELLS)
    assert others == [first] * 3
    assert len({tuple(origin) for _, origin in first}) > 4


class OneUnitMore:
    """The values that were written, but for one unit in one of them."""

    def __init__(self, spec: Spec, where: tuple[int, ...]) -> None:
        self._right, self._where = values_of(spec), where
        self.shape, self.dtype = self._right.shape, self._right.dtype

    def block(self, origin: Any, extent: Any) -> Any:
        block = self._right.block(origin, extent)
        place = tuple(w - o for w, o in zip(self._where, origin, strict=True))
        if all(0 <= p < e for p, e in zip(place, extent, strict=True)):
            block[place] ^= 1
        return block


def test_a_result_that_differs_by_one_unit_in_one_element_fails(memory: Path) -> None:
    spec = reduce_cell(2, {"warm": 1}, planes=2900)
    with pytest.raises(VerificationError, match="reduction 0 of state warm differs .* in plane 1500"):
        outcome_of(spec, memory, True, OneUnitMore(spec, (9, 11, 1500)))


def test_a_wrong_merge_fails(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    merged = moments.merged

    def without_the_last(parts: list[Moments], planes: int) -> tuple[Moments, float]:
        return merged(parts[:-1], planes)

    monkeypatch.setattr(moments, "merged", without_the_last)
    with pytest.raises(VerificationError):
        outcome_of(reduce_cell(2, {"warm": 1}), memory, True)


# ---- stopwatch, states and counts


def test_the_stopwatch_runs_from_release_to_last_merge_alone(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = {"ns": 0}

    class Slow:
        """A team that takes a thousand seconds for each second order, and three to do the work."""

        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            if not callable(found := getattr(self._inner, name)):
                return found

            def call(*arguments: Any) -> Any:
                clock["ns"] += (3 if name == "go" else 10**6) * 10**9 * (name != "parts")
                return getattr(self._inner, name)(*arguments)

            return call

    monkeypatch.setattr(case, "perf_counter_ns", lambda: clock["ns"])
    merged = moments.merged

    def slow_merge(*arguments: Any) -> Any:
        clock["ns"] += 5 * 10**9
        return merged(*arguments)

    monkeypatch.setattr(moments, "merged", slow_merge)
    monkeypatch.setattr(case, "Processes", lambda *arguments: Slow(Processes(*arguments)))
    rows = outcome_of(reduce_cell(2, {"cold": 2, "warm": 2}), memory, True).repeats
    assert [row["time_s"] for row in rows] == [8.0] * 4


def test_the_file_is_cold_once_the_workers_have_opened_it(disk: Path) -> None:
    outcome = outcome_of(
        reduce_cell(2, {"cold": 3, "warm": 2, "session": 2}, shape=(20, 24, 8000)), disk, False
    )
    assert not outcome.skipped
    for row in outcome.repeats:
        if row["state"] == "warm":
            assert row["resident_before"] >= 0.99
        elif row["state"] == "cold" or row["repeat"] == 0:
            assert row["resident_before"] <= 0.01
            assert row["device_bytes"] > 0
    cold = [row for row in outcome.repeats if row["state"] == "cold"]
    assert all(row["open_s"] > 0 and row["close_s"] > 0 for row in cold)
    assert all(row["resident_after"] > row["resident_before"] for row in cold)


def test_what_opening_brings_in_beyond_headers_is_not_cold(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_at_opening(self: Any, name: str) -> float:
        seconds = as_ever(self, name)
        if name == "open":
            (disk / "a.h5").read_bytes()
        return seconds

    as_ever = Processes.command
    monkeypatch.setattr(Processes, "command", read_at_opening)
    outcome = outcome_of(reduce_cell(1, {"cold": 3, "warm": 2}), disk, False)
    assert "was in the page cache once the workers had opened it" in outcome.skipped["cold"]
    assert {row["state"] for row in outcome.repeats} == {"warm"}


def test_a_file_that_cannot_be_evicted_is_left_out(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pagecache, "evict", lambda *_: 0.5)
    outcome = outcome_of(reduce_cell(1, {"cold": 3, "warm": 2}), disk, False)
    assert outcome.skipped == {"cold": "50.0% of the file stayed in the page cache"}
    assert {row["state"] for row in outcome.repeats} == {"warm"}


def test_a_file_that_opening_drops_from_memory_is_not_warm(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = iter([1.0, 0.5])
    monkeypatch.setattr(Processes, "fill", lambda _: next(shares))
    outcome = outcome_of(reduce_cell(1, {"warm": 2}), disk, False)
    assert outcome.skipped == {"warm": "only 50.0% of the file fits in the page cache"}
    assert outcome.repeats == []


def test_a_shares_counts_leave_out_the_wait_for_the_start(memory: Path) -> None:
    spec = reduce_cell(1, {"cold": 1})
    path = memory / "a.h5"
    FORMAT.generate(str(path), spec, values_of(spec))
    share = Share(Source(spec, str(path), lambda: None), 0, bytearray(3 * 8 * 300))
    read, write = os.pipe()
    os.write(write, b"g")
    share.command("open")
    share.prepare(Box((0, 0, 0), (10, 12, 300)))
    os.read(read, 1)
    counts = share.result()
    for end in (read, write):
        os.close(end)
    assert counts["requested_bytes"] == counts["requested_reads"] == 0
    share.command("close")
    assert share.command("close") < 1
    path.unlink()


# ---- in the program that measures


def command(spec: Spec, root: Path, record: Path) -> list[str]:
    """How the test artifact `a` is measured."""
    words = [sys.executable, "-m", "hyperslab.measure", "--specification", text(spec)]
    return [*words, "--artifact", str(root / "a"), "--record", str(record), "--site", "here"]


def start(spec: Spec, root: Path, record: Path) -> tuple[subprocess.Popen[str], Path]:
    """The program that measures, at work on a test file."""
    path = root / "a" / "data.h5"
    path.parent.mkdir()
    FORMAT.generate(str(path), spec, values_of(spec))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command(spec, root, record), text=True, **pipes), path  # type: ignore[call-overload]


def workers_of(pid: int) -> list[int]:
    """The workers among the children of a process."""
    return [child for child in children(pid) if called(child, "spawn_main")]


def test_a_record_has_the_rows_and_the_memory_of_all(root: Path, tmp_path: Path) -> None:
    run, path = start(reduce_cell(2, {"cold": 2, "warm": 1}), root, tmp_path / "record.json")
    _, said = run.communicate(timeout=SECONDS)
    assert run.returncode == 0, said
    record = read_record(tmp_path / "record.json")
    assert [row["processes"] for row in record["repeats"]] == [2, 2, 2]
    assert record["peak_memory_bytes"] > 3 * 30 * 2**20
    assert record["file"]["settings"]["dataset_layout"] == "chunked"
    assert not path.exists()


def test_a_file_that_workers_cannot_open_fails_the_cell_with_one_line(root: Path, tmp_path: Path) -> None:
    spec, damaged, record = reduce_cell(2, {"cold": 1}), root / "a" / "data.h5", tmp_path / "record.json"
    damaged.parent.mkdir()
    FORMAT.generate(str(damaged), spec, values_of(spec))
    with h5py.File(damaged, "r+") as file:
        del file["data"]
    run = subprocess.run(command(spec, root, record), capture_output=True, text=True, timeout=SECONDS)
    assert run.returncode == 1
    (line,) = run.stderr.splitlines()
    assert line.startswith(f"hyperslab.measure: {damaged.parent}: ChildProcessError: worker ")
    assert "of 2: KeyError" in line
    assert not record.exists() and not damaged.exists()


@pytest.mark.faults
def test_a_killed_worker_fails_the_cell_with_one_line(root: Path, tmp_path: Path) -> None:
    run, path = start(reduce_cell(2, {"warm": 10**5}), root, tmp_path / "record.json")
    assert wait_until(lambda: len(workers_of(run.pid)) == 2)
    time.sleep(1)
    os.kill(workers_of(run.pid)[1], signal.SIGKILL)
    _, said = run.communicate(timeout=SECONDS)
    assert run.returncode == 1
    (line,) = said.splitlines()
    assert "worker 1 of 2 was ended by signal 9 before its work was done" in line
    assert not (tmp_path / "record.json").exists() and not path.exists()


@pytest.mark.faults
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_measurement_leaves_no_worker(root: Path, tmp_path: Path, number: signal.Signals) -> None:
    run, path = start(reduce_cell(2, {"warm": 10**5}), root, tmp_path / "record.json")
    assert wait_until(lambda: len(workers_of(run.pid)) == 2)
    workers = workers_of(run.pid)
    run.send_signal(number)
    run.communicate(timeout=SECONDS)
    assert wait_until(lambda: not any(map(alive, workers)))
    assert path.exists() == (number == signal.SIGKILL)
