"""Worker processes of one cell: started and ready before the stopwatch, ended when their parent ends.

A repeat goes: the parent sends what to do, each worker prepares and says that it is ready, the parent starts
the stopwatch and lets all go, each says when it is done, and sends what it counted after the stopwatch. "Go"
is one byte on the pipe, so that the wait costs one read call, which is taken off the counts.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from hyperslab.measuring.machine import largest_memory_bytes
from hyperslab.measuring.parent import follow_parent
from hyperslab.measuring.process import one_line

READY, GO, DONE, FAILED = b"r", b"g", b"d", b"f"
# What a worker reads from its pipe while it waits for GO: one byte by one call.
GATE = {"requested_bytes": 1, "requested_reads": 1}
# How long a worker that was told to end may take before it is killed.
PATIENCE_S = 10.0

# What a worker reports: mostly counts.
Counts = dict[str, Any]


class NoResult(str):
    """Why a worker has nothing to report of a task that it did."""


class Job(Protocol):
    """What a worker does; made in the worker."""

    def command(self, name: str) -> float:
        """Do something outside of repeats, such as opening a file; returns its seconds."""

    def prepare(self, task: Any) -> Callable[[], None]:
        """Return what `go` is to run for a task."""

    def result(self) -> Any:
        """Return what is reported of the last task, after the stopwatch: Counts, or what a case asks for."""


def _serve(make: Callable[..., Job], arguments: Sequence[Any], connection: Connection, parent: int) -> None:
    """Live the life of a worker."""
    follow_parent(parent)
    pipe = connection.fileno()
    try:
        job = make(*arguments)
        while (message := connection.recv()) is not None:
            kind, content = message
            if kind == "command":
                seconds = job.command(content)
                os.write(pipe, DONE)
                connection.send(seconds)
                continue
            go = job.prepare(content)
            os.write(pipe, READY)
            if os.read(pipe, 1) != GO:
                return
            go()
            os.write(pipe, DONE)
            try:
                result = job.result()
            except Exception as error:  # noqa: BLE001
                # No tag is awaited any more.
                result = NoResult(one_line(error))
            connection.send(result)
        connection.send(largest_memory_bytes())
    except EOFError:
        return
    except Exception as error:  # noqa: BLE001
        os.write(pipe, FAILED)
        connection.send(one_line(error))


class Workers:
    """Worker processes, one for each of `arguments`, of which it makes its job; given orders together.

    Every method raises ChildProcessError, which names the worker, where one failed or ended.
    """

    def __init__(self, make: Callable[..., Job], arguments: Sequence[Sequence[Any]]) -> None:
        # A new interpreter each: what a fork would share (the library's caches, its locks) none has.
        context = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        self._processes = []
        for own in arguments:
            mine, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(make, own, theirs, os.getpid()), daemon=True)
            process.start()
            # Held here too, the pipe would not end with the worker.
            theirs.close()
            self._pipes.append(mine)
            self._processes.append(process)

    def command(self, name: str) -> float:
        """Have every worker do `name`; seconds of the slowest."""
        for pipe in self._pipes:
            self._send(pipe, ("command", name))
        self._await(DONE)
        return max(float(self._receive(pipe)) for pipe in self._pipes)

    def prepare(self, task: Any) -> None:
        """Give every worker its task and wait until all are ready."""
        for pipe in self._pipes:
            self._send(pipe, ("task", task))
        self._await(READY)

    def go(self) -> None:
        """Let all go, and wait until all are done: what a stopwatch encloses."""
        self.release()
        self.finish()

    def release(self) -> None:
        """Let all go, while this process does something else."""
        for pipe in self._pipes:
            try:
                os.write(pipe.fileno(), GO)
            except OSError:
                self._tag(pipe)
                raise self._ended(pipe) from None

    def finish(self) -> None:
        """Wait until all that were let go are done."""
        self._await(DONE)

    def results(self) -> list[Any]:
        """Return what each worker reports of the last task."""
        found = [self._receive(pipe) for pipe in self._pipes]
        for number, result in enumerate(found):
            if isinstance(result, NoResult):
                raise ChildProcessError(f"worker {number} of {len(found)}: {result}")
        return found

    def end(self) -> int:
        """End all; returns the largest memory of each, summed, in bytes."""
        for pipe in self._pipes:
            self._send(pipe, None)
        memory = sum(int(self._receive(pipe)) for pipe in self._pipes)
        for process in self._processes:
            process.join(PATIENCE_S)
        return memory

    def kill(self) -> None:
        """End all at once, whatever they do; harmless after `end`."""
        for process in self._processes:
            process.kill()
            process.join()
        for pipe in self._pipes:
            pipe.close()

    def _send(self, pipe: Connection, message: Any) -> None:
        try:
            pipe.send(message)
        except OSError:
            # What it said before it ended is still to be read.
            self._tag(pipe)
            raise self._ended(pipe) from None

    def _receive(self, pipe: Connection) -> Any:
        try:
            return pipe.recv()
        except (EOFError, OSError):
            raise self._ended(pipe) from None

    def _await(self, tag: bytes) -> None:
        waiting: list[Any] = list(self._pipes)
        while waiting:
            for pipe in wait(waiting):
                assert isinstance(pipe, Connection)
                if self._tag(pipe) != tag:
                    raise self._ended(pipe)
                waiting.remove(pipe)

    def _tag(self, pipe: Connection) -> bytes:
        """Return the next tag; raises ChildProcessError with the worker's own words where it is a failure."""
        try:
            tag = os.read(pipe.fileno(), 1)
        except OSError:
            tag = b""
        if tag == FAILED:
            words = self._receive(pipe)
            raise ChildProcessError(f"worker {self._pipes.index(pipe)} of {len(self._pipes)}: {words}")
        return tag

    def _ended(self, pipe: Connection) -> ChildProcessError:
        number = self._pipes.index(pipe)
        process = self._processes[number]
        process.join(PATIENCE_S)
        status = process.exitcode or 0
        how = f"was ended by signal {-status}" if status < 0 else "ended"
        return ChildProcessError(f"worker {number} of {len(self._pipes)} {how} before its work was done")
