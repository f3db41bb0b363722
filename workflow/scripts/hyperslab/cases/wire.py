"""Columns of what passes on the wire to an object store; none where data lie in files."""

from __future__ import annotations

from hyperslab.cases.context import Context
from hyperslab.measuring.artifact import Artifact
from hyperslab.measuring.counters import OF_READS, Passed, on_wire
from hyperslab.records import Row


class Wire:
    """What passes from now on, counted at the gateway and by the client of this process."""

    def __init__(self, artifact: Artifact) -> None:
        self._artifact = artifact
        self._before, self._had = artifact.wire(), artifact.received()

    def _passed(self) -> Passed | None:
        return on_wire(self._before, self._artifact.wire())

    def _received(self, name: str) -> Row:
        """Return the bytes that this process has had from a server, as a column; none of files."""
        return {} if self._had is None else {name: (self._artifact.received() or 0) - self._had}

    def opening(self) -> Row:
        """Return the columns of an opening, where that is all that has passed."""
        received, passed = self._received("open_client_bytes"), self._passed()
        return received | (passed.columns(opening=True) if passed else {})

    def selection(self, opening: Row) -> Row:
        """Return the columns of a selection, with what failed or was refused when it was opened."""
        received, passed = self._received("client_bytes"), self._passed()
        if not passed:
            return received
        columns = passed.columns()
        summed = {name: columns[name] + opening.get(name, 0) for name in ("wire_failures", "wire_refused")}
        return received | columns | summed


def kernel_apart(context: Context, row: Row) -> Row:
    """Return a row without what the kernel counts, where data lie in no files: sockets are none."""
    return row if context.layout.abilities.pages else row | dict.fromkeys(OF_READS)
