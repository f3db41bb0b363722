"""HDF5 through h5py."""
