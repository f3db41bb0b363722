"""Timed appends of ragged rows while others read them: rows a second, and how late a row is found."""

from __future__ import annotations

import itertools
import time
from array import array
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab import formats
from hyperslab.cases.context import Context, Outcome, VerificationError
from hyperslab.cases.durable import removed_afterwards, repeated_writes, span_columns, timed_end
from hyperslab.cases.rows.dealt import Dealt, digests, format_of, rows_of, slabs, timed_reference, verify
from hyperslab.data.models import open_content
from hyperslab.data.rows import RowBlock, Rows
from hyperslab.formats.row_seam import RowsAppender, RowsFollower
from hyperslab.measuring.counters import OF_WRITES, Counters, between
from hyperslab.measuring.workers import Workers
from hyperslab.records import Row
from hyperslab.specifications import Specification

# A reader that finds nothing new for so long gives up: the writer is dead, or cannot be followed.
PATIENCE_S = 60.0
# What was read is digested when all is there, or it is this much: rows that come meanwhile are found late.
HELD_BYTES = 64 * 2**20
Found = dict[str, Any]


class Reader:
    """What each reading process does: look, read what is new, and look again; digest it in the end."""

    def __init__(self, path: str, spec: Specification, donor: str | None) -> None:
        self._path, self._spec = path, spec
        format_: Any = formats.load(spec["layout"]["format"])
        format_.prepare(spec)
        self._following = format_.following
        rows = open_content(spec["dataset"], donor)
        assert isinstance(rows, Rows)
        self._rows = rows
        self._pause_s = spec["case"]["rows"]["poll_ms"] / 1000
        self._opened: RowsFollower | None = None

    def command(self, name: str) -> float:
        """Open the file that is there now; returns the seconds of it."""
        started = perf_counter_ns()
        self._opened = self._following.open(self._path, self._spec)
        return (perf_counter_ns() - started) / 1e9

    def prepare(self, task: Any) -> Callable[[], None]:
        """Return the reading of all rows, as they come."""
        self._seen = np.zeros(len(self._rows), np.int64)
        self._digests: list[bytes] = []
        self._looks = 0
        return self._follow

    def _follow(self) -> None:
        assert self._opened is not None
        late = perf_counter_ns() + PATIENCE_S * 1e9
        found = size = 0
        held: list[RowBlock] = []
        while found < len(self._rows):
            numbers = self._opened.look()
            self._looks += 1
            if not numbers:
                if perf_counter_ns() > late:
                    raise TimeoutError(f"no new row for {PATIENCE_S:g} s after {found:,} of them")
                time.sleep(self._pause_s)
                continue
            block = self._opened.read(numbers)
            # One clock for all processes of a machine.
            self._seen[numbers.start : numbers.stop] = perf_counter_ns()
            held.append(block)
            found, size = numbers.stop, size + block.values.nbytes
            if size > HELD_BYTES or found == len(self._rows):
                self._digests += itertools.chain.from_iterable(map(digests, held))
                held, size = [], 0
            late = perf_counter_ns() + PATIENCE_S * 1e9
        self._opened.close()

    def result(self) -> Found:
        """Return when each row was read, the number of looks, and the first row that is wrong."""
        wrong = None
        for first, stop in self._rows.blocks():
            truth = digests(self._rows.run(first, stop))
            pairs = enumerate(zip(self._digests[first:stop], truth, strict=True), first)
            wrong = next((number for number, (found, right) in pairs if found != right), None)
            if wrong is not None:
                break
        return {"seen": self._seen, "looks": self._looks, "wrong": wrong}


