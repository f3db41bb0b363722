"""What a gateway itself costs: the same requests through it and straight to the store, in turn.

The cell asks both ways, as one client with one connection each. Straight to the store it needs no password:
the gateway hands it a signature that is good for one object and a few minutes.
"""

from __future__ import annotations

import http.client
import statistics
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import perf_counter_ns
from urllib.parse import urlsplit

# Bytes of the objects that are got, by the name of their columns.
SIZES = {"small": 2**10, "large": 2**20}
# Requests of each size and each way; the first of them is not counted.
PAIRS = 5
SECONDS = 10
CONNECTIONS = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}


def name(size: int) -> str:
    """Return the name, behind the cell's prefix, of the object of `size` bytes; it is there for a moment."""
    return f".control-{size}"


class Way:
    """One way to a store: a connection that stays open."""

    def __init__(self, address: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(address)
        self._path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        self._headers = dict(headers)
        self._connection = CONNECTIONS[parts.scheme](parts.netloc, timeout=SECONDS)

    def get(self, size: int) -> int:
        """Return the nanoseconds until an object of `size` bytes was there; raises OSError."""
        started = perf_counter_ns()
        self._connection.request("GET", self._path, headers=self._headers)
        answer = self._connection.getresponse()
        content = answer.read()
        spent = perf_counter_ns() - started
        if answer.status != http.client.OK or len(content) != size:
            raise OSError(f"status {answer.status}, {len(content)} bytes")
        return spent

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def in_turn(size: int, straight: Way, through: Way, pairs: int = PAIRS) -> tuple[float, float]:
    """Return the median seconds of an object of `size` bytes straight from the store and through the gateway.

    Raises OSError, or http.client.HTTPException, where one of them does not come.
    """
    spent: tuple[list[int], list[int]] = ([], [])
    for pair in range(pairs + 1):
        for number in (0, 1) if pair % 2 else (1, 0):
            nanoseconds = (straight, through)[number].get(size)
            if pair:
                spent[number].append(nanoseconds)
    return statistics.median(spent[0]) / 1e9, statistics.median(spent[1]) / 1e9


def columns(
    straight: Callable[[int], Way],
    through: Callable[[int], Way],
    delay: Callable[[int], float],
    pairs: int = PAIRS,
) -> dict[str, float]:
    """Return, for each of SIZES, the seconds of its requests straight to the store and what the gateway adds.

    `straight` and `through` return the ways to the object of a size, and `delay` the seconds by which the
    site holds back so many bytes, which are taken off. Nothing is returned of what cannot be asked.
    """
    found: dict[str, float] = {}
    for word, size in SIZES.items():
        ways = straight(size), through(size)
        with suppress(OSError, http.client.HTTPException):
            alone, passed = in_turn(size, *ways, pairs)
            found |= {f"straight_{word}_s": alone, f"gateway_{word}_s": passed - alone - delay(size)}
        for way in ways:
            way.close()
    return found
