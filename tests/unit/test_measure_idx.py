"""Cells of IDX layouts, as real processes: levels in every state, and writes of parts of blocks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from idx_cells import cell
from samples import prepared, read_cell, write_cell
from test_measure_zarr import measured

from hyperslab.results.tables import record_rows

pytestmark = pytest.mark.usefixtures("forked_alike")
SHAPE = (64, 48, 400)


@pytest.fixture
def root(disk: Path) -> Iterator[Path]:
    with prepared(disk) as found:
        yield found


@pytest.mark.parametrize(("level", "codec"), [(2, "raw"), (0, "zip")])
def test_a_read_cell_at_a_level(root: Path, tmp_path: Path, level: int, codec: str) -> None:
    layout = cell(SHAPE, bits_per_block=12, blocks_per_file=64, codec=codec)
    spec = read_cell(layout, (20, 30, 100), {"cold": 4, "warm": 3, "session": 3})
    if level:
        spec["case"]["level"] = level
    record: Any = measured(spec, root, tmp_path / "a.json")
    assert record["skipped"] == {} and record["writer"]["writer"] == "plain"
    for row in record["repeats"]:
        kept = [-(-extent // 2**level) for extent in (20, 30, 100)]
        assert row["asked_bytes"] == 2 * kept[0] * kept[1] * kept[2]
        assert all(start % 2**level == 0 for start in row["origin"])
        if row["state"] == "cold":
            assert row["requested_bytes"] == row["requested_predicted_bytes"] > 0
            assert row["requested_reads"] == row["requested_predicted_reads"] > 0
            assert row["resident_before"] <= 0.01
    (row, *_) = record_rows(record, "here", "a study", None, {})
    assert (row["format"], row["filters"]) == ("idx", "" if codec == "raw" else codec)
    assert row["chunks"] == row["chunks_predicted"]


def test_parts_of_blocks_are_written_once(root: Path, tmp_path: Path) -> None:
    layout = cell(SHAPE, bits_per_block=12, blocks_per_file=64)
    spec = write_cell(layout, "box", 2, {"x": 16, "y": 16, "z": 100})
    record: Any = measured(spec, root, tmp_path / "a.json")
    for row in record["repeats"]:
        # Each block once, when the last part of it has come, beside headers and the description.
        stored = record["file"]["stored_bytes"]
        assert stored < row["written_bytes"] < stored + record["file"]["index_bytes"] + 4096
