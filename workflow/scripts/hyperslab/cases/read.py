"""Timed selections: cold, warm and session. Stopwatches: `timed_selection`, `_timed_open`, `_timed_close`."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter_ns
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from hyperslab.cases.context import Context, Outcome, VerificationError, error_columns
from hyperslab.data.selections import Box, Pattern, asked_boxes, coarse
from hyperslab.data.tiles import selected
from hyperslab.formats import OpenArray
from hyperslab.measuring.counters import Counters, between
from hyperslab.measuring.deviation import Deviation
from hyperslab.measuring.pagecache import NotInState
from hyperslab.measuring.residency import NodeCache
from hyperslab.records import Row
from hyperslab.specifications import SHORT_SECONDS, CaseSpecification


def _digest(block: npt.NDArray[Any]) -> bytes:
    """Return a digest of type, extent and every byte of an array.

    XXH3, as fast as memory: what a slower one does to the processor's caches made the next warm read up to
    10 % slower.
    """
    digest = xxhash.xxh3_128(f"{block.dtype.str}{block.shape}".encode())
    digest.update(np.ascontiguousarray(block).data)
    return digest.digest()


def _counted(row: Row) -> Row:
    """Return the row with what the kernel counted in place of its two readings: parsed once,
    after the stopwatch.
    """
    if "counters" in row:
        row |= between(*row.pop("counters"))
    return row


def _timed_open(context: Context) -> tuple[OpenArray, float]:
    started = perf_counter_ns()
    opened = context.format.open(context.path, context.specification)
    stopped = perf_counter_ns()
    return opened, (stopped - started) / 1e9


def _timed_close(opened: OpenArray) -> float:
    started = perf_counter_ns()
    opened.close()
    stopped = perf_counter_ns()
    return (stopped - started) / 1e9


class _Session:
    """Selections in one process: counters around the stopwatch, digests of what was read."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._counters = Counters(context.artifact.processes())
        self._read: list[tuple[str, int, Box, bytes]] = []
        self.rows: list[Row] = []

    def timed_selection(self, opened: OpenArray, box: Box, state: str, repeat: int) -> Row:
        read = opened.reader(box)
        before = self._counters.read()
        started = perf_counter_ns()
        result = read()
        stopped = perf_counter_ns()
        after = self._counters.read()
        self._read.append((state, repeat, box, _digest(result)))
        row: Row = {
            "state": state,
            "repeat": repeat,
            "time_s": (stopped - started) / 1e9,
            "origin": list(box.origin),
            "asked_bytes": result.nbytes,
            "counters": (before, after),
        }
        self.rows.append(row)
        return row

    def device_bytes(self, state: str) -> int:
        """Return the bytes that all selections of a state so far have had from the device."""
        return sum(_counted(row)["device_bytes"] for row in self.rows if row["state"] == state)

    def short(self, repeats: int) -> bool:
        """Return whether the last `repeats` selections, each on a file opened for it, took little time."""
        waited = [float(row["open_s"] + row["time_s"]) for row in self.rows[-repeats:]]
        return statistics.median(waited) < SHORT_SECONDS

    def verify(self) -> dict[str, float]:
        """Compare everything that was read with the truth; raises VerificationError naming the selection.

        Returns the error of a lossy layout in columns; of any other every byte has to be right.
        """
        if self._context.layout.lossy():
            return self._error()
        # Neither numpy nor the digest holds the interpreter's lock for long.
        with ThreadPoolExecutor(2) as pool:
            expected = pool.map(lambda box: _digest(self._truth(box)), [box for _, _, box, _ in self._read])
            for (state, repeat, box, found), right in zip(self._read, expected, strict=True):
                if found != right:
                    raise VerificationError(
                        f"{self._context.path}: selection {repeat} of state {state} differs from what was "
                        f"written: origin {box.origin}, extent {box.extent}"
                    )
        return {}

    def _truth(self, box: Box) -> npt.NDArray[Any]:
        """Return what a selection has to give."""
        found = selected(self._context.values, box)
        memory = self._context.specification["case"].get("memory_dtype")
        return found.astype(memory or found.dtype, copy=False)

    def _error(self) -> dict[str, float]:
        """Return the error of all selections: each is read once more, gives what it gave, and is compared."""
        deviation = Deviation()
        opened = self._context.format.open(self._context.path, self._context.specification)
        try:
            for state, repeat, box, digest in self._read:
                found = opened.read(box)
                if _digest(found) != digest:
                    raise VerificationError(
                        f"{self._context.path}: selection {repeat} of state {state} gives other values when "
                        f"read again: origin {box.origin}, extent {box.extent}"
                    )
                deviation.add(found, self._truth(box))
        finally:
            opened.close()
        return error_columns(self._context, deviation)


