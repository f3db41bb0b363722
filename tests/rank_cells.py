"""Cells of sub-volumes that MPI ranks write, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from idx_cells import cell

from hyperslab.cases.context import Context, Outcome
from hyperslab.cases.subvolumes import case as subvolumes
from hyperslab.data.values import open_values
from hyperslab.formats import load
from hyperslab.specifications import CaseSpecification, Specification

WAYS = (
    "token", "per-level", "per-level-kept", "per-level-fast-reopened", "per-level-fast", "aggregated",
    "plain", "plain-writeback",
)  # fmt: skip
HDF5_WAYS = ("independent", "collective")
SHAPE = (40, 32, 48)
LAYOUT: dict[str, Any] = {"bits_per_block": 9, "blocks_per_file": 16}


def by_ranks(
    spec: Specification, way: str, ranks: int, along: dict[str, int] | None = None, **asked: Any
) -> Specification:
    """What measure is told of ranks that write an array in one way."""
    described = {"along": along or {"x": ranks}, "aggregators": None, "files_each": None, **asked}
    case: CaseSpecification = {
        "name": "all", "kind": "subvolumes", "family": "all", "by": "ranks", "workers": ranks,
        "states": ["write"], "subvolumes": {"way": way, **described},
    }  # fmt: skip
    return {**spec, "case": case, "repeats": {"write": 2}, "seed": 1, "round": "r0", "protocol": 1}


def written_by(
    way: str,
    ranks: int,
    shape: Sequence[int] = SHAPE,
    asked: dict[str, Any] | None = None,
    **layout: Any,
) -> Specification:
    """The same for an IDX dataset; `asked` is what the case says of sub-volumes."""
    return by_ranks(cell(shape, **{**LAYOUT, **layout}), way, ranks, **(asked or {}))


def outcome_of(spec: Specification, directory: Path) -> Outcome:
    """The outcome of a cell of ranks."""
    ranks, format_ = spec["case"]["workers"], load(spec["layout"]["format"])
    path = str(directory / "data.idx")
    return subvolumes.run(
        Context(spec, format_, path, open_values(spec["dataset"]), True, f"mpirun -n {ranks}")
    )
