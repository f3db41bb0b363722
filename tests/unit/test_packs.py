"""Packs: what comes out is what went in, to the last bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_environments import ROOT

from hyperslab.records import read_record, write_record
from hyperslab.results.packs import pack, records_in

PACKS = sorted((ROOT / "packs").glob("*.zip"))


@pytest.mark.parametrize("file", PACKS, ids=lambda path: path.stem)
def test_a_committed_pack_is_small_and_gives_back_its_records(file: Path) -> None:
    assert file.stat().st_size < 1e6
    assert {Path(path).parts[0] for path, _ in records_in(file)} == {file.stem}


@pytest.mark.parametrize(
    "repeats",
    [
        [{"time_s": 0.029580495, "asked_bytes": 3}],
        # A sum of whole nanoseconds need not be the nearest number to its own.
        [{"time_s": 0.029580495000000002}, {"time_s": 2.0}],
        [{"calls_s": [0.1, 0.25]}, {"calls_s": [0.1 + 0.2, 1.0], "device_bytes": float("nan")}],
    ],
)
def test_every_time_comes_back_to_the_last_bit(tmp_path: Path, repeats: list[dict[str, Any]]) -> None:
    record = {"specification": {}, "repeats": [{"state": "write", "repeat": 0, **row} for row in repeats]}
    path = tmp_path / "results/mine/cells/disk/a/write.r0.json"
    path.parent.mkdir(parents=True)
    write_record(path, record)
    assert pack("mine", tmp_path / "mine.zip", tmp_path / "results") == 1
    ((name, found),) = records_in(tmp_path / "mine.zip")
    assert name == "mine/cells/disk/a/write.r0.json"
    assert repr(found["repeats"]) == repr(read_record(path)["repeats"])
