"""Tests that workers share out all run, also where a worker crashes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MODULES, TESTS = 12, 2
CONFTEST = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from groups import Groups
def pytest_xdist_make_scheduler(config, log):
    return Groups(config, log)
"""
MODULE = """
import os, pathlib, pytest
@pytest.mark.parametrize("number", range({tests}))
def test_it(number):
    mark = pathlib.Path({mark!r})
    if {crashes} and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), 9)
"""


def test_what_a_crashed_worker_had_left_is_run_by_others(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    for number in range(MODULES):
        code = MODULE.format(tests=TESTS, mark=str(tmp_path / "mark"), crashes=number == MODULES - 4)
        (tmp_path / f"test_{number:02}.py").write_text(code, encoding="utf-8")
    words = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", str(tmp_path)]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(words, cwd=tmp_path, env=plain, capture_output=True, text=True, timeout=120)
    # The test in which it crashed counts as failed, and is run once more.
    assert f"1 failed, {MODULES * TESTS} passed" in done.stdout, done.stdout[-3000:]
