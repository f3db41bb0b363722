"""Every file of a layout found, opened and closed. Stopwatch: `_timed`, from listing to the last close."""

from __future__ import annotations

import os
from statistics import median
from time import perf_counter_ns

import numpy as np

from hyperslab import formats
from hyperslab.cases.context import Context, Outcome, VerificationError
from hyperslab.cases.states import each_state
from hyperslab.data.selections import Box
from hyperslab.layouts.collection import FILES
from hyperslab.measuring.counters import Counters, between
from hyperslab.measuring.residency import NodeCache
from hyperslab.records import Row
from hyperslab.specifications import Specification

# Path of a file, what describes it by itself, and which part of the array it holds.
Member = tuple[str, Specification, Box]


def _timed(context: Context, members: list[Member]) -> tuple[float, list[float]]:
    """Return the seconds of finding, opening and closing all, and those of each file."""
    one, each = formats.load(context.specification["layout"]["format"]), []
    several = FILES in context.specification["layout"]
    started = perf_counter_ns()
    there = {entry.name for entry in os.scandir(context.path)} if several else None
    for path, spec, _ in members:
        before = perf_counter_ns()
        if there is not None and os.path.basename(path) not in there:
            raise FileNotFoundError(f"{path}: there is no such file")
        one.open(path, spec).close()
        each.append((perf_counter_ns() - before) / 1e9)
    return (perf_counter_ns() - started) / 1e9, each


def _verify(context: Context, members: list[Member]) -> None:
    """Raise VerificationError where the last element of a file is not what was written."""
    one = formats.load(context.specification["layout"]["format"])
    for path, spec, part in members:
        last = tuple(extent - 1 for extent in part.extent)
        element = (1,) * len(last)
        opened = one.open(path, spec)
        try:
            found = opened.read(Box(last, element))
        finally:
            opened.close()
        where = [start + inside for start, inside in zip(part.origin, last, strict=True)]
        if not np.array_equal(found, context.values.block(where, element)):
            raise VerificationError(f"{path}: its last element differs from what was written")


def run(context: Context) -> Outcome:
    """Measure every state; raises VerificationError where a file is not the one that was written."""
    spec = context.specification
    members = formats.files_of(context.path, spec)
    cache = NodeCache(context.artifact, context.memory_resident)
    counters = Counters(context.artifact.processes())
    rows: list[Row] = []

    def measure(state: str) -> None:
        for repeat in range(spec["repeats"][state]):
            share = cache.filled() if state == "warm" else cache.evicted()
            before = counters.read()
            seconds, each = _timed(context, members)
            after = counters.read()
            row: Row = {"state": context.called(state), "repeat": repeat, "time_s": seconds}
            row |= {"resident_before": share, "calls": len(each), "call_mean_s": sum(each) / len(each)}
            row |= {"call_median_s": median(each), "call_max_s": max(each)}
            rows.append(row | between(before, after) | {"resident_after": cache.resident()})

    try:
        skipped = each_state(spec["case"]["states"], ("warm", "cold"), measure, rows)
        _verify(context, members)
        return Outcome(rows, context.format.report(context.path, spec), skipped)
    finally:
        cache.close()
