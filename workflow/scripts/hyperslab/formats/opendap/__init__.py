"""OPeNDAP: a file of HDF5 behind a server of pydap, read by a client of pydap."""
