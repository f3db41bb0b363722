"""Parallel writes and reads by MPI ranks, as HDF5's own h5perf compares them; timed in mpi/parallel.py."""

from __future__ import annotations

from hyperslab import machine
from hyperslab.cases import Context, Outcome
from hyperslab.mpi import launch


def run(context: Context) -> Outcome:
    """Every state of a parallel case; raises VerificationError, or ChildProcessError where a rank fails."""
    done = launch.ranks(context)
    cores = machine.physical_cores() * done["nodes"]
    rows = [{**row, "physical_cores": cores} for row in done["rows"]]
    return Outcome(rows, done["file"], done["skipped"], done["memory_bytes"], done["versions"])