class Appends:
    """Timed appends of one cell, with its readers beside."""

    def __init__(self, context: Context) -> None:
        self._context, self._spec = context, context.specification
        asked = self._spec["case"]["rows"]
        self.rows = rows_of(context)
        self.dealt = Dealt(self.rows, asked["call"], 1)
        self._readers = asked["readers"]
        self._counters = Counters(context.artifact.processes())
        own = (context.path, self._spec, context.donor)
        self._workers = Workers(Reader, [own] * self._readers) if self._readers else None

    def timed(self) -> Row:
        """Create, append, flush, close and fsync a new file: a column each. Only this process is counted.

        Readers begin before the first append, and have found all rows before the file is flushed and closed.
        """
        following = format_of(self._context).following
        assert following is not None
        spans = [self._counters.read()]
        started = perf_counter_ns()
        opened = following.create(self._context.path, self._spec, self.rows.lengths)
        created = perf_counter_ns()
        spans.append(self._counters.read())
        if self._workers:
            self._workers.command("open")
            self._workers.prepare(None)
            self._workers.release()
        spans.append(self._counters.read())
        begun, calls = self._appended(opened)
        spans.append(self._counters.read())
        if self._workers:
            self._workers.finish()
        spans.append(self._counters.read())
        held, ended = opened.columns(), timed_end(opened, self._context.artifact)
        spans.append(self._counters.read())
        # Orders to the readers, between these, are no writes of the library.
        counted = [between(a, b) for a, b in zip(spans[::2], spans[1::2], strict=True)]
        return {
            **span_columns(created - started, calls.tolist(), ended),
            **{name: sum(one[name] for one in counted) for name in OF_WRITES},
            **held,
            "rows_a_second": len(self.rows) / (int(calls.sum()) / 1e9),
            "readers": self._readers,
            **self._followed(begun, calls),
        }

    def _appended(self, opened: RowsAppender) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Write all rows; returns when each call began, and how long it took, in nanoseconds."""
        begun, calls = array("q"), array("q")
        for slab in slabs(self.dealt):
            appends = [opened.appender(call.place, block) for call, block in slab]
            marks = array("q", [perf_counter_ns()])
            for append in appends:
                append()
                marks.append(perf_counter_ns())
            begun.extend(marks[:-1])
            calls.extend(np.diff(marks).tolist())
        return np.array(begun), np.array(calls)

    def _followed(self, begun: npt.NDArray[np.int64], calls: npt.NDArray[np.int64]) -> Row:
        """Return how late rows were read, from the begin of their append; raises VerificationError."""
        if not self._workers:
            return {}
        found: Sequence[Found] = self._workers.results()
        for one in found:
            if one["wrong"] is not None:
                raise VerificationError(
                    f"{self._context.path}: row {one['wrong']} differs from what was appended, as a reader "
                    "beside it found it"
                )
        of_rows = np.repeat(begun, [call.stop - call.first for call in self.dealt.calls()])
        seen = np.concatenate([one["seen"] for one in found])
        late = (seen - np.tile(of_rows, len(found))) / 1e9
        return {
            "latency_median_s": float(np.median(late)),
            "latency_p99_s": float(np.quantile(late, 0.99)),
            "latency_max_s": float(late.max()),
            "followed_share": float((seen <= begun[-1] + calls[-1]).mean()),
            "looks": sum(one["looks"] for one in found),
        }

    def end(self) -> int:
        """End the readers; returns their memory in bytes."""
        return self._workers.end() if self._workers else 0

    def kill(self) -> None:
        """End them at once."""
        if self._workers:
            self._workers.kill()


def run(context: Context) -> Outcome:
    """Return timed appends; what readers found meanwhile and the last file are compared with the truth."""
    appends = Appends(context)
    rows, dealt = appends.rows, appends.dealt
    with removed_afterwards(context.artifact):
        try:
            found = repeated_writes(
                context,
                {"asked_bytes": rows.nbytes, "rows": len(rows)},
                lambda: timed_reference(context, dealt),
                appends.timed,
            )
            memory = appends.end()
            verify(context, dealt)
            report = format_of(context).report(context.path, context.specification)
        finally:
            appends.kill()
    return Outcome(found, report, {}, workers_memory_bytes=memory)
