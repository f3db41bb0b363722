"""The side of the format seam for HDF5 files in an object store whose chunks are read by reference."""
