"""Data that several processes have open at once: what each of them does with it, and what all are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter_ns
from typing import Any, Protocol

from hyperslab import formats
from hyperslab.cases.context import Context
from hyperslab.cases.wire import Answers, Wire
from hyperslab.measuring.counters import OF_READS, Counters, between
from hyperslab.measuring.pagecache import NotInState
from hyperslab.measuring.workers import Counts
from hyperslab.records import Row
from hyperslab.specifications import Specification


class Reader:
    """One process's side: opens and closes the data by the clock, and counts what a task asks for.

    `open_array` opens the data where the format's own `open` is not what does.
    """

    def __init__(self, spec: Specification, path: str, open_array: Callable[[], Any] | None = None) -> None:
        format_ = formats.format_of(spec["layout"])
        format_.prepare(spec)
        self._open = open_array or (lambda: format_.open(path, spec))
        # None while the data are closed.
        self.opened: Any = None
        self._answers = Answers()
        self._counters = Counters()
        self._before = self._counters.read()

    def command(self, name: str) -> float:
        """Open or close the data; seconds. To close what is not open takes none."""
        if name == "open":
            self._answers.begin()
            started = perf_counter_ns()
            self.opened = self._open()
            stopped = perf_counter_ns()
            self._answers.opened()
            return (stopped - started) / 1e9
        started = perf_counter_ns()
        if self.opened is not None:
            # Where closing fails, it is not tried again.
            opened, self.opened = self.opened, None
            opened.close()
        return (perf_counter_ns() - started) / 1e9

    def begin(self) -> None:
        """Have what is counted from now on be that of a task."""
        self._answers.begin()
        self._before = self._counters.read()

    def counted(self, gate: Mapping[str, int]) -> Counts:
        """Return what was counted since `begin`, without what the wait at the `gate` asked for."""
        counted = between(self._before, self._counters.read())
        own = {name: max(0, counted[name] - gate.get(name, 0)) for name in OF_READS}
        return {**own, **self._answers.columns()}


class Readers(Protocol):
    """All of them, given orders at the same time."""

    def command(self, name: str) -> float:
        """Open or close the data everywhere; seconds of the slowest."""

    def prepare(self, task: Any) -> None:
        """Give every one its task, and wait until all are ready."""

    def go(self) -> None:
        """Release all, and wait until all are done."""

    def results(self) -> list[Counts]:
        """Return what each counted."""


def opened_everywhere(context: Context, readers: Readers) -> Row:
    """Open the data in every process; returns the columns of that, seconds of the slowest."""
    wire = Wire(context.artifact, itself=False)
    return {"open_s": readers.command("open"), **wire.opening()}


def ask(readers: Readers, task: Any) -> None:
    """Have a task done without measuring it."""
    readers.prepare(task)
    readers.go()
    readers.results()


@contextmanager
def closed_out_of_state(readers: Readers) -> Iterator[None]:
    """Close the data everywhere where the block could not have its state, for which NotInState is raised."""
    try:
        yield
    except NotInState:
        readers.command("close")
        raise
