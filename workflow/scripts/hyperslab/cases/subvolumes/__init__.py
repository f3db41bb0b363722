"""Sub-volumes of a dataset, each written by an MPI rank."""
