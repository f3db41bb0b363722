"""Planning: what the Snakefile asks before, during and after a run. Nothing here measures."""
