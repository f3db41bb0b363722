"""The requests of a cell's clients: who asks for what, and what a client notes of each answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import perf_counter_ns, sleep
from typing import Any

from hyperslab.cases.opened import Reader
from hyperslab.cases.timed_selections import digest
from hyperslab.data.selections import Box, generator, random_boxes
from hyperslab.measuring.machine import largest_memory_bytes
from hyperslab.measuring.servers import Busy
from hyperslab.measuring.workers import GATE, Counts
from hyperslab.specifications import Specification

# A request that fails is made again on a new connection, so often and after such a pause.
TRIES, PAUSE_S = 3, 0.2


def asked(spec: Specification, state: str, repeat: int) -> list[Box]:
    """Return the requests of a repeat in the order in which they are dealt to the clients.

    Of each kind there are equally many; each is spread over the array, and kinds are shuffled. Layouts, and
    the cases of a family, which differ in their number of clients, have the same requests.
    """
    case = spec["case"]
    rng = generator(spec["study"], spec["seed"], case["family"], spec["round"], state, repeat)
    kinds = case["clients"]
    each = math.ceil(case["requests"] / len(kinds))
    boxes = [
        box for extent in kinds.values() for box in random_boxes(spec["dataset"]["shape"], extent, each, rng)
    ]
    return [boxes[index] for index in rng.permutation(len(boxes))[: case["requests"]]]


def dealt(requests: Sequence[Box], client: int, clients: int) -> list[int]:
    """Return the numbers of the requests of a client: every so many in turn."""
    return list(range(client, len(requests), clients))


class Client(Reader):
    """One client: opens the array, asks one request after the other, and digests each answer."""

    def __init__(self, spec: Specification, path: str, index: int, introduction: Callable[[], None]) -> None:
        introduction()
        self._spec, self._index = spec, index
        super().__init__(spec, path)
        self._errors = 0
        self._last: dict[str, Any] = {}

    def prepare(self, task: Sequence[Box]) -> Callable[[], None]:
        """Return what asks for this client's share of the requests of all clients."""
        numbers = dealt(task, self._index, self._spec["case"]["workers"])
        self.begin()
        return lambda: self._ask([(number, task[number]) for number in numbers])

    def _ask(self, requests: Sequence[tuple[int, Box]]) -> None:
        began, self._errors = perf_counter_ns(), 0
        latencies, digests, refused = [], [], []
        for number, box in requests:
            started = perf_counter_ns()
            try:
                block = self._answer(box)
            except Busy:
                refused.append(number)
                # A client that is turned away each time measures nothing.
                if len(refused) == len(requests):
                    raise
                continue
            latencies.append((number, (perf_counter_ns() - started) / 1e9))
            digests.append((number, digest(block)))
            # To free what was read is not part of asking for the next.
            del block
        self._last = {
            "latencies": latencies,
            "digests": digests,
            "refused": refused,
            "seconds": (perf_counter_ns() - began) / 1e9,
        }

    def _answer(self, box: Box) -> Any:
        """Return what a request gives; raises OSError where the last try of it fails."""
        for left in reversed(range(TRIES)):
            try:
                if self.opened is None:
                    self.opened = self._open()
                return self.opened.read(box)
            except OSError:
                self._errors += 1
                if not left:
                    raise
                # What a broken connection says when it is closed is of no interest.
                opened, self.opened = self.opened, None
                with suppress(Exception):
                    opened.close()
                sleep(PAUSE_S)
        raise AssertionError

    def result(self) -> Counts:
        """Return latencies and digests by number of the request, which were refused, errors, and counts."""
        return {
            **self._last,
            **self.counted(GATE),
            "errors": self._errors,
            "memory_bytes": largest_memory_bytes(),
        }
