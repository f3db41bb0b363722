"""What a rewrite is doing, and how far it is: lines for a person, some seconds apart."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import TextIO

from hyperslab.text import megabytes

SECONDS_APART = 5.0
# A dataset that HDF5 copies in one call is named before where that may take a while.
LARGE_BYTES = 64 * 2**20


class Progress:
    """Prints to stderr and, if given, into a log; a reader that has gone away stops nothing."""

    def __init__(self, log: TextIO | None = None) -> None:
        self._log = log
        self._what, self._total, self._done = "", 0, 0
        self._began = self._said = time.monotonic()

    def say(self, text: str) -> None:
        """Print one line."""
        for stream in filter(None, (sys.stderr, self._log)):
            with suppress(BrokenPipeError):
                print(f"hyperslab.rewrite: {text}", file=stream, flush=True)

    def start(self, what: str, total: int) -> None:
        """Begin something of `total` bytes."""
        self._what, self._total, self._done = what, total, 0
        self._began = self._said = time.monotonic()
        self.say(f"{what}, {megabytes(total)}")

    def advance(self, size: int) -> None:
        """Note that `size` bytes more are done."""
        self._done += size
        now = time.monotonic()
        if now - self._said >= SECONDS_APART:
            self._said = now
            share = self._done / max(self._total, 1)
            rate = self._done / max(now - self._began, 1e-9)
            self.say(f"{self._what}: {share:.0%} ({megabytes(self._done)}, {megabytes(rate)}/s)")

    def done(self) -> None:
        """Note that what was begun is finished."""
        took = time.monotonic() - self._began
        self.say(f"{self._what}: done in {took:.1f} s")

    def note_large(self, name: str, size: int) -> None:
        """Say that a dataset is copied as it is, where it is large."""
        if size >= LARGE_BYTES:
            self.say(f"copying {name} as it is, {megabytes(size)}")
