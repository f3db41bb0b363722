"""The seam of cases on the study's side: what a case of each kind becomes in a specification.

A kind is a field of schema.Case, one function here, and one module in hyperslab/cases that measures it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hyperslab.schema import Case

Shape = Mapping[str, int]
# (case, extent of every axis) -> what the case adds to a specification, `states` among it.
Resolver = Callable[[Case, Shape], dict[str, Any]]


class CaseMistake(Exception):
    """What is wrong with a case: the path inside it, and one line."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


def check_box(box: Mapping[str, Any], shape: Shape, path: str) -> None:
    """Raise CaseMistake for an axis that does not exist or an extent that does not fit."""
    for axis, asked in box.items():
        if axis not in shape:
            raise CaseMistake(f"{path}.{axis}", f"no such axis; the dataset has {', '.join(shape)}")
        if isinstance(asked, int) and asked > shape[axis]:
            raise CaseMistake(f"{path}.{axis}", f"extent {asked} does not fit: axis {axis} has {shape[axis]}")


def extent_of(selection: Mapping[str, Any], shape: Shape) -> list[int]:
    """Elements per axis of a selection in which what is not named is whole."""
    asked = {axis: selection.get(axis, "all") for axis in shape}
    return [size if asked[axis] == "all" else asked[axis] for axis, size in shape.items()]


def _read(case: Case, shape: Shape) -> dict[str, Any]:
    assert case.read is not None
    check_box(case.read, shape, "read")
    return {"extent": extent_of(case.read, shape), "states": list(case.states)}


def _write(case: Case, shape: Shape) -> dict[str, Any]:
    block = case.write if isinstance(case.write, dict) else None
    check_box(block or {}, shape, "write")
    strategy = case.write if isinstance(case.write, str) else "box"
    return {"strategy": strategy, "block": block, "states": ["write"]}


RESOLVERS: dict[str, Resolver] = {"read": _read, "write": _write}
# What of a resolved case belongs to its cells' specifications.
SPECIFIED = ("kind", "extent", "states", "strategy", "block")
