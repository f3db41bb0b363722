"""Timed writes of the whole array by a strategy, each beside a plain write and fsync of the same bytes."""

from __future__ import annotations

import itertools
import math
import os
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Protocol

import numpy as np

from hyperslab.cases import Context, Outcome, VerificationError, error_columns
from hyperslab.companions import companions, remove_companions
from hyperslab.filters import lossy
from hyperslab.measuring import pagecache
from hyperslab.measuring.counters import Counters, between
from hyperslab.measuring.deviation import Deviation
from hyperslab.selections import Box

VERIFY_BYTES = 64 * 2**20
# As many times of single calls, at most, are kept in a record.
EACH_CALL = 256


class Closable(Protocol):
    """An open file of whatever kind."""

    def flush(self) -> None: ...

    def close(self) -> None: ...


def block_extent(
    case: dict[str, Any], dataset: dict[str, Any], chunks: Sequence[int] | None
) -> tuple[int, ...]:
    """Elements per axis that one write call covers.

    whole: everything; chunk: one chunk; spectrum: one line along the last axis; spectra-block: a chunk's
    extent along all axes but the last, which is whole. A contiguous array has no chunks: there, a chunk is
    one plane of the first axis.
    """
    shape: list[int] = dataset["shape"]
    chunk = list(chunks) if chunks else [1, *shape[1:]]
    named = {
        "whole": shape,
        "chunk": chunk,
        "spectrum": [1] * (len(shape) - 1) + [shape[-1]],
        "spectra-block": [*chunk[:-1], shape[-1]],
    }
    if case["strategy"] in named:
        return tuple(named[case["strategy"]])
    sizes = zip(dataset["axes"], shape, chunk, strict=True)
    asked = ((case["block"].get(axis, "all"), whole, one) for axis, whole, one in sizes)
    return tuple(
        {"all": whole, "chunk": one}.get(extent) or min(extent, whole) for extent, whole, one in asked
    )


def boxes_of(shape: Sequence[int], extent: Sequence[int], first: int = 0) -> Iterator[Box]:
    """Boxes of `extent`, cut at the edge, that cover `shape` in row-major order; `first` shifts axis 0."""
    steps = [range(0, size, width) for size, width in zip(shape, extent, strict=True)]
    for start in itertools.product(*steps):
        width = (min(s + e, n) - s for s, e, n in zip(start, extent, shape, strict=True))
        yield Box((start[0] + first, *start[1:]), tuple(width))


def _slabs(shape: Sequence[int], extent: Sequence[int]) -> Iterator[Box]:
    """The array in pieces of whole blocks along the first axis, so that memory holds one piece."""
    yield from boxes_of(shape, [extent[0], *shape[1:]])


def _timed_write(context: Context, extent: Sequence[int], counters: Counters) -> dict[str, Any]:
    """Create, write, flush, close and fsync a new file: a column each, with the bytes and calls of all.

    The values of a slab are made outside the stopwatch, which adds up the write calls alone.
    """
    spec = context.specification
    calls = array("q")
    before = counters.read()
    started = perf_counter_ns()
    opened = context.format.create(context.path, spec)
    created = perf_counter_ns()
    for slab in _slabs(spec["dataset"]["shape"], extent):
        values = context.values.block(slab.origin, slab.extent)
        boxes = list(boxes_of(slab.extent, extent, slab.origin[0]))
        views = [values[_inside(box, slab)] for box in boxes]
        marks = array("q", [perf_counter_ns()])
        for box, view in zip(boxes, views, strict=True):
            opened.write(box, view)
            # One look at the clock a call; the calls add up to the whole.
            marks.append(perf_counter_ns())
        calls.extend(np.diff(marks).tolist())
        del values, views
    ended = timed_end(opened, context.path)
    counted = between(before, counters.read())
    kept = ("written_bytes", "requested_writes", "requested_bytes", "requested_reads")
    return {**span_columns(created - started, calls, ended), **{name: counted[name] for name in kept}}


def timed_end(opened: Closable, path: str) -> dict[str, int]:
    """Flush, close and fsync a file and what belongs to it: nanoseconds of each."""
    before = perf_counter_ns()
    opened.flush()
    flushed = perf_counter_ns()
    opened.close()
    closed = perf_counter_ns()
    for name in [Path(path), *companions(path)]:
        fsync(name)
    synced = perf_counter_ns()
    return {"flush": flushed - before, "close": closed - flushed, "fsync": synced - closed}


def span_columns(created: int, calls: Sequence[int], ended: dict[str, int]) -> dict[str, Any]:
    """Columns of a durable write from nanoseconds: each phase in seconds, their sum, and the single calls."""
    spans = {"create": created, "write": sum(calls), **ended}
    seconds = {f"{name}_s": nanoseconds / 1e9 for name, nanoseconds in spans.items()}
    return {"time_s": sum(spans.values()) / 1e9, **seconds, **call_columns(calls)}


