"""States in which things are timed: their words, and which of them are cold."""

from __future__ import annotations

from collections.abc import Iterable

# What cold is called where the files lie in memory: only the library is cold.
LIBRARY_COLD = "library-cold"
# States each of whose repeats is a first access: on a file that was evicted (where there is a cache to evict
# it from) and is opened for it.
COLD_STATES = ("cold", LIBRARY_COLD)
# States that each begin with what serves the data being started anew.
STARTED_ANEW = frozenset({"cold", "session", "write"})
# Above this share of a file in the page cache a read is not cold, below that one it is not warm.
COLD_AT_MOST, WARM_AT_LEAST = 0.01, 0.99
# state -> its words; tables and figures show states in this order.
STATES = {
    "cold": "cold",
    LIBRARY_COLD: "library-cold (file in memory)",
    "warm": "warm",
    "session": "session",
    "write": "write",
}


def cold_of(states: Iterable[str]) -> str | None:
    """Return which of `states` is cold, "cold" itself where both are; None where none is."""
    known = set(states)
    return next((state for state in COLD_STATES if state in known), None)
