"""The HSDS side of the format seam, in an object store."""
