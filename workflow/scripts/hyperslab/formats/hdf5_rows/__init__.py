"""Ragged rows in HDF5."""
