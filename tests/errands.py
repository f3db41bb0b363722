"""What worker processes of tests do. Each of them imports this module, which is to take little time."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from hyperslab.measuring.workers import Counts, Workers


class Errand:
    """A job that says who and when, and fails or dies when told to."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._ran_at = 0.0
        self._unreported = False

    def command(self, name: str) -> float:
        if name == f"fail {self._index}":
            raise OSError(f"told to\n{name}")
        return float(self._index)

    def prepare(self, task: str) -> Callable[[], None]:
        self._unreported = task == f"no result {self._index}"
        if task == f"not ready {self._index}":
            raise ValueError("cannot be prepared")

        def go() -> None:
            self._ran_at = time.clock_gettime(time.CLOCK_MONOTONIC)
            if task == f"die {self._index}":
                os.kill(os.getpid(), signal.SIGKILL)
            if task == f"fail {self._index}":
                raise ArithmeticError("in the middle")
            if task == "never end":
                os.write(1, b"busy\n")
                while True:
                    pass

        return go

    def result(self) -> Counts:
        if self._unreported:
            raise OSError("nothing to report")
        return {"ran_at": self._ran_at, "pid": os.getpid()}


def errands(count: int) -> Workers:
    return Workers(Errand, [(index,) for index in range(count)])
