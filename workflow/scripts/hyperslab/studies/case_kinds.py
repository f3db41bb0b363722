"""The seam of cases on the study's side: what a case of each kind becomes in a specification.

A kind is a field of schema.Case, one function here, and one module in hyperslab/cases that measures it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hyperslab.layouts import layout_of
from hyperslab.studies.schema import ITEMSIZE, Case, Dataset, Stride
from hyperslab.validation.nearest import choices

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
            raise CaseMistake(f"{path}.{axis}", f"no such axis; the dataset has {choices(axis, shape)}")
        extent = asked.extent if isinstance(asked, Stride) else asked
        if isinstance(extent, int) and extent > shape[axis]:
            message = f"extent {extent} does not fit: axis {axis} has {shape[axis]}"
            raise CaseMistake(f"{path}.{axis}", message)


def extent_of(selection: Mapping[str, Any], shape: Shape) -> list[int]:
    """Elements per axis of a selection in which what is not named is whole; of a stride, its box."""
    asked = {axis: selection.get(axis, "all") for axis in shape}
    boxes: dict[str, Any] = {
        axis: one.extent if isinstance(one, Stride) else one for axis, one in asked.items()
    }
    return [size if boxes[axis] == "all" else boxes[axis] for axis, size in shape.items()]


def _pattern(case: Case, shape: Shape, extent: list[int]) -> dict[str, Any] | None:
    """Step and block of every axis where a selection has strides, else None; raises CaseMistake."""
    assert case.read is not None
    strides = {axis: one for axis, one in case.read.items() if isinstance(one, Stride)}
    board = case.pattern == "checkerboard"
    if board and len(strides) < 2:
        raise CaseMistake("pattern", "a checkerboard needs a step and a block along at least two axes")
    if not strides:
        return None
    for axis, width in zip(shape, extent, strict=True):
        stride = strides.get(axis)
        if stride and stride.block >= stride.step:
            message = f"block should be below step ({stride.step}), or nothing would be left out"
            raise CaseMistake(f"read.{axis}", message)
        if stride and width % stride.step:
            raise CaseMistake(f"read.{axis}", f"extent {width} is not a multiple of the step, {stride.step}")
        if stride and board and stride.step != 2 * stride.block:
            raise CaseMistake(f"read.{axis}", "a checkerboard needs a step of two blocks")
    return {
        "step": [strides[axis].step if axis in strides else 1 for axis in shape],
        "block": [strides[axis].block if axis in strides else 1 for axis in shape],
        "checkerboard": board,
    }


def _holds(memory: str, stored: str) -> bool:
    """Whether type `memory` holds every value of type `stored` exactly."""
    kind, other = (name.rstrip("0123456789") for name in (stored, memory))
    wider = ITEMSIZE[memory] > ITEMSIZE[stored]
    return memory == stored or (wider and (kind == other or kind == "uint" or other == "float"))


def _read(case: Case, shape: Shape) -> dict[str, Any]:
    assert case.read is not None
    check_box(case.read, shape, "read")
    extent = extent_of(case.read, shape)
    resolved = {
        "extent": extent,
        "states": list(case.states),
        "pattern": _pattern(case, shape, extent),
        "memory_dtype": case.memory_dtype,
    }
    # What is not asked for stays out of specifications, and with it out of their hashes.
    return {key: value for key, value in resolved.items() if value is not None}


def _write(case: Case, shape: Shape) -> dict[str, Any]:
    block = case.write if isinstance(case.write, dict) else None
    check_box(block or {}, shape, "write")
    strategy = case.write if isinstance(case.write, str) else "box"
    return {"strategy": strategy, "block": block, "states": ["write"]}


def _objects(case: Case, shape: Shape) -> dict[str, Any]:
    if case.objects not in shape:
        raise CaseMistake("objects", f"no such axis; the dataset has {choices(case.objects, shape)}")
    if len(shape) < 2 or case.objects != next(iter(shape)):
        raise CaseMistake("objects", "needs the first of several axes; the others are what an object holds")
    return {"states": ["write", *case.states]}


def check_layout(
    case: Case, resolved: Mapping[str, Any], dataset: Dataset, layout: Mapping[str, Any]
) -> None:
    """Raise CaseMistake where a resolved case cannot be had of a resolved layout."""
    board = (resolved.get("pattern") or {}).get("checkerboard")
    found = layout_of(layout)
    if resolved.get("pattern") and not found.abilities.strides:
        raise CaseMistake("read", f"{found.title} cannot be asked for every so many elements")
    if board and found.order != dataset.axes:
        raise CaseMistake("pattern", "a checkerboard needs layouts whose order is that of the dataset's axes")
    # Values of the file, if they are known to fit a narrower type than its own.
    stored = "uint8" if dataset.fill == "random-below-256" and not dataset.donor else dataset.dtype
    if case.memory_dtype and not _holds(case.memory_dtype, stored):
        message = f"{case.memory_dtype} does not hold every {stored}; take a wider type"
        raise CaseMistake("memory_dtype", message)
    if case.memory_dtype and not found.abilities.memory_types:
        raise CaseMistake("memory_dtype", f"{found.title} is read in the type that is stored")
    if found.lossy() and case.kind not in ("read", "write"):
        raise CaseMistake("layouts", "only read and write cases can measure the error of a lossy filter")
    if case.kind == "objects" and not found.abilities.many_arrays:
        raise CaseMistake("objects", f"{found.title} does not hold many arrays in a file")
    if case.ranks and not found.abilities.ranks:
        raise CaseMistake("ranks", f"MPI ranks cannot open {found.title} together")
    if case.parallel and case.parallel.apis != ["hdf5"] and found.chunks:
        raise CaseMistake("layouts", f"{case.parallel.apis[0]} has no chunks; name contiguous layouts")
    kept = [
        extent for axis, extent in zip(dataset.axes, resolved["shape"], strict=True) if axis != case.objects
    ]
    if reason := found.refusal(kept, dataset.itemsize):
        raise CaseMistake("layouts", reason)


def _reduce(case: Case, shape: Shape) -> dict[str, Any]:
    assert case.reduce is not None
    check_box(case.reduce, shape, "reduce")
    planes = [axis for axis, extent in case.reduce.items() if isinstance(extent, int)]
    if len(planes) != 1 or len(case.reduce) != 1:
        raise CaseMistake("reduce", "needs one axis with a number of planes, such as {z: 25}")
    others = [axis for axis in shape if axis not in planes]
    split = case.split or next(iter(others), None)
    if split not in others:
        raise CaseMistake("split", f"should be another axis than {planes[0]}: {' or '.join(others)}")
    by = "ranks" if case.ranks else "processes"
    workers = (case.ranks or case.processes or [1])[0]
    if workers > shape[split]:
        raise CaseMistake(by, f"{workers} cannot share axis {split}, which has {shape[split]}")
    resolved = {"planes": planes[0], "split": split, "by": by, "workers": workers}
    return {"extent": extent_of(case.reduce, shape), "states": list(case.states), **resolved}


def _parallel(case: Case, shape: Shape) -> dict[str, Any]:
    assert case.parallel is not None and case.ranks
    asked = case.parallel
    described = {**asked.model_dump(exclude={"apis"}), "api": asked.apis[0]}
    described["block"] = asked.block or asked.transfer
    states = ["write", *case.states]
    return {"states": states, "parallel": described, "by": "ranks", "workers": case.ranks[0]}


RESOLVERS: dict[str, Resolver] = {
    "read": _read, "write": _write, "objects": _objects, "reduce": _reduce, "parallel": _parallel,
}  # fmt: skip
# What of a resolved case belongs to its cells' specifications.
SPECIFIED = (
    "kind", "extent", "states", "strategy", "block", "pattern", "memory_dtype", "planes", "split",
    "by", "workers", "family", "parallel",
)  # fmt: skip
# Kinds that make their own test file, and so wait for none.
MAKE_THEIR_FILE = ("write", "objects", "parallel")
