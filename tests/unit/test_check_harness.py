"""The check of the harness really runs both loops, in turns, on a small study."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from pathlib import Path

from test_environments import ROOT

STATES = ["cold", "warm"]
STUDY = """
title: a small study
dataset: {axes: [x, y, z], shape: [24, 24, 1024], dtype: uint16}
layouts: {12x12x128: {chunks: [12, 12, 128]}}
cases: {spectra: {read: {x: 8, y: 8}, states: [cold, warm]}}
"""


def test_both_loops_take_turns_in_every_state(tmp_path: Path) -> None:
    (tmp_path / "config" / "studies").mkdir(parents=True)
    (tmp_path / "config" / "studies" / "small.yaml").write_text(STUDY, encoding="utf-8")
    asked = ["small", "--layouts", "12x12x128", "--cases", "spectra", "--root", str(tmp_path / "root")]
    asked += ["--repeats", "2", "3", "3", "--blocks", "2"]
    done = subprocess.run(
        [sys.executable, ROOT / "workflow/scripts/check_harness.py", *asked],
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    # Two blocks say nothing with 95 % confidence, which is no success.
    assert done.returncode == 1, done.stderr
    found = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["state"] for row in found] == STATES
    assert all(0 < float(row["ratio"]) < 100 and float(row["bare_median_s"]) > 0 for row in found)
    assert {(row["high"], row["blocks"]) for row in found} == {("nan", "2")}
    assert not list((tmp_path / "root").iterdir())
