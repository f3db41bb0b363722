"""Cells of Zarr layouts: reads in every state and workers, as real processes; writes of parts of files."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from forked_cells import job
from own_environments import variables
from samples import prepared, read_cell, write_cell
from zarr_cells import cell

from hyperslab.generate import generate
from hyperslab.measure import measure
from hyperslab.records import read_record
from hyperslab.results.tables import record_rows
from hyperslab.specifications import CaseSpecification, Specification
from hyperslab.studies.specification import text

pytestmark = pytest.mark.usefixtures("forked_alike")
Spec = Specification
SHAPE = (20, 24, 800)
CHUNKS, SHARDS = [4, 4, 128], [16, 16, 256]
SECONDS = 120


@pytest.fixture
def root(disk: Path) -> Iterator[Path]:
    with prepared(disk) as found:
        yield found


def measured(spec: Spec, root: Path, record: Path) -> Any:
    """The record of a cell that a real process measures; nothing of it is left in the root."""
    directory = root / "study" / "layout" / "cell.r0"
    if spec["case"]["kind"] != "write":
        generate(spec, directory, None)
    words = job("hyperslab.measure", "--specification", text(spec), "--artifact", str(directory))
    words += ["--record", str(record), "--site", "here"]
    done = subprocess.run(words, env=variables(), capture_output=True, text=True, timeout=SECONDS)
    assert (done.returncode, done.stderr) == (0, "")
    return read_record(record)


def described(**layout: Any) -> Spec:
    spec: Spec = cell(SHAPE, chunks=CHUNKS, **layout)
    return spec


@pytest.mark.parametrize(("pipeline", "shards"), [("default", None), ("zarrs", SHARDS)], ids=str)
def test_a_read_cell(root: Path, tmp_path: Path, pipeline: str, shards: list[int] | None) -> None:
    layout = described(shards=shards, codecs=["zstd"], order=["z", "x", "y"], settings={"pipeline": pipeline})
    spec = read_cell(layout, (5, 5, 100), {"cold": 4, "warm": 3, "session": 3})
    record = measured(spec, root, tmp_path / "a.json")
    assert record["skipped"] == {}
    cold = [row for row in record["repeats"] if row["state"] == "cold"]
    assert len(cold) == 4
    for row in cold:
        assert row["requested_bytes"] == row["requested_predicted_bytes"] > 0
        assert row["requested_reads"] == row["requested_predicted_reads"] > 0
        assert row["resident_before"] <= 0.01 < row["resident_after"]
        assert row["open_s"] > 0
    assert all(row["resident_before"] >= 0.99 for row in record["repeats"] if row["state"] == "warm")
    assert record["writer"]["writer"] == "chunk by chunk"
    versions = record["versions"]
    assert {"zarr", "zarrs", "numcodecs", "numpy", "python"} <= versions.keys()
    assert not {"h5py", "hdf5", "hdf5plugin"} & versions.keys()
    (row, *_) = record_rows(record, "here", "a study", None, {})
    assert (row["format"], row["filters"], row["chunk_shape"]) == ("zarr", "zstd", "4x4x128")
    # 2 x 2 x 4 shards, or 5 x 6 x 7 chunks, and zarr.json.
    assert row["files"] == 1 + (16 if shards else 210)
    assert row["folders"] == (2 + 4 + 4 * 2 if shards else 2 + 7 + 7 * 5)


@pytest.mark.parametrize("pipeline", ["default", "zarrs"])
def test_writing_parts_of_shards_is_named(root: Path, pipeline: str) -> None:
    layout = described(shards=SHARDS, settings={"pipeline": pipeline})
    whole = write_cell(layout, "box", 1, {"x": 16, "y": 16, "z": 256})
    (row,) = measure(whole, root / "a", None)["repeats"]
    assert "rewritten_predicted_bytes" not in row
    assert row["written_bytes"] < 1.5 * row["asked_bytes"]
    parts = write_cell(layout, "box", 1, {"x": 8, "y": "all", "z": "all"})
    (row,) = measure(parts, root / "a", None)["repeats"]
    # The shards of the first 16 x are covered by two boxes.
    shard = 16 * 16 * 256 * 2
    assert row["rewritten_predicted_bytes"] == 2 * 2 * 4 * shard
    assert row["requested_bytes"] > row["asked_bytes"] / 4


@pytest.mark.parametrize(
    ("shape", "shards", "workers"),
    # The second is read in two pieces, which both need the indexes of the same shards.
    [(SHAPE, None, 2), ((40, 64, 4096), [40, 64, 1024], 1)],
    ids=["two workers", "two pieces"],
)
def test_processes_reduce_it(
    root: Path, tmp_path: Path, shape: tuple[int, int, int], shards: list[int] | None, workers: int
) -> None:
    chunks = [8, 16, 256] if shards else CHUNKS
    case: CaseSpecification = {
        "name": "slices", "family": "slices", "kind": "reduce", "planes": "z", "split": "x",
        "extent": list(shape) if shards else [20, 24, 100], "by": "processes", "workers": workers,
        "states": ["cold"],
    }  # fmt: skip
    array: Spec = cell(shape, chunks=chunks, shards=shards, codecs=["zstd"])
    spec: Spec = {
        **array,
        "case": case, "repeats": {"cold": 2}, "study": "mine", "seed": 1, "round": "r0",
        "protocol": 1,
    }  # fmt: skip
    record = measured(spec, root, tmp_path / "a.json")
    assert [row["state"] for row in record["repeats"]] == ["cold", "cold"]
    for row in record["repeats"]:
        assert row["requested_bytes"] == row["requested_predicted_bytes"]
        assert row["requested_reads"] == row["requested_predicted_reads"]
