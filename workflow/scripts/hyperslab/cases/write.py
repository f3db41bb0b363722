"""Timed writes of the whole array by a strategy, each beside a plain write and fsync of the same bytes."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np

from hyperslab.cases.context import Context, Outcome, VerificationError, error_columns
from hyperslab.cases.durable import (
    removed_afterwards,
    repeated_writes,
    span_columns,
    timed_end,
    timed_reference,
)
from hyperslab.cases.timed_selections import same
from hyperslab.data.levels import truth as coarse_truth
from hyperslab.data.selections import Box, at_level
from hyperslab.data.strategies import block_extent
from hyperslab.data.tiles import covering, inside, slabs
from hyperslab.layouts.layout import Layout
from hyperslab.measuring.counters import OF_WRITES, Counters, between, of_servers, on_wire
from hyperslab.measuring.deviation import Deviation
from hyperslab.records import Row

VERIFY_BYTES = 64 * 2**20


def _timed_write(context: Context, extent: Sequence[int], counters: Counters) -> dict[str, Any]:
    """Create, write, flush, close and fsync a new file: a column each, with the bytes and calls of all.

    The values of a slab are made outside the stopwatch, which adds up the write calls alone.
    """
    spec = context.specification
    calls = array("q")
    counters.follow(context.artifact.processes())
    wire, before = context.artifact.wire(), counters.read()
    started = perf_counter_ns()
    opened = context.format.create(context.path, spec)
    created = perf_counter_ns()
    for slab in slabs(spec["dataset"]["shape"], extent):
        values = context.values.block(slab.origin, slab.extent)
        boxes = list(covering(slab.extent, extent, slab.origin[0]))
        views = [values[inside(box, slab)] for box in boxes]
        marks = array("q", [perf_counter_ns()])
        for box, view in zip(boxes, views, strict=True):
            opened.write(box, view)
            # One look at the clock a call; the calls add up to the whole.
            marks.append(perf_counter_ns())
        calls.extend(np.diff(marks).tolist())
        del values, views
    ended = timed_end(opened, context.artifact)
    after = counters.read()
    counted = between(before, after)
    row = {**span_columns(created - started, calls, ended), **{name: counted[name] for name in OF_WRITES}}
    if passed := on_wire(wire, context.artifact.wire()):
        row |= passed.upload_columns()
    if memory := context.artifact.memory_bytes():
        row["server_memory_bytes"] = memory
    return {**row, **of_servers(before, after)}


def _verify(context: Context, extent: Sequence[int]) -> dict[str, float]:
    """Read the file back and compare it with the truth; returns the error of a lossy layout in columns.

    Where no bound is promised, and blocks of `extent` are whole chunks, what is read has to be what the
    layout's filters make of the truth. A chunk that is written in parts may pass them more than once.
    """
    spec = context.specification
    shape = spec["dataset"]["shape"]
    plane = math.prod(shape[1:]) * context.values.dtype.itemsize
    exact, deviation = not context.layout.lossy(), Deviation()
    kept = context.kept_values() if in_whole_chunks(context.layout, shape, extent) else None
    # What is read back comes from the files, not from what serves them.
    context.artifact.restart()
    opened = context.format.open(context.path, spec)
    try:
        for slab in covering(shape, [max(1, VERIFY_BYTES // plane), *shape[1:]]):
            found, truth = opened.read(slab), context.values.block(slab.origin, slab.extent)
            if not exact:
                deviation.add(found, truth)
                if kept is not None and not same(found, kept.block(slab.origin, slab.extent)):
                    raise VerificationError(
                        f"{context.path}: what is read back at {slab.origin} is not what "
                        f"{context.layout.filters_text()} makes of what was written"
                    )
            elif not same(found, truth):
                raise VerificationError(
                    f"{context.path}: what was written cannot be read back at {slab.origin}"
                )
        for level in range(1, context.layout.coarser_levels + 1):
            coarse = at_level(Box((0,) * len(shape), tuple(shape)), level)
            right = coarse_truth(context.values, coarse, context.layout.averaged_levels)
            if not np.array_equal(opened.read(coarse), right, equal_nan=right.dtype.kind == "f"):
                raise VerificationError(f"{context.path}: level {level} is not that of what was written")
    finally:
        opened.close()
    return {} if exact else error_columns(context, deviation)


def in_whole_chunks(layout: Layout, shape: Sequence[int], extent: Sequence[int]) -> bool:
    """Return whether each chunk is written at once by blocks of `extent`, in all files of the layout."""
    axis, begins = layout.borders(shape)
    sizes = zip(extent, layout.chunks or shape, shape, strict=True)
    return all(not width % chunk or width >= length for width, chunk, length in sizes) and (
        extent[axis] >= shape[axis] or all(not begin % extent[axis] for begin in begins)
    )


def run(context: Context) -> Outcome:
    """Return timed writes; the first of two equal-size writes is discarded,
    the last file is read back in full.
    """
    spec, dataset = context.specification, context.specification["dataset"]
    extent = block_extent(spec["case"], dataset["axes"], dataset["shape"], context.layout.chunks)
    counters = Counters(context.artifact.processes())
    itemsize = context.values.dtype.itemsize
    row: Row = {"asked_bytes": math.prod(dataset["shape"]) * itemsize}
    if rewritten := context.layout.rewritten_bytes(dataset["shape"], extent, itemsize):
        row["rewritten_predicted_bytes"] = rewritten
    with removed_afterwards(context.artifact):
        rows = repeated_writes(
            context,
            row,
            lambda: timed_reference(context, extent),
            lambda: _timed_write(context, extent, counters),
        )
        error = _verify(context, extent)
        report = {**context.format.report(context.path, spec), **error}
        # A chunk cache decides in which order chunks reach a version-1 B-tree, hence how full its nodes are.
        report["index_predicted_bytes"] = None
    return Outcome(rows, report, {})
