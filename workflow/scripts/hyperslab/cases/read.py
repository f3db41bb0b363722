"""Timed selections: cold, warm and session. Stopwatches: `timed_selection`, `_timed_open`, `_timed_close`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter_ns
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab import pagecache
from hyperslab.cases import Context, Outcome, VerificationError
from hyperslab.counters import Counters, between
from hyperslab.formats import OpenArray
from hyperslab.selections import Box, generator, random_boxes

# Above this share of resident pages a read is not cold, below that one it is not warm (measurement.md).
COLD_AT_MOST = 0.01
WARM_AT_LEAST = 0.99

Row = dict[str, Any]


class NotInState(Exception):
    """The page cache could not be brought into the state that was asked for."""


def _digest(block: npt.NDArray[Any]) -> bytes:
    """A digest of type, extent and every byte of an array."""
    header = f"{block.dtype.str}{block.shape}".encode()
    return hashlib.sha256(header + hashlib.sha256(np.ascontiguousarray(block).data).digest()).digest()


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
        self._counters = Counters()
        self._read: list[tuple[str, int, Box, bytes]] = []
        self.rows: list[Row] = []

    def timed_selection(self, opened: OpenArray, box: Box, state: str, repeat: int) -> Row:
        before = self._counters.read()
        started = perf_counter_ns()
        result = opened.read(box)
        stopped = perf_counter_ns()
        after = self._counters.read()
        self._read.append((state, repeat, box, _digest(result)))
        row: Row = {
            "state": state,
            "repeat": repeat,
            "time_s": (stopped - started) / 1e9,
            "origin": list(box.origin),
            "asked_bytes": result.nbytes,
            **between(before, after),
        }
        self.rows.append(row)
        return row

    def verify(self) -> None:
        """Compare everything that was read with the truth; raises VerificationError naming the selection."""

        def truth(box: Box) -> bytes:
            return _digest(self._context.values.block(box.origin, box.extent))

        # Neither numpy nor the digest holds the interpreter's lock for long.
        with ThreadPoolExecutor(2) as pool:
            expected = pool.map(truth, [box for _, _, box, _ in self._read])
            for (state, repeat, box, found), right in zip(self._read, expected, strict=True):
                if found != right:
                    raise VerificationError(
                        f"{self._context.path}: selection {repeat} of state {state} differs from what was "
                        f"written: origin {box.origin}, extent {box.extent}"
                    )


def _evicted(context: Context, descriptor: int) -> float:
    """Empty the page cache of the file and return the resident share; raises NotInState where that fails."""
    if context.memory_resident:
        return pagecache.resident_share(descriptor)
    share = pagecache.evict(descriptor, COLD_AT_MOST)
    if share > COLD_AT_MOST:
        raise NotInState(f"{share:.1%} of the file stayed in the page cache")
    return share


def _filled(descriptor: int) -> float:
    """Bring the whole file into the page cache; raises NotInState where it does not fit."""
    share = pagecache.resident_share(descriptor)
    if share < WARM_AT_LEAST:
        pagecache.read_whole(descriptor)
        share = pagecache.resident_share(descriptor)
    if share < WARM_AT_LEAST:
        raise NotInState(f"only {share:.1%} of the file fits in the page cache")
    return share


def _on_one_open_file(
    context: Context, session: _Session, descriptor: int, state: str, boxes: list[Box]
) -> None:
    """All selections in order on one open file, as "session" (first evicted) or "warm" (first filled)."""
    share = _filled(descriptor) if state == "warm" else _evicted(context, descriptor)
    opened, open_s = _timed_open(context)
    for repeat, box in enumerate(boxes):
        row = session.timed_selection(opened, box, state, repeat)
        row["resident_before"] = share
        share = row["resident_after"] = pagecache.resident_share(descriptor)
        if repeat == 0:
            row["open_s"] = open_s
    row["close_s"] = _timed_close(opened)


def _each_on_a_cold_file(
    context: Context, session: _Session, descriptor: int, state: str, boxes: list[Box]
) -> None:
    """Evict, open, one selection, close: a web service's request."""
    name = "library-cold" if context.memory_resident else state
    for repeat, box in enumerate(boxes):
        share = _evicted(context, descriptor)
        opened, open_s = _timed_open(context)
        row = session.timed_selection(opened, box, name, repeat)
        row.update(open_s=open_s, close_s=_timed_close(opened), resident_before=share)
        row["resident_after"] = pagecache.resident_share(descriptor)


# In this order the newly written file, still in the page cache, need not be read again to be warm.
STATES = {"warm": _on_one_open_file, "session": _on_one_open_file, "cold": _each_on_a_cold_file}


def _with_predictions(context: Context, rows: list[Row]) -> Iterator[Row]:
    """The rows with what arithmetic says of each selection."""
    spec = context.specification
    stored = context.format.stored_sizes(context.path, spec)
    for row in rows:
        box = Box(tuple(row["origin"]), tuple(spec["case"]["extent"]))
        predicted = context.format.predict(box, spec, stored)
        row["chunks_touched"] = predicted["chunks_touched"]
        row["chunk_bytes"] = predicted["chunk_bytes"]
        if row["state"] in ("cold", "library-cold"):
            # On a file that stays open, the library's own caches decide what is asked for.
            row["requested_predicted_bytes"] = predicted["requested"]
        yield row


def run(context: Context) -> Outcome:
    """Every state of a read case; raises VerificationError where data read differ from data written."""
    spec = context.specification
    extent, shape = spec["case"]["extent"], spec["dataset"]["shape"]
    session, skipped = _Session(context), {}
    descriptor = os.open(context.path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        for state, measure in STATES.items():
            if state not in spec["case"]["states"]:
                continue
            rng = generator(spec["seed"], spec["case"]["name"], spec["round"], state)
            boxes = random_boxes(shape, extent, spec["repeats"][state], rng)
            try:
                measure(context, session, descriptor, state, boxes)
            except NotInState as reason:
                # Part of a state is not a sample of it.
                session.rows = [row for row in session.rows if row["state"] != state]
                skipped[state] = str(reason)
        session.verify()
        report = context.format.report(context.path, spec)
        return Outcome(list(_with_predictions(context, session.rows)), report, skipped)
    finally:
        os.close(descriptor)
