"""Layouts: what a study may say of a format and all that follows from it, without the format's library.

A format is one module here, with LAYOUT, and one line in MODULES; its library side is hyperslab.formats.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from typing import Any

from hyperslab.layouts.layout import Layout

# name in a study -> module with LAYOUT
MODULES = {"hdf5": "hyperslab.layouts.hdf5"}
# The format of a layout that names none.
DEFAULT = "hdf5"


@cache
def load(name: str) -> type[Layout]:
    """Return the class of layouts of a format; raises KeyError for an unknown one."""
    found: type[Layout] = importlib.import_module(MODULES[name]).LAYOUT
    return found


def layout_of(described: Mapping[str, Any]) -> Layout:
    """Return a resolved layout, as a specification holds it, with all that follows from it."""
    return load(described["format"])(described)
