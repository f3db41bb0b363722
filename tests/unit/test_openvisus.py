"""OpenVisus reads what we write at every level, and we read what it writes; requests are those predicted."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rank_cells import SHAPE, WAYS, written_by
from test_environments import ROOT
from test_formats_idx import CELLS, generated, spec_of

import hyperslab
from hyperslab.cases.context import Context
from hyperslab.cases.mpi import launch
from hyperslab.data.selections import Box, coarse
from hyperslab.data.values import open_values
from hyperslab.formats.idx.array import FORMAT
from hyperslab.specifications import Specification

PROGRAM = ROOT / "tests" / "openvisus_program.py"
SECONDS = 300


def run(python: str, what: str, directory: Path) -> Any:
    """What the program in OpenVisus' environment says of the cells in a directory."""
    environment = {**os.environ, "PYTHONPATH": str(Path(hyperslab.__file__).parents[1])}
    done = subprocess.run(
        [python, str(PROGRAM), what, str(directory)],
        env=environment, capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def keep(directory: Path, name: str, spec: Specification, values: Any) -> Any:
    """Leave a cell's specification and content for the program; returns the content."""
    shape = spec["dataset"]["shape"]
    content = values.block((0,) * len(shape), shape)
    (directory / f"{name}.json").write_text(json.dumps(spec), encoding="utf-8")
    np.save(directory / f"{name}.npy", content)
    return content


def test_openvisus_reads_every_kind_of_file_that_we_write(tmp_path: Path, openvisus: str) -> None:
    for name in CELLS:
        for within in ("hz", "row-major"):
            spec = spec_of(name, within_block=within)
            keep(tmp_path, f"{name}-{within}", spec, generated(tmp_path / f"{name}-{within}", spec))
    spec = spec_of("cube")
    content = keep(tmp_path, "wrong", spec, generated(tmp_path / "wrong", spec))
    content[0, 0, 0] ^= 1
    np.save(tmp_path / "wrong.npy", content)
    found = run(openvisus, "read", tmp_path)
    # One wrong sample is seen. Every second read is one of the whole array.
    assert not any(one["equal"] for one in found.pop("wrong")[:8:2])
    assert_read_as_written(found, tmp_path, 2 * len(CELLS))


def assert_read_as_written(found: Any, directory: Path, cells: int, boxes: int = 2) -> None:
    """OpenVisus read all cells of a directory at every level and two others: whole, and another box."""
    assert len(found) == cells
    for name, reads in found.items():
        spec = json.loads((directory / f"{name}.json").read_text(encoding="utf-8"))
        assert len(reads) == boxes * (len(spec["layout"]["bitmask"]) + 2)
        for one in reads:
            assert one["equal"], (name, one)
            assert one["counted"] == one["predicted"], (name, one)


# What ranks write: a name for each, the way, and what a study says of layout and case.
BY_RANKS: dict[str, tuple[str, tuple[int, ...], dict[str, Any], dict[str, Any]]] = {
    **{way: (way, SHAPE, {}, {}) for way in WAYS if not way.startswith("plain")},
    "token-rows": ("token", SHAPE, {"within_block": "row-major"}, {}),
    "aggregated-rows": ("aggregated", SHAPE, {"within_block": "row-major"}, {"aggregators": 1}),
    **{
        f"{way}-fields": (way, (3, *SHAPE), {"fields": "w"}, {"along": {"z": 2}})
        for way in ("token", "per-level-fast", "aggregated")
    },
    "aggregated-turned": ("aggregated", SHAPE, {"order": ["z", "x", "y"]}, {"along": {"y": 2}}),
}  # fmt: skip
# One start of ranks writes all.
WRITE_ALL = """
import dataclasses, json, pathlib
from hyperslab.cases.subvolumes import kept
from hyperslab.cases.subvolumes.ranks import Cell
from hyperslab.data.values import open_values
def run(ranks, context):
    for file in sorted(pathlib.Path(context.path).glob("*.json")):
        spec = json.loads(file.read_text())
        values = open_values(spec["dataset"])
        one = dataclasses.replace(
            context, specification=spec, path=str(file.with_suffix("")), values=values
        )
        Cell(ranks, one).written()
    return {"rows": [], "nodes": ranks.nodes()}
kept.run = run
"""


@pytest.mark.mpi
def test_openvisus_reads_what_ranks_write_in_every_way(
    tmp_path: Path, mpi: None, openvisus: str, program: Callable[[str], None]
) -> None:
    program(WRITE_ALL)
    (directory := tmp_path / "cells").mkdir()
    for name, (way, shape, layout, asked) in BY_RANKS.items():
        spec = written_by(way, 2, shape, asked, **layout)
        keep(directory, name, spec, open_values(spec["dataset"]))
    context = Context(spec, FORMAT, str(directory), open_values(spec["dataset"]), False, "mpirun -n 2")
    launch.ranks(context, "subvolumes.kept")
    assert_read_as_written(run(openvisus, "read-whole", directory), directory, len(BY_RANKS), boxes=1)


def test_we_read_what_openvisus_writes(tmp_path: Path, openvisus: str) -> None:
    contents = {}
    for name in CELLS:
        spec = spec_of(name)
        contents[name] = keep(tmp_path, name, spec, generated(tmp_path / "own" / name, spec))
    run(openvisus, "write", tmp_path)
    for name, content in contents.items():
        spec = spec_of(name)
        opened = FORMAT.open(str(tmp_path / name), spec)
        for level in range(4):
            box = coarse(Box((0,) * content.ndim, content.shape), [1 << level] * content.ndim)
            assert np.array_equal(opened.read(box), box.of(content)), (name, level)
        opened.close()
        spec["layout"]["settings"]["library"] = "openvisus"
        there = FORMAT.report(str(tmp_path / name), spec)
        assert there["chunks"] == there["chunks_predicted"]
        assert there["files"] + there["folders"] == there["files_predicted"]
        if spec["layout"]["codec"] == "raw":
            assert there["index_bytes"] == there["index_predicted_bytes"]
            assert there["padding_bytes"] == there["padding_predicted_bytes"]
