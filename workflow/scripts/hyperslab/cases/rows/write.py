"""Timed writes of ragged rows, so many a call, each beside a plain write and fsync of the same bytes."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from time import perf_counter_ns

import numpy as np

from hyperslab.cases.context import Context, Outcome, VerificationError
from hyperslab.cases.durable import repeated_writes, span_columns, timed_end, timed_plain_write
from hyperslab.cases.rows.dealt import KEPT, Call, Dealt, format_of, rows_of
from hyperslab.cases.rows.read import RowReads, read_states
from hyperslab.data.rows import BLOCK_BYTES, RowBlock, Rows
from hyperslab.measuring.counters import Counters, between
from hyperslab.records import Row


def _slabs(dealt: Dealt) -> Iterator[list[tuple[Call, RowBlock]]]:
    """Yield calls with what they write, as many at a time as BLOCK_BYTES hold, or one."""
    rows, held = dealt.rows, 0
    calls: list[Call] = []
    for call in dealt.calls():
        size = int(rows.offsets[call.stop] - rows.offsets[call.first]) * rows.dtype.itemsize
        if calls and held + size > BLOCK_BYTES:
            yield _with_values(rows, calls)
            calls, held = [], 0
        calls.append(call)
        held += size
    yield _with_values(rows, calls)


def _with_values(rows: Rows, calls: list[Call]) -> list[tuple[Call, RowBlock]]:
    """Return consecutive calls with what each writes; the values of all are made at once."""
    first = calls[0].first
    values, start = rows.run(first, calls[-1].stop).values, int(rows.offsets[first])
    bounds = [(int(rows.offsets[call.first]), int(rows.offsets[call.stop])) for call in calls]
    return [
        (call, RowBlock(rows.lengths[call.first : call.stop], values[low - start : high - start]))
        for call, (low, high) in zip(calls, bounds, strict=True)
    ]


def _timed_write(context: Context, dealt: Dealt, counters: Counters) -> Row:
    """Create, write, flush, close and fsync a new file: a column each, with the bytes and calls of all.

    Values are made, and handed over in the form that the library takes, outside the stopwatch, which adds up
    the write calls alone.
    """
    spec = context.specification
    parts, growing = dealt.parts(), spec["case"]["rows"]["growing"]
    calls = array("q")
    before = counters.read()
    started = perf_counter_ns()
    opened = format_of(context).create(context.path, spec, parts, growing)
    created = perf_counter_ns()
    for slab in _slabs(dealt):
        writers = [opened.writer(call.part, call.place, block) for call, block in slab]
        marks = array("q", [perf_counter_ns()])
        for write in writers:
            write()
            # One look at the clock a call; the calls add up to the whole.
            marks.append(perf_counter_ns())
        calls.extend(np.diff(marks).tolist())
        del writers, slab
    held = opened.columns()
    ended = timed_end(opened, context.artifact)
    counted = between(before, counters.read())
    return {**span_columns(created - started, calls, ended), **{name: counted[name] for name in KEPT}, **held}


def _timed_reference(context: Context, dealt: Dealt) -> float:
    """Return the seconds of a plain write and fsync of the same bytes, call by call."""
    return timed_plain_write(context, (block.values for slab in _slabs(dealt) for _, block in slab))


def _verify(context: Context, dealt: Dealt) -> None:
    """Read every row of every dataset back and compare it; raises VerificationError."""
    opened = format_of(context).open(context.path, context.specification)
    try:
        for part in range(len(dealt.parts())):
            numbers = dealt.numbers(part)
            for first, stop in dealt.rows.alone(numbers).blocks():
                found = opened.block(opened.reader(part, range(first, stop))())
                truth = dealt.rows.picked(numbers[first:stop])
                same = np.array_equal(found.lengths, truth.lengths)
                if not (same and found.values.dtype == truth.values.dtype):
                    raise VerificationError(
                        f"{context.path}: rows from {first} on have other lengths or types"
                    )
                if not np.array_equal(found.values, truth.values):
                    raise VerificationError(f"{context.path}: rows from {first} on cannot be read back")
    finally:
        opened.close()


def run(context: Context) -> Outcome:
    """Return timed writes; the first plain write is discarded, the last file is read back in full."""
    spec = context.specification
    asked = spec["case"]["rows"]
    rows, skipped = rows_of(context), dict[str, str]()
    call = len(rows) if asked["call"] == "all" else asked["call"]
    dealt = Dealt(rows, call, asked["datasets"])
    counters = Counters(context.artifact.processes())
    try:
        found = repeated_writes(
            context,
            {"asked_bytes": rows.nbytes, "rows": len(rows)},
            lambda: _timed_reference(context, dealt),
            lambda: _timed_write(context, dealt, counters),
        )
        reads = RowReads(context, dealt)
        read_states(context, reads, rows.alone(dealt.numbers(0)), {"rows": "all"}, skipped)
        reads.verify()
        _verify(context, dealt)
        report = format_of(context).report(context.path, spec)
    finally:
        context.artifact.clear()
    return Outcome([*found, *reads.rows], report, skipped)
