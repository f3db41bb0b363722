"""Sub-volumes of an IDX dataset, written by MPI ranks in the ways of PIDX's developers."""
