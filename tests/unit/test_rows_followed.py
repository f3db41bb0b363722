"""Rows that are appended while other processes read them: what readers find, and what cannot be followed."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from row_cells import LAYOUTS, ROWS, cell, run
from studies import load

from hyperslab.cases.context import VerificationError
from hyperslab.data.rows import RowBlock
from hyperslab.formats.hdf5_rows.flattened import FlattenedPart
from hyperslab.layouts import layout_of
from hyperslab.layouts.rows import RowsLayout
from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.planning.site_checks import largest_bytes
from hyperslab.specifications import Specification


def asked(name: str, call: int, readers: int, settings: dict[str, Any] | None = None) -> Specification:
    settings = {"libver": "latest"} if settings is None else settings
    rows = {"call": call, "readers": readers, "poll_ms": 1.0}
    return cell({**LAYOUTS[name], "settings": settings}, "follow_rows", rows)


@pytest.mark.parametrize(
    ("name", "call", "readers"),
    [
        ("flattened-gzip", 7, 1),
        ("flattened-offsets", 1, 1),
        ("offset-vector-zstd", 16, 2),
        ("padded-gzip", 7, 1),
    ],
)
def test_readers_find_every_row(tmp_path: Path, name: str, call: int, readers: int) -> None:
    outcome = run(asked(name, call, readers), tmp_path / "data.h5")
    assert len(outcome.repeats) == 2 and outcome.workers_memory_bytes > 10**7 * readers
    for row in outcome.repeats:
        assert row["calls"] == -(-300 // call) and row["rows"] == 300 and row["readers"] == readers
        assert row["rows_a_second"] == pytest.approx(300 / row["write_s"])
        assert 0 < row["latency_median_s"] <= row["latency_p99_s"] <= row["latency_max_s"]
        assert 0 <= row["followed_share"] <= 1 and row["looks"] >= readers
        # Each append reaches the kernel before the next one begins.
        assert row["requested_writes"] >= 2 * row["calls"]
    assert list(tmp_path.iterdir()) == []


def test_the_same_appends_alone(tmp_path: Path) -> None:
    for row in run(asked("offset-vector", 16, 0), tmp_path / "data.h5").repeats:
        assert row["readers"] == 0 and row["rows_a_second"] > 0 and "latency_max_s" not in row


def test_a_wrong_row_that_a_reader_finds_fails_the_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = FlattenedPart.publisher

    def wrong(self: Any, first: int, block: RowBlock) -> Any:
        values = np.ascontiguousarray(block.values) + (1 if first >= 200 else 0)
        return publisher(self, first, RowBlock(block.lengths, values.astype(block.values.dtype)))

    monkeypatch.setattr(FlattenedPart, "publisher", wrong)
    with pytest.raises(VerificationError, match=r"row 2\d\d differs .* as a reader beside it found it"):
        run(asked("flattened-gzip", 50, 1), tmp_path / "data.h5")
    assert multiprocessing.active_children() == []


def test_readers_end_with_a_writer_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        raise OSError("no space left")

    monkeypatch.setattr(FlattenedPart, "publisher", full)
    with pytest.raises(OSError, match="no space left"):
        run(asked("flattened-gzip", 50, 1), tmp_path / "data.h5")
    assert multiprocessing.active_children() == [] and list(tmp_path.iterdir()) == []


def refusal(spec: Specification) -> str:
    layout = layout_of(spec["layout"])
    assert isinstance(layout, RowsLayout)
    said = layout.follow_refusal()
    assert said is not None
    return said


@pytest.mark.parametrize(
    ("name", "settings", "why"),
    [
        ("vlen-chunked", None, "does not reach the global heap"),
        ("flattened-gzip", {}, "another settings.libver than earliest: v110, v112, v114, latest"),
        ("flattened", None, "a contiguous vector cannot grow; give the layout chunk_bytes"),
        ("offset-vector", {"libver": "latest", "paging": {"page_bytes": 4096}}, "leave settings.paging out"),
    ],
)
def test_what_cannot_be_followed_says_why(name: str, settings: dict[str, Any] | None, why: str) -> None:
    said = refusal(asked(name, 1, 1, settings))
    assert said.endswith(why) and "\n" not in said


@pytest.mark.parametrize(("name", "why"), [("parquet", "before it is closed"), ("zarr", "parts of a row")])
def test_other_formats_say_why(name: str, why: str) -> None:
    spec = cell(LAYOUTS[name], "follow_rows", {"call": 1, "readers": 1, "poll_ms": 1.0})
    assert refusal(spec).endswith(why)


# kind -> a layout whose files it makes larger than their rows are, rows, and what is asked
ROOM: dict[str, tuple[str, dict[str, Any], Any]] = {
    # Each flush leaves a compressed chunk behind.
    "follow_rows": ("offset-vector-zstd", ROWS, {"call": 1, "readers": 0}),
    # Each row that is put in place of another lies behind all others.
    "rewrite_rows": ("offset-vector", {"count": 200, "lengths": "uniform", "longest": 20_000}, 150),
}


def study_of(directory: Path, name: str, rows: dict[str, Any], cases: dict[str, Any]) -> PlannedStudy:
    """A study of a layout, and of one without filters."""
    layouts = {"this": LAYOUTS[name], "plain": LAYOUTS["offset-vector-reuse"]}
    dataset, settings = {"rows": rows, "dtype": "int32"}, {"libver": "latest"}
    return load(
        directory,
        {"title": "rows", "dataset": dataset, "settings": settings, "layouts": layouts, "cases": cases},
    )


@pytest.mark.parametrize("kind", ROOM)
def test_what_a_case_adds_to_a_file_was_foreseen(tmp_path: Path, kind: str) -> None:
    name, rows, given = ROOM[kind]
    study = study_of(tmp_path, name, rows, {"more": {kind: given}})
    layout = {**LAYOUTS[name], "settings": {"libver": "latest"}}
    size = run(cell(layout, kind, study.cases["more"]["rows"], rows), tmp_path / "a.h5").report["file_bytes"]
    assert layout_of(study.layouts["this"]).largest_bytes(study.dataset) < size <= largest_bytes(study)


def test_a_file_has_room_for_the_cases_of_its_layout_alone(tmp_path: Path) -> None:
    cases = {"read": {"read_rows": 1, "layouts": ["this"]}, "more": {"follow_rows": 1, "layouts": ["plain"]}}
    study = study_of(tmp_path, "offset-vector-zstd", ROWS, cases)
    bounds = [layout_of(layout).largest_bytes(study.dataset) for layout in study.layouts.values()]
    assert largest_bytes(study) == max(bounds)
