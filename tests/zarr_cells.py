"""Specifications of cells with Zarr layouts, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hyperslab.layouts import zarr_schema
from hyperslab.specifications import Specification
from hyperslab.studies.dataset_schema import Dataset
from hyperslab.validation.errors import Place

# Codecs as a study writes them.
CODECS: list[list[Any]] = [
    [],
    ["crc32c"],
    [{"zstd": 3}],
    ["gzip"],
    [{"blosc": {"codec": "lz4", "shuffle": "bit"}}],
    ["blosc"],
    [{"zstd": 1}, "crc32c"],
]
PLACE = Place(Path("study.yaml"), "layouts.this")


def dataset_of(shape: Sequence[int], dtype: str = "uint16", fill: str = "mixed") -> Dataset:
    """Return a study's dataset with axes x, y, z."""
    content = {"axes": list("xyz"[: len(shape)]), "shape": list(shape), "dtype": dtype, "fill": fill}
    return Dataset.model_validate(content)


def cell(shape: Sequence[int], dtype: str = "uint16", fill: str = "mixed", **layout: Any) -> Specification:
    """Return dataset and layout of a specification; `layout` is what a study says of it."""
    dataset = dataset_of(shape, dtype, fill)
    given = PLACE.validate(zarr_schema.MODEL, layout)
    array: Any = dataset.model_dump(include={"axes", "shape", "dtype", "fill"})
    resolved: Any = zarr_schema.resolve(given, dataset, {}, PLACE)
    return {"dataset": array, "layout": resolved}
