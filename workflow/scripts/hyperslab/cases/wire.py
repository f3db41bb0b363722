"""Columns of what passes on the wire to an object store; none where data lie in files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hyperslab.cases.context import Context
from hyperslab.measuring import received
from hyperslab.measuring.artifact import Artifact
from hyperslab.measuring.counters import OF_READS, Passed, on_wire
from hyperslab.records import Row

# Columns of what a server's clients have had of it.
OF_CLIENTS = ("client_bytes", "open_client_bytes")
TURNED_AWAY = "turned_away"


class Answers:
    """What one of several processes has had of a server: when it last opened the data, and for its task."""

    def __init__(self) -> None:
        self._had, self._opening = received.so_far(), 0
        self._away = received.turned_away()

    def begin(self) -> None:
        """Have what comes from now on be that of a task, or of an opening."""
        self._had, self._away = received.so_far(), received.turned_away()

    def opened(self) -> None:
        """Note that what has come since `begin` was that of an opening."""
        self._opening = self._since()

    def columns(self) -> dict[str, int]:
        """Return what came since `begin`, and at the last opening; nothing where no server is asked."""
        if self._had is None:
            return {}
        away = received.turned_away() - self._away
        return {**dict(zip(OF_CLIENTS, (self._since(), self._opening), strict=True)), TURNED_AWAY: away}

    def _since(self) -> int:
        return 0 if self._had is None else (received.so_far() or 0) - self._had


def of_clients(results: Sequence[Mapping[str, Any]], opening: Row | None) -> Row:
    """Return what all workers have had of a server as columns; of an opening where there was one."""
    names = (*(OF_CLIENTS if opening else OF_CLIENTS[:1]), TURNED_AWAY)
    return {name: sum(one[name] for one in results) for name in names if all(name in one for one in results)}


class Wire:
    """What passes from now on, counted at the gateway and by the client of this process, if that is one."""

    def __init__(self, artifact: Artifact, itself: bool = True) -> None:
        self._artifact = artifact
        self._before, self._had = artifact.wire(), artifact.received() if itself else None
        self._away = received.turned_away()

    def _passed(self) -> Passed | None:
        return on_wire(self._before, self._artifact.wire())

    def _received(self, name: str) -> Row:
        """Return the bytes that this process has had from a server, as a column; none of files."""
        return {} if self._had is None else {name: (self._artifact.received() or 0) - self._had}

    def opening(self) -> Row:
        """Return the columns of an opening, where that is all that has passed."""
        had, passed = self._received("open_client_bytes"), self._passed()
        return had | (passed.columns(opening=True) if passed else {})

    def selection(self, opening: Row) -> Row:
        """Return the columns of a selection, with what failed or was refused when it was opened."""
        had, passed = self._received("client_bytes"), self._passed()
        if had:
            had[TURNED_AWAY] = received.turned_away() - self._away
        if not passed:
            return had
        columns = passed.columns()
        summed = {name: columns[name] + opening.get(name, 0) for name in ("wire_failures", "wire_refused")}
        return had | columns | summed


def kernel_apart(context: Context, row: Row) -> Row:
    """Return a row without what the kernel counts, where data lie in no files: sockets are none."""
    return row if context.layout.abilities.pages else row | dict.fromkeys(OF_READS)
