"""Two storage formats that Hyperslab does not have, each registered from outside by a line in two tables.

`planes` is a directory with a raw file for every few planes of the array; `served` is the same behind a
server of its own, which reads the files for its clients.
"""

from __future__ import annotations

from hyperslab import formats, layouts

LAYOUTS = {"planes": "fake_formats.planes_layout", "served": "fake_formats.served_layout"}
MODULES = {"planes": "fake_formats.planes", "served": "fake_formats.served"}


def register() -> None:
    """Register both formats in this process."""
    layouts.FORMATS.update(LAYOUTS)
    formats.MODULES.update(MODULES)
