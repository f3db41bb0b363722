"""Output that goes on when its reader has gone away, as head does."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import Any


class Outliving:
    """A stream whose reader may go away: what is written then goes nowhere.

    Snakemake's threads that report a failed job would end at it, and the run would wait for them for ever.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write text, if anybody reads it."""
        with self._forgiving():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Hand over what was written, if anybody reads it."""
        with self._forgiving():
            self._stream.flush()

    @contextlib.contextmanager
    def _forgiving(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            # A pipe whose reader has gone, a terminal that was closed.
            if error.errno not in (errno.EPIPE, errno.EIO):
                raise
            # What is still buffered, and what other processes write, goes there, too.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
