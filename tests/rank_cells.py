"""Cells of sub-volumes that MPI ranks write, for tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from idx_cells import cell

from hyperslab.cases.context import Context, Outcome
from hyperslab.cases.mpi import launch
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


# One start of ranks, which takes longer than a small cell, runs all cells; the result of each is a row.
RUN_ALL = """
from dataclasses import replace
from hyperslab import formats
from hyperslab.cases.CASE import ranks as case
from hyperslab.data.values import open_values
run = case.run
def run_all(ranks, context):
    found = []
    for number, spec in enumerate(context.specification["cells"]):
        own = {"format": formats.load(spec["layout"]["format"]), "values": open_values(spec["dataset"])}
        path = f"{context.path}.{number}"
        found.append(run(ranks, replace(context, specification=spec, path=path, **own)))
    return {**found[-1], "rows": found}
case.run = run_all
"""


def outcomes_of(
    specs: Sequence[Specification],
    directory: Path,
    program: Callable[[str], None],
    case: str = "subvolumes",
    lines: str = "",
) -> list[Outcome]:
    """The outcomes of cells of one kind of case and as many ranks each, which first do what the lines say."""
    program(lines + RUN_ALL.replace("CASE", case))
    told: Any = {**specs[0], "cells": list(specs)}
    format_, values = load(told["layout"]["format"]), open_values(told["dataset"])
    ranks = told["case"]["workers"]
    context = Context(told, format_, str(directory / "data"), values, True, f"mpirun -n {ranks}")
    found = []
    for one in launch.ranks(context, f"{case}.ranks")["rows"]:
        # What the launcher adds to each row.
        added = {name: one[name] for name in ("physical_cores", "nodes")}
        rows = [{**row, **added} for row in one["rows"]]
        found.append(Outcome(rows, one["file"], one["skipped"], one["memory_bytes"], one["versions"]))
    return found
