"""The HDF5 side of the format seam, in an object store."""
