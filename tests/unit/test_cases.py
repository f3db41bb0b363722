"""Cases: what each stopwatch covers, states that cannot be had, verification, and write strategies."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from samples import CELL, SHAPE, STATES, file_specification, read_cell, write_cell

from hyperslab import cases
from hyperslab.cases import durable, timed_selections, write
from hyperslab.cases.context import Context, VerificationError
from hyperslab.data.selections import Box
from hyperslab.data.strategies import block_extent
from hyperslab.data.tiles import covering
from hyperslab.data.values import MixedIndices, open_values
from hyperslab.formats.hdf5.array import FORMAT
from hyperslab.measuring import pagecache
from hyperslab.measuring.counters import Counters
from hyperslab.specifications import Specification

Spec = Specification


# ---- what the stopwatches cover


class Clock:
    """A clock that only moves when something takes its time."""

    def __init__(self) -> None:
        self.ns = 0

    def now(self) -> int:
        return self.ns

    def takes(self, seconds: int, work: Callable[..., Any] | None = None) -> Callable[..., Any]:
        """`work`, which by this clock lasts so many seconds."""

        def slow(*args: Any, **options: Any) -> Any:
            self.ns += seconds * 10**9
            return work(*args, **options) if work else None

        return slow


class SlowFormat:
    """HDF5 whose every call takes a time of its own by a clock."""

    artifact = FORMAT.artifact

    def __init__(self, clock: Clock, seconds: dict[str, int]) -> None:
        self._clock, self._seconds = clock, seconds
        slow = ("generate", "report", "predict", "stored_sizes")
        for name in slow:
            setattr(self, name, clock.takes(10**6, getattr(FORMAT, name)))

    def open(self, path: str, spec: Spec) -> SlowArray:
        opened = self._clock.takes(self._seconds["open"], FORMAT.open)(path, spec)
        return SlowArray(opened, self._clock, self._seconds)

    def create(self, path: str, spec: Spec) -> SlowArray:
        opened = self._clock.takes(self._seconds["create"], FORMAT.create)(path, spec)
        return SlowArray(opened, self._clock, self._seconds)


class SlowArray:
    def __init__(self, opened: Any, clock: Clock, seconds: dict[str, int]) -> None:
        for name in ("read", "write", "flush", "close"):
            setattr(self, name, clock.takes(seconds[name], getattr(opened, name)))
        # Getting ready to read is not timed.
        self.reader = clock.takes(10**6, lambda box: clock.takes(seconds["read"], opened.reader(box)))


SLOW = {"open": 2, "read": 3, "close": 5, "create": 7, "write": 11, "flush": 13}


def slow_context(
    spec: Spec, path: Path, monkeypatch: pytest.MonkeyPatch, memory_resident: bool = False
) -> tuple[Context, Clock]:
    """A context in which everything but the operations themselves takes a million seconds."""
    clock = Clock()
    for module in (timed_selections, write, durable):
        monkeypatch.setattr(module, "perf_counter_ns", clock.now)
    for name in ("evict", "read_whole", "resident_share", "sync_file_system"):
        monkeypatch.setattr(pagecache, name, clock.takes(10**6, getattr(pagecache, name)))
    monkeypatch.setattr(timed_selections, "digest", clock.takes(10**6, timed_selections.digest))
    monkeypatch.setattr(Counters, "read", clock.takes(10**6, Counters.read))
    values = open_values(spec["dataset"])
    monkeypatch.setattr(values, "block", clock.takes(10**6, values.block))
    return Context(spec, SlowFormat(clock, SLOW), str(path), values, memory_resident), clock  # type: ignore[arg-type]


def test_read_stopwatches_cover_open_selection_and_close_alone(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = disk / "a.h5"
    FORMAT.generate(str(path), CELL, open_values(CELL["dataset"]))
    context, _ = slow_context(CELL, path, monkeypatch)
    rows = cases.load("read")(context).repeats
    assert {row["time_s"] for row in rows} == {3.0}
    cold = [row for row in rows if row["state"] == "cold"]
    assert [(row["open_s"], row["close_s"]) for row in cold] == [(2.0, 5.0)] * 4
    for state in ("warm", "session"):
        of_state = [row for row in rows if row["state"] == state]
        assert [row.get("open_s") for row in of_state] == [2.0] + [None] * (STATES[state] - 1)
        assert [row.get("close_s") for row in of_state] == [None] * (STATES[state] - 1) + [5.0]


@pytest.mark.parametrize(
    ("strategy", "calls"), [("whole", 1), ("chunk", 3 * 3 * 4), ("spectrum", 80), ("spectra-block", 9)]
)
def test_write_stopwatches_cover_create_write_flush_close_and_fsync_alone(
    memory: Path, monkeypatch: pytest.MonkeyPatch, strategy: str, calls: int
) -> None:
    spec = write_cell(file_specification((8, 10, 200), (3, 4, 64)), strategy, 2)
    context, clock = slow_context(spec, memory / "a.h5", monkeypatch)
    monkeypatch.setattr(os, "fsync", clock.takes(17, os.fsync))
    rows = cases.load("write")(context).repeats
    assert len(rows) == 2
    for row in rows:
        parts = {name: row[f"{name}_s"] for name in ("create", "write", "flush", "close", "fsync")}
        assert parts == {"create": 7.0, "write": 11.0 * calls, "flush": 13.0, "close": 5.0, "fsync": 17.0}
        assert row["time_s"] == 7 + 11 * calls + 13 + 5 + 17
        # The plain write of the same bytes, whose only slow call is its fsync.
        assert row["reference_s"] == 17
    assert not (memory / "a.h5").exists()


def test_real_sleeps_are_seen_where_they_belong(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Sleepy(SlowArray):
        def __init__(self, opened: Any) -> None:
            self.close = opened.close
            self.inner = opened

        def reader(self, box: Box) -> Callable[[], npt.NDArray[Any]]:
            time.sleep(0.05)

            def read() -> npt.NDArray[Any]:
                time.sleep(0.02)
                block: npt.NDArray[Any] = self.inner.read(box)
                return block

            return read

    def sleepy_open(path: str, spec: Spec) -> Sleepy:
        time.sleep(0.2)
        return Sleepy(FORMAT.open(path, spec))

    spec = read_cell(CELL, (5, 5, 100), {"cold": 5})
    path = memory / "a.h5"
    FORMAT.generate(str(path), spec, open_values(spec["dataset"]))
    slow = SlowFormat(Clock(), SLOW)
    monkeypatch.setattr(slow, "open", sleepy_open)
    context = Context(spec, slow, str(path), open_values(spec["dataset"]), True)  # type: ignore[arg-type]
    rows = cases.load("read")(context).repeats
    assert all(row["open_s"] >= 0.2 and row["time_s"] >= 0.02 for row in rows)
    assert statistics.median(row["time_s"] for row in rows) < 0.2
    path.unlink()


# ---- states that cannot be had


@pytest.mark.parametrize(
    ("share", "skipped", "kept"),
    [
        (
            0.5,
            {"cold": "50.0% of the file stayed", "session": "50.0%", "warm": "only 50.0% of the file fits"},
            {},
        ),
        (0.011, {"cold": "1.1%", "session": "1.1%", "warm": "only 1.1%"}, {}),
        (0.01, {"warm": "only 1.0%"}, {"cold": 4, "session": 6}),
        (0.99, {"cold": "99.0%", "session": "99.0%"}, {"warm": 5}),
    ],
)
def test_states_that_cannot_be_had_are_left_out_with_the_reason(
    disk: Path, monkeypatch: pytest.MonkeyPatch, share: float, skipped: dict[str, str], kept: dict[str, int]
) -> None:
    path = disk / "a.h5"
    FORMAT.generate(str(path), CELL, open_values(CELL["dataset"]))
    monkeypatch.setattr(pagecache, "resident_share", lambda _: share)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    outcome = cases.load("read")(Context(CELL, FORMAT, str(path), open_values(CELL["dataset"]), False))
    assert set(outcome.skipped) == set(skipped)
    for state, reason in skipped.items():
        assert outcome.skipped[state].startswith(reason)
    states = [row["state"] for row in outcome.repeats]
    assert {state: states.count(state) for state in set(states)} == kept
    path.unlink()


# ---- verification


class Wrong:
    """Values that differ from those of the file in the way that a test asks for."""

    def __init__(self, change: Callable[[MixedIndices, Any, Any], npt.NDArray[Any]]) -> None:
        self._right = MixedIndices(SHAPE, "uint16")
        self._change = change
        self.shape, self.dtype = self._right.shape, self._right.dtype

    def block(self, origin: Any, extent: Any) -> npt.NDArray[Any]:
        return self._change(self._right, origin, extent)


CHANGES: dict[str, Callable[[MixedIndices, Any, Any], npt.NDArray[Any]]] = {
    "type": lambda v, o, e: v.block(o, e).astype(np.int16),
    "extent": lambda v, o, e: v.block(o, e).reshape(e[1], e[0], e[2]),
    "next plane": lambda v, o, e: v.block([o[0], o[1], max(0, o[2] - 1) if o[2] else 1], e),
    "one bit": lambda v, o, e: v.block(o, e) ^ (np.indices(e).sum(axis=0) == 0).astype(np.uint16),
    "zeros": lambda v, o, e: np.zeros(e, np.uint16),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_differs_from_the_truth_fails(memory: Path, change: str) -> None:
    spec = read_cell(file_specification(SHAPE, (4, 4, 128)), (4, 5, 60), {"warm": 2})
    path = memory / "a.h5"
    FORMAT.generate(str(path), spec, open_values(spec["dataset"]))
    with pytest.raises(VerificationError, match="selection 0 of state warm differs"):
        cases.load("read")(Context(spec, FORMAT, str(path), Wrong(CHANGES[change]), True))
    path.unlink()


def test_a_wrong_write_fails(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = write_cell(file_specification((8, 10, 200), (3, 4, 64)), "chunk", 1)
    create = FORMAT.create

    def forgetful(path: str, spec: Spec) -> Any:
        opened_file = create(path, spec)
        write_ = opened_file.write
        monkeypatch.setattr(opened_file, "write", lambda box, block: box.origin[0] == 6 or write_(box, block))
        return opened_file

    monkeypatch.setattr(FORMAT, "create", forgetful)
    monkeypatch.setattr(write, "VERIFY_BYTES", 1)
    with pytest.raises(VerificationError, match=r"cannot be read back at \(6, 0, 0\)"):
        cases.load("write")(Context(spec, FORMAT, str(memory / "a.h5"), open_values(spec["dataset"]), True))
    assert not (memory / "a.h5").exists()


# ---- write strategies

BLOCKS: list[tuple[str, Any, tuple[int, ...] | None, tuple[int, ...]]] = [
    ("whole", None, (3, 4, 64), (8, 10, 200)),
    ("chunk", None, (3, 4, 64), (3, 4, 64)),
    ("chunk", None, None, (1, 10, 200)),
    ("spectrum", None, (3, 4, 64), (1, 1, 200)),
    ("spectrum", None, None, (1, 1, 200)),
    ("spectra-block", None, (3, 4, 64), (3, 4, 200)),
    ("spectra-block", None, None, (1, 10, 200)),
    ("box", {"x": 2, "y": "chunk", "z": "all"}, (3, 4, 64), (2, 4, 200)),
    ("box", {"y": 5}, (3, 4, 64), (8, 5, 200)),
    ("box", {"y": "chunk"}, None, (8, 10, 200)),
]


@pytest.mark.parametrize(("strategy", "block", "chunks", "expected"), BLOCKS)
def test_extent_of_one_write(
    strategy: str, block: Any, chunks: tuple[int, ...] | None, expected: tuple[int, ...]
) -> None:
    spec = write_cell(file_specification((8, 10, 200), chunks), strategy, 1, block)
    assert (
        block_extent(
            spec["case"], spec["dataset"]["axes"], spec["dataset"]["shape"], spec["layout"]["chunks"]
        )
        == expected
    )


def test_boxes_of_a_strategy_cover_the_array_once_in_row_major_order() -> None:
    covered = np.zeros((5, 7, 9), int)
    origins = []
    for box in covering((5, 7, 9), (2, 7, 4)):
        covered[box.slices()] += 1
        origins.append(box.origin)
    assert (covered == 1).all()
    assert origins == sorted(origins)
    assert [box.origin[0] for box in covering((2, 1, 1), (1, 1, 1), first=6)] == [6, 7]


def test_every_write_call_has_the_strategys_extent(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = write_cell(file_specification((8, 10, 200), (3, 4, 64)), "box", 1, {"x": 2, "y": 3, "z": "chunk"})
    boxes: list[Box] = []
    create = FORMAT.create

    def noted(path: str, spec: Spec) -> Any:
        opened_file = create(path, spec)
        write_ = opened_file.write

        def write_noted(box: Box, block: npt.NDArray[Any]) -> None:
            boxes.append(box)
            write_(box, block)

        monkeypatch.setattr(opened_file, "write", write_noted)
        return opened_file

    monkeypatch.setattr(FORMAT, "create", noted)
    cases.load("write")(Context(spec, FORMAT, str(memory / "a.h5"), open_values(spec["dataset"]), True))
    assert boxes == list(covering((8, 10, 200), (2, 3, 64)))
