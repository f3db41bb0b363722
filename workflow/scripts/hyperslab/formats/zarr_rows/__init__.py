"""Ragged rows in Zarr through zarr-python."""
