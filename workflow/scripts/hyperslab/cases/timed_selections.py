"""A session of timed selections: stopwatch and counters around each, digests of what was read, the truth."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter_ns
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from hyperslab.cases.context import Context, VerificationError, error_columns
from hyperslab.cases.wire import Wire
from hyperslab.data.levels import truth
from hyperslab.data.selections import Box
from hyperslab.data.values import Values
from hyperslab.formats import OpenArray, View
from hyperslab.formats.row_seam import OpenRows
from hyperslab.measuring.counters import Counters, between, of_servers
from hyperslab.measuring.deviation import Deviation
from hyperslab.records import Row
from hyperslab.specifications import SHORT_SECONDS


def digest(block: npt.NDArray[Any]) -> bytes:
    """Return a digest of type, extent and every byte of an array.

    XXH3, as fast as memory: what a slower one does to the processor's caches made the next warm read up to
    10 % slower.
    """
    hashed = xxhash.xxh3_128(f"{block.dtype.str}{block.shape}".encode())
    hashed.update(np.ascontiguousarray(block).data)
    return hashed.digest()


def same(found: npt.NDArray[Any], truth: npt.NDArray[Any]) -> bool:
    """Return whether two arrays have one type, one extent and the same bytes: NaN is NaN, -0.0 is not 0.0."""
    return digest(found) == digest(truth)


def counted(row: Row) -> Row:
    """Return the row with what the kernel counted in place of its two readings: parsed once,
    after the stopwatch.
    """
    if "counters" in row:
        read = row.pop("counters")
        row |= {**between(*read), **of_servers(*read)}
    return row


def timed_open(context: Context) -> tuple[OpenArray, float]:
    """Open the test file for reading; returns the array and the seconds that it took."""
    started = perf_counter_ns()
    opened = context.format.open(context.path, context.specification)
    stopped = perf_counter_ns()
    return opened, (stopped - started) / 1e9


def timed_close(opened: OpenArray | OpenRows) -> float:
    """Close what is open; returns the seconds that it took."""
    started = perf_counter_ns()
    opened.close()
    stopped = perf_counter_ns()
    return (stopped - started) / 1e9


class Session:
    """Selections in one process: counters around the stopwatch, digests of what was read."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._counters = Counters(context.artifact.processes())
        self._read: list[tuple[str, int, Box, bytes]] = []
        self.rows: list[Row] = []

    def timed_selection(
        self, opened: OpenArray | View, box: Box, state: str, repeat: int, opening: Row | None = None
    ) -> Row:
        """Read a box and keep a digest of it; returns the row of the repeat, its counters not parsed.

        `opening` are the columns of opening the array, where that was done for this selection.
        """
        self._counters.follow(self._context.artifact.processes())
        read = opened.reader(box)
        wire = Wire(self._context.artifact)
        before = self._counters.read()
        started = perf_counter_ns()
        result = read()
        stopped = perf_counter_ns()
        after = self._counters.read()
        self._read.append((state, repeat, box, digest(result)))
        row: Row = {
            "state": state,
            "repeat": repeat,
            "time_s": (stopped - started) / 1e9,
            "origin": list(box.origin),
            "asked_bytes": result.nbytes,
            "counters": (before, after),
            **(opening or {}),
        }
        if memory := self._context.artifact.memory_bytes():
            row["server_memory_bytes"] = memory
        row |= wire.selection(row)
        self.rows.append(row)
        return row

    def device_bytes(self, state: str) -> int:
        """Return the bytes that all selections of a state so far have had from the device."""
        return sum(counted(row)["device_bytes"] for row in self.rows if row["state"] == state)

    def waited(self, repeats: int) -> list[float]:
        """Return the seconds of the last selections, each on a file opened for it, with opening."""
        return [float(row["open_s"] + row["time_s"]) for row in self.rows[-repeats:]]

    def verify(self) -> dict[str, float]:
        """Compare everything that was read with the truth; raises VerificationError naming the selection.

        Returns the error of a lossy layout in columns; of any other every byte has to be right.
        """
        if self._context.layout.lossy():
            return self._error()
        # Neither numpy nor the digest holds the interpreter's lock for long. Equal boxes have one truth.
        boxes = list(dict.fromkeys(box for _, _, box, _ in self._read))
        with ThreadPoolExecutor(2) as pool:
            expected = dict(zip(boxes, pool.map(lambda box: digest(self._truth(box)), boxes), strict=True))
            for state, repeat, box, found in self._read:
                if found != expected[box]:
                    raise VerificationError(
                        f"{self._context.path}: selection {repeat} of state {state} differs from what was "
                        f"written: origin {box.origin}, extent {box.extent}"
                    )
        return {}

    def _truth(self, box: Box, values: Values | None = None) -> npt.NDArray[Any]:
        """Return what a selection has to give: of the study's values, or of those that filters left."""
        found = truth(values or self._context.values, box, self._context.layout.averaged_levels)
        memory = self._context.specification["case"].get("memory_dtype")
        return found.astype(memory or found.dtype, copy=False)

    def _error(self) -> dict[str, float]:
        """Return the error of all selections: each is read once more, gives what it gave, and is compared.

        Where no bound is promised, each has to be what the layout's filters make of the truth, if anybody
        knows that.
        """
        deviation, kept = Deviation(stored=self._context.values.dtype), self._context.kept_values()
        opened = self._context.format.open(self._context.path, self._context.specification)
        try:
            for state, repeat, box, before in self._read:
                found = opened.read(box)
                if digest(found) != before:
                    raise VerificationError(
                        f"{self._context.path}: selection {repeat} of state {state} gives other values when "
                        f"read again: origin {box.origin}, extent {box.extent}"
                    )
                deviation.add(found, self._truth(box))
                if kept is not None and not same(found, self._truth(box, kept)):
                    raise VerificationError(
                        f"{self._context.path}: selection {repeat} of state {state} is not what "
                        f"{self._context.layout.filters_text()} makes of what was written: origin "
                        f"{box.origin}, extent {box.extent}"
                    )
        finally:
            opened.close()
        return error_columns(self._context, deviation)


def _short(seconds: Sequence[float]) -> bool:
    """Return whether repeats took little time."""
    return statistics.median(seconds) < SHORT_SECONDS


def until_enough(
    context: Context,
    session: Session,
    state: str,
    boxes: Iterator[Box],
    waited: Callable[[int], Sequence[float]] | None = None,
) -> Iterator[Box]:
    """Yield as many `boxes` as the state has repeats; more where these were short and the cell may go on, and
    cold on a throttled site until their mean says enough.

    What one selection takes and moves decides how many that are, so each is drawn when the last one has been
    read. `waited` returns the seconds of so many last repeats, where one is no single selection.
    """
    spec = context.specification
    planned = spec["repeats"][state]
    most = spec.get("most_repeats", {}).get(state, planned)
    context.limiter.begin()
    yield from itertools.islice(boxes, planned)
    if most > planned and _short((waited or session.waited)(planned)):
        yield from itertools.islice(boxes, most - planned)
        planned = most
    for repeat, box in enumerate(boxes, planned):
        if state != "cold" or context.limiter.enough("read", session.device_bytes(state), repeat):
            return
        yield box
