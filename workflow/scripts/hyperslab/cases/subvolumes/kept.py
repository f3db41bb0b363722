"""One write of sub-volumes by ranks, which stays for others to read (check_idx_openvisus.py)."""

from __future__ import annotations

from typing import Any

from hyperslab.cases.context import Context
from hyperslab.cases.mpi.communicator import Ranks, report
from hyperslab.cases.subvolumes.ranks import Cell


def run(ranks: Ranks, context: Context) -> dict[str, Any]:
    """Return how long it took; the same on all ranks."""
    return report(ranks, context.format, {"rows": [Cell(ranks, context).written()]})
