"""Timed reads of ragged rows, cold and warm. The stopwatch is in `_timed_read`."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any, cast

import numpy as np

from hyperslab.cases.context import Context, Outcome, VerificationError
from hyperslab.cases.rows.dealt import Dealt, digests, format_of, rows_of
from hyperslab.cases.states import each_state
from hyperslab.cases.timed_selections import timed_close, timed_open
from hyperslab.data.rows import BLOCK_BYTES, Rows
from hyperslab.data.selections import generator, random_boxes
from hyperslab.formats.row_seam import Numbers, OpenRows
from hyperslab.measuring.counters import Counters, between
from hyperslab.measuring.residency import NodeCache
from hyperslab.records import Row


def selections(
    rows: Rows, asked: dict[str, Any], count: int, rng: np.random.Generator
) -> list[list[Numbers]]:
    """Return `count` selections of rows, each as the calls that read it."""
    found: list[list[Numbers]] = []
    extent = len(rows) if asked["rows"] == "all" else asked["rows"]
    for box in random_boxes([len(rows)], [extent], count, rng):
        if asked["rows"] == "all":
            found.append([range(first, stop) for first, stop in rows.blocks(asked.get("call"))])
        elif asked.get("scattered"):
            numbers = np.sort(rng.choice(len(rows), asked["rows"], replace=False))
            found.append([numbers.tolist()])
        else:
            first, stop = box.origin[0], box.origin[0] + asked["rows"]
            step = asked.get("call") or _step(rows, first, stop)
            found.append([range(one, min(one + step, stop)) for one in range(first, stop, step)])
    return found


def _step(rows: Rows, first: int, stop: int) -> int:
    """Return how many rows of a run one call reads: all, where BLOCK_BYTES hold them."""
    return max(1, (stop - first) * BLOCK_BYTES // max(rows.weight(first, stop), BLOCK_BYTES))


class RowReads:
    """Reads of one dataset of an artifact; what was read is kept as a digest a row, and compared later."""

    def __init__(self, context: Context, dealt: Dealt, part: int = 0) -> None:
        self._context, self._part = context, part
        self._rows, self._numbers = dealt.rows, dealt.numbers(part)
        self._counters = Counters(context.artifact.processes())
        self._read: dict[int, set[bytes]] = {}
        self.rows: list[Row] = []

    def _timed_read(self, opened: OpenRows, calls: Sequence[Numbers], state: str, repeat: int) -> Row:
        elapsed = asked = 0
        reads = [opened.reader(self._part, numbers) for numbers in calls]
        before = self._counters.read()
        for numbers, read in zip(calls, reads, strict=True):
            started = perf_counter_ns()
            found = read()
            elapsed += perf_counter_ns() - started
            # One block is in memory at a time; a digest asks nothing of the file.
            block = opened.block(found)
            asked += block.nbytes
            if (count := len(block.lengths)) != len(numbers):
                said = f"{count} rows came back where {len(numbers)} were asked for"
                raise VerificationError(f"{self._context.path}: {said}")
            for number, digest in zip(numbers, digests(block), strict=True):
                self._read.setdefault(number, set()).add(digest)
            # To free what was read is not part of the next call.
            del found, block
        row: Row = {"state": state, "repeat": repeat, "time_s": elapsed / 1e9, "calls": len(calls)}
        row |= {"origin": [calls[0][0]], "rows": sum(map(len, calls)), "asked_bytes": asked}
        row |= between(before, self._counters.read()) | opened.columns()
        self.rows.append(row)
        return row

    def cold(self, cache: NodeCache, found: Sequence[Sequence[Numbers]]) -> None:
        """Evict, open, read one selection and close, for each selection; raises NotInState."""
        state = self._context.called("cold")
        for repeat, calls in enumerate(found):
            share = cache.evicted()
            opened, open_s = self._open()
            row = self._timed_read(opened, calls, state, repeat)
            row.update(open_s=open_s, close_s=timed_close(opened), resident_before=share)
            row["resident_after"] = cache.resident()

    def warm(self, cache: NodeCache, found: Sequence[Sequence[Numbers]]) -> None:
        """Read all selections on one open file that is in the page cache; raises NotInState."""
        cache.filled()
        opened, open_s = self._open()
        try:
            # Many FUSE file systems drop the cached pages whenever a file is opened.
            share = cache.filled()
            for repeat, calls in enumerate(found):
                row = self._timed_read(opened, calls, "warm", repeat)
                row["resident_before"], share = share, cache.resident()
                row["resident_after"] = share
                if repeat == 0:
                    row["open_s"] = open_s
        finally:
            close_s = timed_close(opened)
        row["close_s"] = close_s

    def _open(self) -> tuple[OpenRows, float]:
        # Of such a cell the format is one of rows.
        return cast("tuple[OpenRows, float]", timed_open(self._context))

    def verify(self) -> None:
        """Compare every row that was read with the truth; raises VerificationError naming the first wrong."""
        wanted = np.array(sorted(self._read), np.int64)
        own = self._numbers[wanted]
        for first, stop in self._rows.alone(own).blocks():
            truth = digests(self._rows.picked(own[first:stop]))
            for number, right in zip(wanted[first:stop].tolist(), truth, strict=True):
                if self._read[number] != {right}:
                    raise VerificationError(
                        f"{self._context.path}: row {number} differs from what was written"
                    )


def read_states(context: Context, reads: RowReads, rows: Rows, asked: dict[str, Any]) -> dict[str, str]:
    """Read in every state that a case asks for; returns why which could not be had."""
    spec = context.specification
    # The newly written file, still in the page cache, need not be read again to be warm.
    states = {"warm": reads.warm, "cold": reads.cold}
    cache = NodeCache(context.artifact, context.memory_resident)

    def measure(state: str) -> None:
        rng = generator(spec.get("study"), spec["seed"], spec["case"]["name"], spec["round"], state)
        states[state](cache, selections(rows, asked, spec["repeats"][state], rng))

    try:
        return each_state(spec["case"]["states"], states, measure, reads.rows)
    finally:
        cache.close()


def run(context: Context) -> Outcome:
    """Measure every state of a case that reads rows; raises VerificationError where a row differs."""
    rows = rows_of(context)
    reads = RowReads(context, Dealt(rows, len(rows), 1))
    skipped = read_states(context, reads, rows, context.specification["case"]["rows"])
    reads.verify()
    report = format_of(context).report(context.path, context.specification)
    return Outcome(reads.rows, report, skipped)