def call_columns(calls: Sequence[int]) -> dict[str, Any]:
    """Mean, median and longest time of the calls (nanoseconds each), and each of them where they are few."""
    # The clock tells whole nanoseconds, and so do all columns of seconds.
    columns: dict[str, Any] = {
        "calls": len(calls),
        "call_mean_s": round(float(np.mean(calls))) / 1e9,
        "call_median_s": round(float(np.median(calls))) / 1e9,
        "call_max_s": max(calls) / 1e9,
    }
    return {**columns, "each_call_s": [one / 1e9 for one in calls]} if len(calls) <= EACH_CALL else columns


def _inside(box: Box, slab: Box) -> tuple[slice, ...]:
    starts = [b - s for b, s in zip(box.origin, slab.origin, strict=True)]
    return tuple(slice(start, start + width) for start, width in zip(starts, box.extent, strict=True))


def fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def timed_reference(context: Context, extent: Sequence[int]) -> float:
    """Seconds of a plain write and fsync of the same bytes, in the same pieces, in the same directory."""
    descriptor = os.open(context.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    elapsed = 0
    try:
        for slab in _slabs(context.specification["dataset"]["shape"], extent):
            block = np.ascontiguousarray(context.values.block(slab.origin, slab.extent))
            view = block.data.cast("B")
            begin = perf_counter_ns()
            while view:
                view = view[os.write(descriptor, view) :]
            elapsed += perf_counter_ns() - begin
        begin = perf_counter_ns()
        os.fsync(descriptor)
        elapsed += perf_counter_ns() - begin
    finally:
        os.close(descriptor)
    return elapsed / 1e9


def _verify(context: Context) -> dict[str, float]:
    """Read the file back and compare it with the truth; returns the error of a lossy layout in columns."""
    spec = context.specification
    shape = spec["dataset"]["shape"]
    plane = math.prod(shape[1:]) * context.values.dtype.itemsize
    exact, deviation = not lossy(spec["layout"]["filters"]), Deviation()
    opened = context.format.open(context.path, spec)
    try:
        for slab in boxes_of(shape, [max(1, VERIFY_BYTES // plane), *shape[1:]]):
            found, truth = opened.read(slab), context.values.block(slab.origin, slab.extent)
            if not exact:
                deviation.add(found, truth)
            elif not np.array_equal(found, truth):
                raise VerificationError(
                    f"{context.path}: what was written cannot be read back at {slab.origin}"
                )
    finally:
        opened.close()
    return {} if exact else error_columns(context, deviation)


def remove(path: str) -> None:
    """Remove a file and let its file system finish with it."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    remove_companions(path)
    pagecache.sync_file_system(os.path.dirname(path))


def reference_first(repeat: int, repeats: int) -> bool:
    """Whether the plain write goes before the timed one: in turn, since who comes second finds memory warm.

    Before the last one it does, so that the file read back is the last one written.
    """
    return (repeats - repeat) % 2 == 1


def run(context: Context) -> Outcome:
    """Timed writes; the first of two equal-size writes is discarded, the last file is read back in full."""
    spec = context.specification
    extent = block_extent(spec["case"], spec["dataset"], spec["layout"]["chunks"])
    counters = Counters()
    rows: list[dict[str, Any]] = []
    report: dict[str, Any] = {}
    asked_bytes = math.prod(spec["dataset"]["shape"]) * context.values.dtype.itemsize
    context.limiter.begin()
    try:
        # First touch of memory and of the file system's own structures belongs to no repeat.
        discarded_s = timed_reference(context, extent)
        repeats = spec["repeats"]["write"]
        while len(rows) < repeats:
            repeat = len(rows)
            row: dict[str, Any] = {"state": "write", "repeat": repeat, "asked_bytes": asked_bytes}
            for plain in (True, False) if reference_first(repeat, repeats) else (False, True):
                # Nothing dirty is left of the file before, which syncs its file system when removed.
                remove(context.path)
                if plain:
                    row["reference_s"] = timed_reference(context, extent)
                else:
                    row.update(_timed_write(context, extent, counters))
            rows.append(row if repeat else {**row, "discarded_reference_s": discarded_s})
            written = sum(row["written_bytes"] for row in rows)
            if len(rows) == repeats and not context.limiter.enough("write", written, repeats):
                # Two more, so that the plain write still goes first as often as second, and before the last.
                repeats += 2
        error = _verify(context)
        report = {**context.format.report(context.path, spec), **error}
        # A chunk cache decides in which order chunks reach a version-1 B-tree, hence how full its nodes are.
        report["index_predicted_bytes"] = None
    finally:
        remove(context.path)
    return Outcome(rows, report, {})
