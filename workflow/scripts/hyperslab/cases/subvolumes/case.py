"""Sub-volumes of a dataset that MPI ranks write; timed in ranks.py."""

from __future__ import annotations

from hyperslab.cases.context import Context, Outcome
from hyperslab.cases.mpi import launch

# What each rank runs.
RANKS = "subvolumes.ranks"


def run(context: Context) -> Outcome:
    """Measure the writes of a case; raises VerificationError, or ChildProcessError where a rank fails."""
    done = launch.ranks(context, RANKS)
    return Outcome(done["rows"], done["file"], done["skipped"], done["memory_bytes"], done["versions"])
