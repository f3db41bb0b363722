"""Parallel writes and reads by MPI ranks, as HDF5's own h5perf compares them."""
