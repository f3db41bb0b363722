"""How many processes of this one may share work."""

from __future__ import annotations

import os

MOST_PROCESSES = 4


def processors() -> int:
    """Return how many processes may share work: one a core of this process, and not more than a few."""
    return min(MOST_PROCESSES, len(os.sched_getaffinity(0)))
