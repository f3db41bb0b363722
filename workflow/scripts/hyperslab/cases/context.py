"""What a case is given, and what it yields."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from hyperslab.data.values import Values
from hyperslab.formats import Format
from hyperslab.layouts import layout_of
from hyperslab.layouts.layout import Layout
from hyperslab.measuring.artifact import Artifact
from hyperslab.measuring.deviation import Deviation
from hyperslab.measuring.throttling import Limiter
from hyperslab.records import Row
from hyperslab.specifications import Specification
from hyperslab.states import LIBRARY_COLD


class VerificationError(Exception):
    """Data read differ from the truth; the cell fails and none of its numbers is kept."""


@dataclass(frozen=True)
class Context:
    """What a case needs: the cell's specification, the open format, the test file and what it must hold.

    `limiter` is what holds this process's I/O back (throttling.py); by default nothing does.
    """

    specification: Specification
    format: Format
    path: str
    values: Values
    memory_resident: bool
    # What starts MPI ranks, such as "mpirun -n 4", and the prepared donor, which they open themselves.
    launcher: str | None = None
    donor: str | None = None
    limiter: Limiter = field(default_factory=Limiter)

    @cached_property
    def artifact(self) -> Artifact:
        """What the cell's layout is stored in."""
        return self.format.artifact(self.path)

    @property
    def layout(self) -> Layout:
        """The cell's layout, with all that follows from it."""
        return layout_of(self.specification["layout"])

    def kept_values(self) -> Values | None:
        """Return what lossy filters without a bound leave of the values where each chunk is written whole.

        None where nobody knows, and of filters that promise a bound or lose nothing.
        """
        if not self.layout.lossy() or self.layout.promised_error() is not None:
            return None
        return self.format.kept_values(self.values, self.specification)

    def called(self, state: str) -> str:
        """Return what a state is called in rows: no file in memory is cold, only the library is."""
        return LIBRARY_COLD if state == "cold" and self.memory_resident else state


@dataclass(frozen=True)
class Outcome:
    """What a case yields: one row a repeat, the file's report, and why which states could not be had.

    Where other processes did the work, their summed memory in bytes, and their versions.
    """

    repeats: list[Row]
    report: dict[str, Any]
    skipped: dict[str, str]
    workers_memory_bytes: int = 0
    versions: dict[str, str] = field(default_factory=dict)


def error_columns(context: Context, deviation: Deviation) -> dict[str, float]:
    """Return the measured error of a lossy layout;
    raises VerificationError where it breaks a filter's promise.
    """
    promised = context.layout.promised_error()
    if deviation.exceeds(promised):
        raise VerificationError(
            f"{context.path}: an error of {deviation.largest:g} is more than {context.layout.filters_text()} "
            f"promises, {promised:g}"
        )
    return deviation.columns()
