"""A user's HDF5 file, rewritten: one dataset gets another layout, everything else stays as it is."""

from __future__ import annotations


class RewriteError(Exception):
    """A file that cannot be rewritten as asked; the text is one line that names the file and the fix."""
