"""The variance of runs of planes, shared among processes or MPI ranks."""
