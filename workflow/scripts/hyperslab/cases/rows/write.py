"""Timed writes of ragged rows, so many a call, each beside a plain write and fsync of the same bytes."""

from __future__ import annotations

from array import array
from time import perf_counter_ns

import numpy as np

from hyperslab.cases.context import Context, Outcome
from hyperslab.cases.durable import removed_afterwards, repeated_writes, span_columns, timed_end
from hyperslab.cases.rows.dealt import Dealt, format_of, rows_of, slabs, timed_reference, verify
from hyperslab.cases.rows.read import RowReads, read_states
from hyperslab.measuring.counters import OF_WRITES, Counters, between
from hyperslab.records import Row


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
    for slab in slabs(dealt):
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
    kept = {name: counted[name] for name in OF_WRITES}
    return {**span_columns(created - started, calls, ended), **kept, **held}


def run(context: Context) -> Outcome:
    """Return timed writes; the first plain write is discarded, the last file is read back in full."""
    spec = context.specification
    asked = spec["case"]["rows"]
    rows = rows_of(context)
    call = len(rows) if asked["call"] == "all" else asked["call"]
    dealt = Dealt(rows, call, asked["datasets"])
    counters = Counters(context.artifact.processes())
    with removed_afterwards(context.artifact):
        found = repeated_writes(
            context,
            {"asked_bytes": rows.nbytes, "rows": len(rows)},
            lambda: timed_reference(context, dealt),
            lambda: _timed_write(context, dealt, counters),
        )
        reads = RowReads(context, dealt)
        skipped = read_states(context, reads, rows.alone(dealt.numbers(0)), {"rows": "all"})
        reads.verify()
        verify(context, dealt)
        report = format_of(context).report(context.path, spec)
    return Outcome([*found, *reads.rows], report, skipped)
