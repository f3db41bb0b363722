"""OPeNDAP through pydap: what a layout may say, and a real server."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from own_environments import ROOT, interpreter, said_by, variables
from samples import prepared, read_cell
from server_cells import CHUNKS, SHAPE, behind, commands
from studies import changed, load, mistake

from hyperslab.layouts.chunks import chunk_count
from hyperslab.layouts.opendap import ENVIRONMENT
from hyperslab.records import read_record

SECONDS = 300
STATES = {"cold": 1, "warm": 1}


@pytest.fixture(scope="module")
def python(require: Callable[[str | None], None]) -> str:
    """The interpreter that has pydap, made from its lock where it is not there."""
    return interpreter(ENVIRONMENT, require)


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "filter": ({"filters": ["lzf"]}, "a NetCDF-4 file has shuffle, gzip, fletcher32, not lzf"),
    "no chunks": ({"chunks": None, "filters": ["gzip"]}, "filters need chunks"),
    "workers": ({"settings": {"workers": 0}}, "settings.workers: should be greater than 0"),
    "settings of HDF5": ({"settings": {"sieve_bytes": 1}}, "layouts.4x4x64.settings.sieve_bytes"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line(tmp_path: Path, name: str) -> None:
    given, said = MISTAKES[name]
    content = changed("layouts.4x4x64", {"format": "opendap", "chunks": [4, 4, 64], **given})
    content["cases"]["write"]["layouts"] = ["auto"]
    assert said in mistake(tmp_path, content)


def test_it_is_read_only_and_knows_few_types(tmp_path: Path) -> None:
    content = changed("layouts.4x4x64", {"format": "opendap", "chunks": [4, 4, 64]})
    assert "cases.write.layouts: OPeNDAP is read only (layout 4x4x64)" in mistake(tmp_path, content)
    content["cases"]["write"]["layouts"] = ["auto"]
    words = load(tmp_path, content).report_meta["layouts"]["4x4x64"]["words"]
    assert words.endswith("no filters, OPeNDAP with 1 worker")
    content["dataset"]["dtype"] = "uint64"
    assert "DAP2 knows" in mistake(tmp_path, content)


@pytest.mark.usefixtures("forked_alike", "python")
def test_selections_come_from_the_server(disk: Path, tmp_path: Path) -> None:
    filters = [{"name": "shuffle"}, {"name": "gzip", "level": 4}]
    spec = read_cell(behind("opendap", filters), (3, 10, 60), STATES)
    record = tmp_path / "cells" / "mine" / "box.r0.json"
    with prepared(disk) as root:
        for words in commands(spec, root / "study" / "layout" / "box.r0", record):
            done = subprocess.run(
                words, cwd=ROOT, env=variables(), capture_output=True, text=True, timeout=SECONDS, check=False
            )
            assert (done.returncode, done.stderr) == (0, "")
        assert not list(root.rglob("*.h5"))
    found: Any = read_record(record)
    assert found["skipped"] == {} and found["versions"]["pydap"] == "3.5.9"
    assert found["file"]["chunks"] == chunk_count(SHAPE, CHUNKS)
    assert all(row["server_memory_bytes"] > 2**25 for row in found["repeats"])
    (cold,) = (row for row in found["repeats"] if row["state"] == "cold")
    assert cold["server_requested_bytes"] >= cold["chunk_bytes"] > 0
    assert cold["resident_before"] < 0.01 and cold["server_device_bytes"] >= cold["chunk_bytes"]


@pytest.fixture(scope="module")
def served(disk: Path, python: str) -> Any:
    """What a server says that is asked for summaries, then with a wrong password, and then killed."""
    with prepared(disk) as root:
        return said_by(python, "server_program.py", "opendap", str(root / "cell"))


def test_summaries_of_daily_grids_are_those_of_what_was_written(served: Any) -> None:
    assert served["summarised"] == [2] and served["missing"] > 0


def test_no_request_leaves_the_file_open(served: Any) -> None:
    """The next one would find the chunks of this one in a cache."""
    assert served["closed"]


def test_a_fault_is_one_line_and_nothing_wrong_is_read(served: Any) -> None:
    assert served["right"] and not served["words"]
    assert all(len(str(line).splitlines()) == 1 for line in served.values())
    assert served["password"] == "ServerError: pydap refuses the password of user hyperslab (status 401)"
    assert "worker 0 of 1: ServerError: pydap " in served["killed"]
    assert "ServerError: pydap has ended while it was asked" in served["gone"]
    assert "ServerError: no server of" in served["stopped"]
