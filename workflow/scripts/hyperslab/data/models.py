"""Data models: what is stored. A dense array, ragged rows, whose specification says how long they are, or a
collection: an array whose layouts may keep it in several files, cut along one axis.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from hyperslab.data.daily_grid import MISSING
from hyperslab.data.rows import elements_of, longest_of, open_rows
from hyperslab.data.values import DAILY_GRID, Values, open_values

ARRAY, ROWS, COLLECTION = "array", "rows", "collection"
# model -> what it is called where somebody asked for another
TITLES = {ARRAY: "a dense array", ROWS: "ragged rows", COLLECTION: "a collection of files"}


def model_of(dataset: Mapping[str, Any]) -> str:
    """Return the data model of a dataset specification."""
    if dataset.get("rows"):
        return ROWS
    return COLLECTION if dataset.get("collection") else ARRAY


def serves(model: str, stored: str) -> bool:
    """Return whether what is of one data model serves datasets of another: a collection is an array, too."""
    return model == stored or (model == ARRAY and stored == COLLECTION)


def missing_of(dataset: Mapping[str, Any]) -> float | None:
    """Return what stands where a dataset specification has no value, or None where every element has one."""
    own = MISSING if dataset.get("fill") == DAILY_GRID and not dataset.get("donor") else None
    found: float | None = dataset.get("missing", own)
    return found


def values_shape(dataset: Mapping[str, Any]) -> list[int]:
    """Return the extents of all values: those of an array; of rows one axis, the rows end to end."""
    return [elements_of(dataset)] if model_of(dataset) == ROWS else list(dataset["shape"])


def longest(dataset: Mapping[str, Any]) -> int:
    """Return the elements of the longest row."""
    return longest_of(dataset)


def raw_bytes(dataset: Mapping[str, Any]) -> int:
    """Return the bytes of all values."""
    dtype: np.dtype[Any] = np.dtype(dataset["dtype"])
    return math.prod(values_shape(dataset)) * dtype.itemsize


def open_content(dataset: Mapping[str, Any], donor_path: str | None = None) -> Values:
    """Return the content of a dataset: of an array `Values`, of rows `Rows`; `donor_path` as for those."""
    if model_of(dataset) == ROWS:
        return open_rows(dataset, donor_path)
    return open_values(dataset, donor_path)
