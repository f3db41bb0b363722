"""Many small datasets: each created and written in turn, and the latest of them read."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from time import perf_counter_ns
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.cases.context import Context, Outcome, VerificationError
from hyperslab.cases.durable import (
    removed_afterwards,
    repeated_writes,
    span_columns,
    timed_end,
    timed_reference,
)
from hyperslab.cases.states import each_state
from hyperslab.cases.timed_selections import same
from hyperslab.formats import ManyArrays, OpenArrays
from hyperslab.measuring.counters import Counters, between
from hyperslab.measuring.residency import NodeCache
from hyperslab.records import Row

# Objects whose values are held at once.
HELD_BYTES = 32 * 2**20


def _objects(context: Context) -> Iterator[tuple[int, list[npt.NDArray[Any]]]]:
    """Yield the number of the first object and the values of each,
    for runs of objects that fit HELD_BYTES.
    """
    count, *shape = context.specification["dataset"]["shape"]
    step = max(1, HELD_BYTES // (math.prod(shape) * context.values.dtype.itemsize))
    for first in range(0, count, step):
        block = context.values.block([first] + [0] * len(shape), [min(step, count - first), *shape])
        yield first, list(block)


def _truth(context: Context, number: int) -> npt.NDArray[Any]:
    shape = context.specification["dataset"]["shape"][1:]
    found: npt.NDArray[Any] = context.values.block([number] + [0] * len(shape), [1, *shape])[0]
    return found


def _many(context: Context) -> ManyArrays:
    """Return how the format keeps many arrays; a study does not ask for it of a layout that has no way."""
    found = context.format.many_arrays
    assert found is not None
    return found


class _Latest:
    """Timed reads of the latest object, compared with the truth afterwards."""

    def __init__(self, context: Context) -> None:
        self._counters = Counters(context.artifact.processes())
        self._number = context.specification["dataset"]["shape"][0] - 1
        self._truth = _truth(context, self._number)
        self._path = context.path
        self._read: list[npt.NDArray[Any]] = []

    def timed(self, opened: OpenArrays, state: str, repeat: int) -> Row:
        """Open, read and close the latest dataset of an open file."""
        before = self._counters.read()
        started = perf_counter_ns()
        found = opened.read(self._number)
        stopped = perf_counter_ns()
        after = self._counters.read()
        self._read.append(found)
        row = {"state": state, "repeat": repeat, "time_s": (stopped - started) / 1e9}
        return {**row, "asked_bytes": found.nbytes, **between(before, after)}

    def verify(self) -> None:
        """Raise VerificationError where a read differs from what was written."""
        for found in self._read:
            if not same(found, self._truth):
                raise VerificationError(f"{self._path}: object {self._number} differs from what was written")


def _timed_write(context: Context, latest: _Latest, counters: Counters, repeat: int) -> tuple[Row, Row]:
    """Create a file and every object in it, flush, close and fsync; the latest is read before the flush.

    Returns the columns of the write, and the row of the read on the file still open ("session").
    """
    calls = array("q")
    counters.follow(context.artifact.processes())
    before = counters.read()
    started = perf_counter_ns()
    opened = _many(context).create(context.path, context.specification)
    created = perf_counter_ns()
    for first, values in _objects(context):
        marks = array("q", [perf_counter_ns()])
        for number, block in enumerate(values, first):
            opened.add(number, block)
            marks.append(perf_counter_ns())
        calls.extend(np.diff(marks).tolist())
    written = counters.read()
    session = latest.timed(opened, "session", repeat)
    held = opened.columns()
    resumed = counters.read()
    ended = timed_end(opened, context.artifact)
    parts = (between(before, written), between(resumed, counters.read()))
    counted = {name: sum(part[name] for part in parts) for name in parts[0] if name != "device_bytes"}
    return {**span_columns(created - started, calls, ended), **counted, **held}, session


def _writes(context: Context, latest: _Latest) -> list[Row]:
    """Return timed writes of the whole file, each beside a plain write and fsync of the same bytes."""
    spec = context.specification
    one = [1, *spec["dataset"]["shape"][1:]]
    asked = math.prod(spec["dataset"]["shape"]) * context.values.dtype.itemsize
    sessions: list[Row] = []
    counters = Counters(context.artifact.processes())

    def write() -> Row:
        written, session = _timed_write(context, latest, counters, len(sessions))
        sessions.append(session)
        return written

    rows = repeated_writes(context, {"asked_bytes": asked}, lambda: timed_reference(context, one), write)
    return [*rows, *sessions] if "session" in spec["case"]["states"] else rows


def _verify_all(context: Context) -> None:
    """Read every object back and compare it with the truth."""
    opened = _many(context).open(context.path, context.specification)
    try:
        for first, values in _objects(context):
            for number, block in enumerate(values, first):
                if not same(opened.read(number), block):
                    raise VerificationError(f"{context.path}: object {number} cannot be read back")
    finally:
        opened.close()


def _reads(context: Context, latest: _Latest, state: str) -> list[Row]:
    """Return the latest object of a newly opened file,
    the file evicted ("cold") or resident ("warm") before.
    """
    rows, name = [], context.called(state)
    cache = NodeCache(context.artifact, context.memory_resident)
    try:
        for repeat in range(context.specification["repeats"][state]):
            share = cache.evicted() if state == "cold" else cache.filled()
            started = perf_counter_ns()
            opened = _many(context).open(context.path, context.specification)
            ready = perf_counter_ns()
            if state == "warm":
                # Many FUSE file systems drop the cached pages whenever a file is opened.
                share = cache.filled()
            row = latest.timed(opened, name, repeat)
            closing = perf_counter_ns()
            opened.close()
            closed = perf_counter_ns()
            row.update(open_s=(ready - started) / 1e9, close_s=(closed - closing) / 1e9)
            row.update(resident_before=share, resident_after=cache.resident())
            rows.append(row)
    finally:
        cache.close()
    return rows


def run(context: Context) -> Outcome:
    """Write N objects, read the latest; raises VerificationError where any object differs."""
    latest = _Latest(context)
    with removed_afterwards(context.artifact):
        rows, asked = _writes(context, latest), context.specification["case"]["states"]
        skipped = each_state(
            asked, ("warm", "cold"), lambda state: rows.extend(_reads(context, latest, state)), rows
        )
        latest.verify()
        _verify_all(context)
        report = _many(context).report(context.path, context.specification)
    return Outcome(rows, report, skipped)
