"""Parallel writes and reads by MPI ranks, as HDF5's own h5perf compares them; timed in ranks.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperslab.cases.context import Context, Outcome
from hyperslab.cases.mpi import launch

# What each rank runs.
RANKS = "parallel.ranks"
# Hints that say whether two-phase I/O is used, and by how many ranks; shown beside those that a case sets.
TWO_PHASE = ("romio_cb_write", "romio_cb_read", "cb_nodes")


def in_force(settings: Mapping[str, Any], wanted: Mapping[str, str]) -> str:
    """Return what HDF5 says that its last call was, and hints as MPI-IO says them, in words."""
    hints = settings.get("hints", {})
    shown = [name for name in dict.fromkeys([*TWO_PHASE, *wanted]) if name in hints]
    parts = [settings.get("last_call"), *(f"{name} {hints[name]}" for name in shown)]
    return ", ".join(part for part in parts if part)


def run(context: Context) -> Outcome:
    """Measure every state of a parallel case; raises VerificationError,
    or ChildProcessError where a rank fails.
    """
    done = launch.ranks(context, RANKS)
    asked = context.specification["case"]["parallel"]
    said = in_force(done["file"]["settings"], asked["hints"])
    rows = [{**row, "in_force": said} for row in done["rows"]]
    return Outcome(rows, done["file"], done["skipped"], done["memory_bytes"], done["versions"])
