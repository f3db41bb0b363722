"""Work that several processes share: copies of this one, made while no call of HDF5 is under way.

Each finds open what is open here, reads it, and hands back what it made. It ends without closing anything:
what it inherited is for this process alone to write.
"""

from __future__ import annotations

import fcntl
import io
import os
import pickle
import selectors
import signal
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

from hyperslab.measuring.parent import end_with_parent

# A result that is not larger lets its process go on at once; more is the administrator's to allow.
PIPE_BYTES = 2**20
# A number in the pipe from which processes take their work.
NUMBER_BYTES = 8

Result = TypeVar("Result")
Work = Callable[[int], Result]


def in_order(work: Work[Result], count: int, processes: int) -> Generator[Result, None, None]:
    """Yield work(0) to work(count - 1), made by several processes; by this one where `processes` is 1.

    Who has done its work takes the next, so that one more result than processes waits here at most. Raises
    ChildProcessError, in one line, where work failed in another process, or that ended before its work was
    done. When the iterator is closed the processes are gone.
    """
    processes = min(processes, count)
    if processes <= 1:
        yield from map(work, range(count))
        return
    shared = _Shared(work, processes)
    try:
        shared.offer(range(min(processes + 1, count)))
        for number in range(count):
            result = shared.result(number)
            shared.offer(range(number + processes + 1, min(number + processes + 2, count)))
            yield result
    finally:
        shared.end()


def beside(work: Callable[[], Result]) -> Callable[[], Result]:
    """Begin work in a process of its own; what is returned waits for the result, or raises as `in_order`."""
    shared = _Shared(lambda _: work(), 1)
    shared.offer(range(1))

    def wait() -> Result:
        try:
            result: Result = shared.result(0)
            return result
        finally:
            shared.end()

    return wait


class _Pipe(io.FileIO):
    """Reads as much as is asked for, and nothing ahead of it, so that `selectors` knows what is left."""

    def read(self, size: int | None = -1, /) -> bytes:
        data = bytearray(size or 0)
        return bytes(data[: self.readinto(data)])

    def readinto(self, buffer: Any, /) -> int:
        view, done = memoryview(buffer).cast("B"), 0
        while done < len(view) and (more := super().readinto(view[done:])):
            done += more
        return done


class _Shared:
    """Processes that take numbers of work from one pipe, and hand back results by one each."""

    def __init__(self, work: Work[Any], processes: int) -> None:
        self._numbers = os.pipe()
        self._children: dict[_Pipe, int] = {}
        # Unlike select() it takes descriptors of any number.
        self._waiting = selectors.PollSelector()
        # Number -> result, and why there is none.
        self._done: dict[int, tuple[Any, str | None]] = {}
        parent = os.getpid()
        for _ in range(processes):
            mine, theirs = os.pipe()
            child = os.fork()
            if child == 0:
                _serve(work, self._numbers[0], theirs, parent)
            os.close(theirs)
            self._children[pipe := _Pipe(mine)] = child
            self._waiting.register(pipe, selectors.EVENT_READ, pipe)

    def offer(self, numbers: range) -> None:
        """Let processes do the work of these numbers."""
        for number in numbers:
            os.write(self._numbers[1], number.to_bytes(NUMBER_BYTES))

    def result(self, number: int) -> Any:
        """Wait for the result of a number that was offered."""
        while number not in self._done:
            for ready, _ in self._waiting.select():
                self._receive(ready.data)
        result, failure = self._done.pop(number)
        if failure is not None:
            raise ChildProcessError(failure)
        return result

    def _receive(self, pipe: _Pipe) -> None:
        try:
            number, *done = pickle.load(pipe)
        except (EOFError, pickle.UnpicklingError):
            self._waiting.unregister(pipe)
            pipe.close()
            _, status = os.waitpid(self._children.pop(pipe), 0)
            how = f"was ended by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "ended"
            raise ChildProcessError(f"a process that shared the work {how} before it was done") from None
        self._done[number] = done[0], done[1]

    def end(self) -> None:
        """End all processes, whatever they do."""
        for pipe, child in self._children.items():
            pipe.close()
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        for descriptor in self._numbers:
            os.close(descriptor)


def _serve(work: Work[Any], numbers: int, pipe: int, parent: int) -> NoReturn:
    """Live the life of a process that does work until it is ended."""
    try:
        end_with_parent(parent)
        with suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        with os.fdopen(pipe, "wb") as results:
            while taken := os.read(numbers, NUMBER_BYTES):
                number = int.from_bytes(taken)
                pickle.dump((number, *_done(work, number)), results, pickle.HIGHEST_PROTOCOL)
                results.flush()
    finally:
        # Without a word to HDF5, which would write what it has of the files that both have open.
        os._exit(1)


def _done(work: Work[Any], number: int) -> tuple[Any, str | None]:
    """Return the result, or in one line why there is none."""
    try:
        return work(number), None
    except Exception as error:  # noqa: BLE001
        return None, " ".join(str(error).split()) or type(error).__name__
