"""Releases of HDF5 that a layout may name: each in an environment of its own, made from its own lock."""

from __future__ import annotations

from dataclasses import dataclass

from hyperslab.layouts import environments


@dataclass(frozen=True)
class Release:
    """The wheel of h5py that carries a release of HDF5, and which names of libver that release lacks."""

    hdf5: str
    h5py: str
    unknown_libvers: tuple[str, ...] = ()


# The last wheel of h5py with each release. All for Python 3.11, the last one that has a wheel with HDF5 1.12
# and the first one that Hyperslab knows; older releases have no wheel for it.
RELEASES = {
    "1.12": Release("1.12.2", "3.9.0", ("v114",)),
    "1.14": Release("1.14.6", "3.15.1"),
    "2.0": Release("2.0.0", "3.16.0"),
}


def made(release: str) -> str:
    """Return the file that says that the environment of a release is complete."""
    return environments.made(f"hdf5-{release}")
