"""Another release of HDF5: a process that writes or reads its files goes on in that release's interpreter."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from hyperslab.layouts.hdf5_releases import interpreter


def enter(spec: dict[str, Any]) -> None:
    """Go on in the interpreter of the release that a specification names, if it names one and is not there.

    Raises FileNotFoundError where its environment was not made. The process stays the same one.
    """
    release = spec["layout"].get("release")
    if release is None:
        return
    wanted = interpreter(release).absolute()
    # A virtual environment's Python is a link: what tells environments apart is their prefix.
    if Path(sys.prefix) == wanted.parent.parent:
        return
    if not wanted.exists():
        raise FileNotFoundError(f"the environment of HDF5 {release} is not there: {wanted}")
    os.execv(wanted, [str(wanted), *sys.orig_argv[1:]])
