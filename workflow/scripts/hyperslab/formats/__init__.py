"""The seam of storage formats, library side: a format is a module here and one line in MODULES.

What a study may say of it, and all that needs no library, is in hyperslab.layouts.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

# A format may import them from here, too.
from hyperslab.formats.seam import Format as Format
from hyperslab.formats.seam import ManyArrays as ManyArrays
from hyperslab.formats.seam import OpenArray as OpenArray
from hyperslab.formats.seam import OpenArrays as OpenArrays
from hyperslab.formats.seam import Parallel as Parallel
from hyperslab.formats.seam import Refinement as Refinement
from hyperslab.formats.seam import Share as Share
from hyperslab.formats.seam import SharedFile as SharedFile
from hyperslab.formats.seam import Store as Store
from hyperslab.formats.seam import SubVolumes as SubVolumes
from hyperslab.formats.seam import SubVolumeWriter as SubVolumeWriter
from hyperslab.formats.seam import View as View

if TYPE_CHECKING:
    from hyperslab.data.selections import Box
    from hyperslab.specifications import LayoutSpecification, Specification

# name in a study -> module with FORMAT; imported when used
MODULES = {
    "hdf5": "hyperslab.formats.hdf5.array",
    "zarr": "hyperslab.formats.zarr.array",
    "idx": "hyperslab.formats.idx.array",
    "hdf5-s3": "hyperslab.formats.hdf5_s3.array",
    "zarr-s3": "hyperslab.formats.zarr_s3.array",
    "virtual": "hyperslab.formats.virtual.array",
    "hdf5-rows": "hyperslab.formats.hdf5_rows.rows",
    "zarr-rows": "hyperslab.formats.zarr_rows.rows",
    "parquet": "hyperslab.formats.parquet.rows",
    "hsds": "hyperslab.formats.hsds.array",
    "hsds-s3": "hyperslab.formats.hsds_s3.array",
    "opendap": "hyperslab.formats.opendap.array",
}


class Unavailable(Exception):
    """What a layout asks for is not in this build or release of the library; one line that says so."""


def load(name: str) -> Format:
    """Return the format registered under `name`; raises KeyError for an unknown one."""
    format_: Format = importlib.import_module(MODULES[name]).FORMAT
    return format_


def files_of(path: str, spec: Specification) -> list[tuple[str, Specification, Box]]:
    """Return of each file that is opened by itself its path, what describes it, and its part of the array."""
    from hyperslab.data.selections import Box
    from hyperslab.layouts import layout_of

    if "files" not in spec["layout"] or layout_of(spec["layout"]).abilities.opened_as_one:
        shape = spec["dataset"]["shape"]
        return [(path, spec, Box((0,) * len(shape), tuple(shape)))]
    from hyperslab.formats.collection_files import Files

    files = Files(path, spec)
    return [
        (files.path(number), files.specification(number), box) for number, box in enumerate(files.boxes())
    ]


def format_of(layout: LayoutSpecification) -> Format:
    """Return the format of a layout, or collections of it where that has several files; raises KeyError."""
    one = load(layout["format"])
    if "files" not in layout:
        return one
    from hyperslab.formats.collection import Collections

    own: Callable[[Format], Format] = getattr(one, "collections", Collections)
    return own(one)