def _on_one_open_file(
    context: Context, session: _Session, cache: NodeCache, state: str, boxes: Iterable[Box]
) -> None:
    """Time all selections in order on one open file,
    as "session" (first evicted) or "warm" (first filled).
    """
    share = cache.filled() if state == "warm" else cache.evicted()
    opened, open_s = _timed_open(context)
    if state == "warm":
        try:
            # Many FUSE file systems drop the cached pages whenever a file is opened.
            share = cache.filled()
        except NotInState:
            opened.close()
            raise
    for repeat, box in enumerate(boxes):
        row = session.timed_selection(opened, box, state, repeat)
        row["resident_before"] = share
        share = row["resident_after"] = cache.resident()
        if repeat == 0:
            row["open_s"] = open_s
    row["close_s"] = _timed_close(opened)


def _each_on_a_cold_file(
    context: Context, session: _Session, cache: NodeCache, state: str, boxes: Iterable[Box]
) -> None:
    """Evict, open, read one selection and close, as a web service does for a request."""
    name = "library-cold" if context.memory_resident else state
    for repeat, box in enumerate(boxes):
        share = cache.evicted()
        opened, open_s = _timed_open(context)
        row = session.timed_selection(opened, box, name, repeat)
        row.update(open_s=open_s, close_s=_timed_close(opened), resident_before=share)
        row["resident_after"] = cache.resident()


# In this order the newly written file, still in the page cache, need not be read again to be warm.
STATES = {"warm": _on_one_open_file, "session": _on_one_open_file, "cold": _each_on_a_cold_file}


def _selected(case: CaseSpecification, box: Box) -> Box:
    """Return the box itself, or the level or pattern that a case selects in it."""
    if level := case.get("level"):
        return coarse(box, [1 << level] * len(box.origin))
    if not (pattern := case.get("pattern")):
        return box
    return Pattern(
        box.origin, box.extent, tuple(pattern["step"]), tuple(pattern["block"]), pattern["checkerboard"]
    )


def _until_enough(context: Context, session: _Session, state: str, boxes: Iterator[Box]) -> Iterator[Box]:
    """Yield as many `boxes` as the state has repeats; more where these were short and the cell may go on, and
    cold on a throttled site until their mean says enough.

    What one selection takes and moves decides how many that are, so each is drawn when the last one has been
    read.
    """
    spec = context.specification
    planned = spec["repeats"][state]
    most = spec.get("most_repeats", {}).get(state, planned)
    context.limiter.begin()
    yield from itertools.islice(boxes, planned)
    if most > planned and session.short(planned):
        yield from itertools.islice(boxes, most - planned)
        planned = most
    for repeat, box in enumerate(boxes, planned):
        if state != "cold" or context.limiter.enough("read", session.device_bytes(state), repeat):
            return
        yield box


def _with_predictions(context: Context, rows: list[Row]) -> Iterator[Row]:
    """Yield the rows with what the kernel counted and what arithmetic says of each selection."""
    spec = context.specification
    stored = context.format.stored_sizes(context.path, spec)
    for row in rows:
        _counted(row)
        box = _selected(spec["case"], Box(tuple(row["origin"]), tuple(spec["case"]["extent"])))
        predicted = context.format.predict(box, spec, stored)
        row["chunks_touched"] = predicted["chunks_touched"]
        row["chunk_bytes"] = predicted["chunk_bytes"]
        if row["state"] in ("cold", "library-cold"):
            # On a file that stays open, the library's own caches decide what is asked for.
            row["requested_predicted_bytes"] = predicted["requested"]
            if "requested_reads" in predicted:
                row["requested_predicted_reads"] = predicted["requested_reads"]
        yield row


def run(context: Context) -> Outcome:
    """Measure every state of a read case; raises VerificationError where data read differ from data
    written.
    """
    spec = context.specification
    session, skipped = _Session(context), {}
    cache = NodeCache(context.artifact, context.memory_resident)
    try:
        for state, measure in STATES.items():
            if state not in spec["case"]["states"]:
                continue
            boxes = (_selected(spec["case"], box) for box in asked_boxes(spec, state))
            try:
                measure(context, session, cache, state, _until_enough(context, session, state, boxes))
            except NotInState as reason:
                # Part of a state is not a sample of it.
                session.rows = [row for row in session.rows if row["state"] != state]
                skipped[state] = str(reason)
        error = session.verify()
        report = {**context.format.report(context.path, spec), **error}
        return Outcome(list(_with_predictions(context, session.rows)), report, skipped)
    finally:
        cache.close()
