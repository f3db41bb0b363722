"""Tests that workers share out all run, also where a worker crashes, and some compute while others wait."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

from groups import TOGETHER, Groups, turn

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
    options = ["-q", "-n", "2", "-p", "no:cacheprovider", "-p", "xdist"]
    words = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    # Plug-ins that nothing here needs import much, in four processes.
    plain["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    done = subprocess.run(words, cwd=tmp_path, env=plain, capture_output=True, text=True, timeout=120)
    # The test in which it crashed counts as failed, and is run once more.
    assert f"1 failed, {MODULES * TESTS} passed" in done.stdout, done.stdout[-3000:]


class Worker:
    """A worker that runs nothing and keeps which modules it was given."""

    def __init__(self) -> None:
        self.given: list[str] = []

    def send_runtest_some(self, numbers: list[int]) -> None:
        """Keep the module of the first of these tests."""
        self.given.append(MODULES_OF_KINDS[numbers[0]])


WAITING = ["tests/unit/test_store_faults.py", *(f"tests/workflow/test_{letter}.py" for letter in "abc")]
COMPUTING = [f"tests/unit/test_{letter}.py" for letter in "def"]
MODULES_OF_KINDS = [*WAITING, *COMPUTING]


def test_one_worker_computes_while_the_others_have_what_waits() -> None:
    workers = [Worker() for _ in range(3)]
    groups = Groups.__new__(Groups)
    # Each module has one test, of its name.
    groups.workqueue = OrderedDict((module, {module: False}) for module in [*COMPUTING, *WAITING])
    groups.assigned_work = {worker: {} for worker in workers}
    groups.registered_collections = dict.fromkeys(workers, MODULES_OF_KINDS)
    # The last one, and nobody else, computes.
    for number in (0, 1, 2, 2):
        groups._assign_work_unit(workers[number])
    given = [worker.given for worker in workers]
    assert given == [WAITING[:1], WAITING[1:2], COMPUTING[:2]]
    # One of the others has ended what it had; when nothing is left to compute, all have what waits.
    groups.assigned_work[workers[0]][WAITING[0]][WAITING[0]] = True
    for number in (2, 0, 0):
        groups._assign_work_unit(workers[number])
    given = [worker.given for worker in workers]
    assert given == [[WAITING[0], COMPUTING[2], WAITING[3]], WAITING[1:2], [*COMPUTING[:2], WAITING[2]]]


def test_what_takes_minutes_is_begun_first() -> None:
    names = ["unit/test_a.py", "workflow/test_b.py", "unit/test_store_faults.py", "slurm/test_z.py"]
    modules = [Path("tests", name) for name in names]
    assert sorted(modules, key=turn) == modules[::-1]


def test_modules_that_go_together_are_there() -> None:
    there = [file.name for file in Path(__file__).parents[1].rglob("test_*.py")]
    assert {there.count(name) for name in TOGETHER} == {1}
