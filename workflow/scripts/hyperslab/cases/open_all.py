"""Every file of a layout found, opened and closed. Stopwatch: `_timed`, from listing to the last close."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter_ns
from typing import Any

from hyperslab import formats
from hyperslab.cases.context import Context, Outcome, VerificationError
from hyperslab.cases.states import each_state
from hyperslab.cases.timed_selections import same
from hyperslab.data.selections import Box
from hyperslab.measuring.counters import Counters, between, on_wire
from hyperslab.measuring.residency import NodeCache
from hyperslab.records import Row
from hyperslab.specifications import Specification

# Path of a file, what describes it by itself, and which part of the array it holds.
Member = tuple[str, Specification, Box]


def _as_one(context: Context, members: list[Member]) -> bool:
    """Return whether all is opened at once, by one name."""
    return members[0][0] == context.path


def _opener(context: Context, members: list[Member]) -> tuple[formats.Format, Callable[[], None]]:
    """Return the format that opens each of the members, by one new client, and what lets that go."""
    if _as_one(context, members):
        return context.format, lambda: None
    collection: Any = context.format
    found: tuple[formats.Format, Callable[[], None]] = collection.of_one_client(
        context.path, context.specification
    )
    return found


def _timed(context: Context, members: list[Member]) -> tuple[float, list[float]]:
    """Return the seconds of finding, opening and closing all, and those of each file."""
    several, each = not _as_one(context, members), []
    started = perf_counter_ns()
    there = context.artifact.listed() if several else None
    one, let_go = _opener(context, members)
    for path, spec, _ in members:
        before = perf_counter_ns()
        if there is not None and os.path.basename(path) not in there:
            raise FileNotFoundError(f"{path}: there is no such file")
        one.open(path, spec).close()
        each.append((perf_counter_ns() - before) / 1e9)
    let_go()
    return (perf_counter_ns() - started) / 1e9, each


def _row(extent: Sequence[int], cut: int | None) -> Box:
    """Return a row of an array: all along one axis, of the one that is `cut` into files the last index.

    In the middle of the others, since fields of all days may be alike at their edges.
    """
    along = max(axis for axis in range(len(extent)) if axis != cut or len(extent) == 1)
    origin = [size - 1 if axis == cut else size // 2 for axis, size in enumerate(extent)]
    width = [1] * len(extent)
    origin[along], width[along] = 0, extent[along]
    return Box(tuple(origin), tuple(width))


def _verify(context: Context, members: list[Member]) -> None:
    """Raise VerificationError where a row of a file is not what was written."""
    one, let_go = _opener(context, members)
    files = context.specification["layout"].get("files")
    cut = files["axis"] if files else None
    for path, spec, part in members:
        row = _row(part.extent, cut)
        opened = one.open(path, spec)
        try:
            found = opened.read(row)
        finally:
            opened.close()
        where = [start + inside for start, inside in zip(part.origin, row.origin, strict=True)]
        if not same(found, context.values.block(where, row.extent)):
            raise VerificationError(f"{path}: a row of it differs from what was written")
    let_go()


def run(context: Context) -> Outcome:
    """Measure every state; raises VerificationError where a file is not the one that was written."""
    spec = context.specification
    members = formats.files_of(context.path, spec)
    cache = NodeCache(context.artifact, context.memory_resident)
    counters = Counters()
    rows: list[Row] = []

    def measure(state: str) -> None:
        if state == "warm" and context.artifact.remembers:
            # What serves the data opens them for the first time before, and not in the first repeat.
            _timed(context, members)
        for repeat in range(spec["repeats"][state]):
            share = cache.filled() if state == "warm" else cache.evicted()
            # A server that had to forget is another process.
            counters.follow(context.artifact.processes())
            wire, before = context.artifact.wire(), counters.read()
            seconds, each = _timed(context, members)
            after = counters.read()
            counted: Row = dict(between(before, after))
            if passed := on_wire(wire, context.artifact.wire()):
                # Sockets are no files: not the kernel counts what was asked for, but the gateway.
                counted = passed.columns()
            row: Row = {"state": context.called(state), "repeat": repeat, "time_s": seconds}
            row |= {"resident_before": share, "calls": len(each), "call_mean_s": sum(each) / len(each)}
            row |= {"call_median_s": median(each), "call_max_s": max(each)}
            rows.append(row | counted | {"resident_after": cache.resident()})

    try:
        skipped = each_state(spec["case"]["states"], ("warm", "cold"), measure, rows)
        _verify(context, members)
        return Outcome(rows, context.format.report(context.path, spec), skipped)
    finally:
        cache.close()
