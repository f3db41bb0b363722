"""The file system of the results is full: said in one line, and what was measured stays."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from clones import TINY, Clone, make_clone
from faulty import half_records, snapshot, wait_for
from test_faults import fill

pytestmark = [pytest.mark.faults, pytest.mark.slow]

TARGET = "results/full/summary.csv"


@pytest.fixture
def clone(tmp_path: Path, require: Callable[[str | None], None]) -> Iterator[Clone]:
    """A clone whose results have a small file system of their own."""
    require("mounting needs root" if os.geteuid() else None)
    made = make_clone(tmp_path / "clone")
    made.write_study("full", {**TINY, "rounds": 2, "recommendation": {"confirm_rounds": 0}})
    results = made.directory / "results"
    results.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "hyperslab-test", str(results)], check=True)
    yield made
    subprocess.run(["umount", "--lazy", str(results)], check=True)


def test_full_results_are_said_and_what_is_there_stays(clone: Clone) -> None:
    results = clone.directory / "results"
    with clone.running(TARGET) as process:
        wait_for(lambda: snapshot(results) or process.poll() is not None, "a record")
        fill(results, results)
    assert process.returncode == 1
    before, printed = snapshot(results), clone.log(TARGET).read_text(encoding="utf-8")
    assert before and not half_records(results)
    said = f"hyperslab: {results}: its file system is full (0.0 MB, "
    assert [line.startswith(said) for line in printed.splitlines() if "is full" in line] == [True]
    # Nothing begins before there is room.
    refused = clone.run(TARGET)
    assert refused.returncode == 1 and refused.stderr.splitlines()[-1].startswith(said)
    (results / "somebody else's").unlink()
    clone.build(TARGET)
    now = snapshot(results)
    assert {name: now[name] for name in before} == before
