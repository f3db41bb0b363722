"""Layouts: what a study may say of a format and all that follows from it, without the format's library."""

from __future__ import annotations

# Names of formats in a study.
FORMATS = ("hdf5",)
