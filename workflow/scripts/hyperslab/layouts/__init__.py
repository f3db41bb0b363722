"""Layouts: what a study may say of a format and all that follows from it, without the format's library.

A format is two modules here, one line in FORMATS, and its library side in hyperslab.formats.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from hyperslab.layouts.collection import FILES, CollectionLayout
from hyperslab.layouts.layout import Layout

if TYPE_CHECKING:
    from hyperslab.layouts.schema import Schema


# name in a study -> module with LAYOUT; what a study may say stands in the module of that name with _schema
FORMATS = {
    "hdf5": "hyperslab.layouts.hdf5",
    "zarr": "hyperslab.layouts.zarr",
    "idx": "hyperslab.layouts.idx",
    "hdf5-s3": "hyperslab.layouts.hdf5_s3",
    "zarr-s3": "hyperslab.layouts.zarr_s3",
    "virtual": "hyperslab.layouts.virtual",
    "hdf5-rows": "hyperslab.layouts.hdf5_rows",
    "zarr-rows": "hyperslab.layouts.zarr_rows",
    "parquet": "hyperslab.layouts.parquet",
    "hsds": "hyperslab.layouts.hsds",
    "hsds-s3": "hyperslab.layouts.hsds_s3",
    "opendap": "hyperslab.layouts.opendap",
}
# The format of a layout that names none.
DEFAULT = "hdf5"


@cache
def load(name: str) -> type[Layout]:
    """Return the class of layouts of a format; raises KeyError for an unknown one."""
    found: type[Layout] = importlib.import_module(FORMATS[name]).LAYOUT
    return found


def schema_of(name: str) -> Schema:
    """Return what a study may say of a format's layouts; raises KeyError for an unknown one."""
    return cast("Schema", importlib.import_module(f"{FORMATS[name]}_schema"))


def layout_of(described: Mapping[str, Any]) -> Layout:
    """Return a resolved layout, as a specification holds it, with all that follows from it."""
    one = load(described["format"])
    if FILES not in described:
        return one(described)
    return CollectionLayout(described, one({key: value for key, value in described.items() if key != FILES}))
