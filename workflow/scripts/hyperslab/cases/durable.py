"""Durable writes: the columns of a write, and the plain write beside it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import perf_counter_ns
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hyperslab.cases.context import Context
from hyperslab.data.tiles import slabs
from hyperslab.measuring.artifact import Artifact
from hyperslab.measuring.throttling import moved
from hyperslab.records import Row

# The plain write beside each timed one is a part of the artifact.
PLAIN = "-plain"
# As many times of single calls, at most, are kept in a record.
EACH_CALL = 256


class Closable(Protocol):
    """An open file of whatever kind."""

    def flush(self) -> None: ...

    def close(self) -> None: ...


@contextmanager
def removed_afterwards(artifact: Artifact) -> Iterator[None]:
    """Remove what the block wrote, whatever happens; why the block failed is said first."""
    try:
        yield
    except BaseException:
        # That it cannot be removed either would hide why.
        with suppress(OSError):
            artifact.remove()
        raise
    artifact.remove()


def timed_end(opened: Closable, artifact: Artifact) -> dict[str, int]:
    """Flush, close and fsync an artifact's data, and put them where they are read: return the nanoseconds of
    each.
    """
    before = perf_counter_ns()
    opened.flush()
    flushed = perf_counter_ns()
    opened.close()
    closed = perf_counter_ns()
    artifact.fsync()
    synced = perf_counter_ns()
    uploaded = artifact.upload()
    ended = perf_counter_ns()
    spans = {"flush": flushed - before, "close": closed - flushed, "fsync": synced - closed}
    return {**spans, "upload": ended - synced} if uploaded else spans


def span_columns(created: int, calls: Sequence[int], ended: dict[str, int]) -> dict[str, Any]:
    """Return the columns of a durable write from nanoseconds: each phase in seconds, their sum,
    and the single calls.
    """
    spans = {"create": created, "write": sum(calls), **ended}
    seconds = {f"{name}_s": nanoseconds / 1e9 for name, nanoseconds in spans.items()}
    return {"time_s": sum(spans.values()) / 1e9, **seconds, **call_columns(calls)}


def call_columns(calls: Sequence[int]) -> dict[str, Any]:
    """Return the mean, median and longest time of the calls (nanoseconds each),
    and each of them where they are few.
    """
    # The clock tells whole nanoseconds, and so do all columns of seconds.
    columns: dict[str, Any] = {
        "calls": len(calls),
        "call_mean_s": round(float(np.mean(calls))) / 1e9,
        "call_median_s": round(float(np.median(calls))) / 1e9,
        "call_max_s": max(calls) / 1e9,
    }
    return {**columns, "each_call_s": [one / 1e9 for one in calls]} if len(calls) <= EACH_CALL else columns


def timed_reference(context: Context, extent: Sequence[int]) -> float:
    """Return the seconds of a plain write and fsync of the same bytes in the same directory, in slabs as
    thick as `extent` along the first axis.
    """
    pieces = slabs(context.specification["dataset"]["shape"], extent)
    return timed_plain_write(context, (context.values.block(piece.origin, piece.extent) for piece in pieces))


def timed_plain_write(context: Context, blocks: Iterable[npt.NDArray[Any]]) -> float:
    """Return the seconds of a plain write and fsync of blocks one after the other,
    in the directory of the artifact.
    """
    descriptor = os.open(context.artifact.part(PLAIN), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    elapsed = 0
    try:
        for block in blocks:
            view = np.ascontiguousarray(block).data.cast("B")
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


def reference_first(repeat: int, repeats: int) -> bool:
    """Return whether the plain write goes before the timed one: in turn,
    since who comes second finds memory warm.

    Before the last one it does, so that the file read back is the last one written.
    """
    return (repeats - repeat) % 2 == 1


def in_turn(repeat: int, repeats: int, reference: Callable[[], float], write: Callable[[], Row]) -> Row:
    """Return the columns of a timed `write`, and the seconds of the plain `reference` in turn with it."""
    row: Row = {}
    for plain in (True, False) if reference_first(repeat, repeats) else (False, True):
        if plain:
            row["reference_s"] = reference()
        else:
            row |= write()
    return row


def repeated_writes(
    context: Context, row: Row, reference: Callable[[], float], write: Callable[[], Row]
) -> list[Row]:
    """Return `row` once a repeat, with the columns of a timed `write` and the seconds of the plain
    `reference` in turn with it; the first plain write is discarded. The last file is left.

    On a throttled site more are made until their mean says enough.
    """
    context.limiter.begin()
    # First touch of memory and of the file system's own structures belongs to no repeat.
    discarded_s = reference()
    repeats = context.specification["repeats"]["write"]
    found: list[Row] = []

    # Nothing dirty is left of the file before, which syncs its file system when removed.
    def plain() -> float:
        context.artifact.clear_unasked()
        return reference()

    def anew() -> Row:
        context.artifact.clear()
        return write()

    while len(found) < repeats:
        repeat = len(found)
        one: Row = {"state": "write", "repeat": repeat, **row, **in_turn(repeat, repeats, plain, anew)}
        found.append(one if repeat else {**one, "discarded_reference_s": discarded_s})
        written = sum(moved(each) or 0 for each in found)
        if len(found) == repeats and not context.limiter.enough("write", written, repeats):
            # Two more, so that the plain write still goes first as often as second, and before the last.
            repeats += 2
    return found
