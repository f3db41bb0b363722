"""Hyperslab: how should this array be stored, on these machines, for the way it is read?"""

# Of each kind of case, raised whenever a change alters what its stopwatch covers or what is done between two
# of its repeats; older results then show as stale.
PROTOCOLS = {"read": 3, "write": 2, "reduce": 2, "objects": 2, "parallel": 2}
