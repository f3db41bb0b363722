"""Hyperslab: how should this array be stored, on these machines, for the way it is read?"""

# Raised whenever a change alters what a stopwatch covers; older results then show as stale.
PROTOCOL = 2
