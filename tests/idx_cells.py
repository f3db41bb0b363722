"""Specifications of cells with IDX layouts, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hyperslab.layouts import idx_schema
from hyperslab.specifications import Specification
from hyperslab.studies.dataset_schema import Dataset
from hyperslab.validation.errors import Place

PLACE = Place(Path("study.yaml"), "layouts.this")
AXES = "tfwxyz"


def dataset_of(shape: Sequence[int], dtype: str = "uint16", fill: str = "mixed") -> Dataset:
    """Return a study's dataset; its axes are the last letters of "tfwxyz"."""
    axes = list(AXES[-len(shape) :])
    return Dataset.model_validate({"axes": axes, "shape": list(shape), "dtype": dtype, "fill": fill})


def cell(shape: Sequence[int], dtype: str = "uint16", fill: str = "mixed", **layout: Any) -> Specification:
    """Return dataset and layout of a specification; `layout` is what a study says of it."""
    dataset = dataset_of(shape, dtype, fill)
    given = PLACE.validate(idx_schema.MODEL, layout)
    array: Any = dataset.model_dump(include={"axes", "shape", "dtype", "fill"})
    resolved: Any = idx_schema.resolve(given, dataset, {}, PLACE)
    return {"dataset": array, "layout": resolved}
