"""Timed replacements of ragged rows by rows of other lengths, in a file that holds all rows."""

from __future__ import annotations

from array import array
from time import perf_counter_ns

import numpy as np
import numpy.typing as npt

from hyperslab.cases.context import Context, Outcome, VerificationError
from hyperslab.cases.durable import removed_afterwards, span_columns, timed_end
from hyperslab.cases.rows.dealt import digests, format_of, rows_of
from hyperslab.data.selections import generator
from hyperslab.measuring.counters import OF_WRITES, Counters, between
from hyperslab.measuring.pagecache import sync_file_system
from hyperslab.records import Row


def replaced(context: Context, repeat: int) -> npt.NDArray[np.int64]:
    """Return what every row holds in the end: the study's number of the row whose values it has.

    Those that are replaced get the values of the row half of all rows further on.
    """
    spec, count = context.specification, len(rows_of(context))
    rng = generator(spec["study"], spec["seed"], spec["case"]["name"], spec["round"], repeat)
    chosen = rng.choice(count, spec["case"]["rows"]["replaced"], replace=False)
    held = np.arange(count)
    held[chosen] = (chosen + count // 2) % count
    return held


def _timed_rewrite(context: Context, held: npt.NDArray[np.int64], counters: Counters) -> Row:
    """Open the file, replace rows, flush, close and fsync: a column each, with the bytes and calls of all."""
    rows = rows_of(context)
    numbers = np.flatnonzero(held != np.arange(len(rows)))
    values = [rows.run(int(other), int(other) + 1).values for other in held[numbers]]
    calls = array("q")
    before = counters.read()
    started = perf_counter_ns()
    opened = format_of(context).modify(context.path, context.specification)
    created = perf_counter_ns()
    for number, row in zip(numbers.tolist(), values, strict=True):
        replace = opened.replacer(0, number, row)
        begun = perf_counter_ns()
        replace()
        calls.append(perf_counter_ns() - begun)
    columns = opened.columns()
    ended = timed_end(opened, context.artifact)
    counted = between(before, counters.read())
    asked = sum(row.nbytes for row in values)
    return {
        **span_columns(created - started, calls, ended), **{name: counted[name] for name in OF_WRITES},
        **columns, "asked_bytes": asked, "rows": len(values),
    }  # fmt: skip


def _verify(context: Context, held: npt.NDArray[np.int64]) -> None:
    """Read every row back and compare it with what it has to hold; raises VerificationError."""
    rows = rows_of(context)
    opened = format_of(context).open(context.path, context.specification)
    try:
        for first, stop in rows.alone(held).blocks():
            found = digests(opened.block(opened.reader(0, range(first, stop))()))
            if found != digests(rows.picked(held[first:stop])):
                raise VerificationError(
                    f"{context.path}: rows from {first} on are not those that were written"
                )
    finally:
        opened.close()


def run(context: Context) -> Outcome:
    """Return timed replacements, each in a newly written file; every row of every file is read back."""
    spec, rows = context.specification, rows_of(context)
    counters = Counters(context.artifact.processes())
    found: list[Row] = []
    with removed_afterwards(context.artifact):
        for repeat in range(spec["repeats"]["write"]):
            context.artifact.clear()
            format_of(context).generate(context.path, spec, rows)
            before = context.artifact.bytes()
            sync_file_system(context.artifact.directory)
            held = replaced(context, repeat)
            row: Row = {"state": "write", "repeat": repeat, **_timed_rewrite(context, held, counters)}
            found.append({**row, "grown_bytes": context.artifact.bytes() - before})
            _verify(context, held)
        report = format_of(context).report(context.path, spec)
    return Outcome(found, report, {})
