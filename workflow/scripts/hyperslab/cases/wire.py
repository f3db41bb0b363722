"""Columns of what passes on the wire to an object store; none where data lie in files."""

from __future__ import annotations

from hyperslab.cases.context import Context
from hyperslab.measuring.artifact import Artifact
from hyperslab.measuring.counters import OF_READS, Passed, on_wire
from hyperslab.records import Row


class Wire:
    """What passes from now on, counted at the gateway."""

    def __init__(self, artifact: Artifact) -> None:
        self._artifact = artifact
        self._before = artifact.wire()

    def _passed(self) -> Passed | None:
        return on_wire(self._before, self._artifact.wire())

    def opening(self) -> Row:
        """Return the columns of an opening, where that is all that has passed."""
        if (passed := self._passed()) is None:
            return {}
        return {
            "open_requests": passed.requests,
            "open_wire_bytes": passed.sent,
            "wire_failures": passed.failures,
        }

    def selection(self, opening: Row) -> Row:
        """Return the columns of a selection, with what failed when it was opened."""
        if (passed := self._passed()) is None:
            return {}
        failures = opening.get("wire_failures", 0) + passed.failures
        return {"wire_requests": passed.requests, "wire_bytes": passed.sent, "wire_failures": failures}


def kernel_apart(context: Context, row: Row) -> Row:
    """Return a row without what the kernel counts, where data lie in no files: sockets are none."""
    return row if context.layout.abilities.pages else row | dict.fromkeys(OF_READS)
