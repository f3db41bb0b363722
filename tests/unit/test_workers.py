"""Worker processes: orders, the start together, and what happens when one of them or their parent ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from errands import errands
from process_tree import alive

import hyperslab

SECONDS = 60.0


def wait_until(met: Callable[[], bool], seconds: float = SECONDS) -> bool:
    end = time.monotonic() + seconds
    while not met():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def test_all_go_after_the_start_and_none_before() -> None:
    workers = errands(3)
    try:
        assert workers.command("say who") == 2.0
        for _ in range(3):
            workers.prepare("run")
            released = time.clock_gettime(time.CLOCK_MONOTONIC)
            workers.go()
            done = time.clock_gettime(time.CLOCK_MONOTONIC)
            results = workers.results()
            assert len({result["pid"] for result in results}) == 3
            assert all(released <= result["ran_at"] <= done for result in results)
        assert workers.end() > 3 * 2**20
    finally:
        workers.kill()
    assert not any(alive(int(result["pid"])) for result in results)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("fail 1", "worker 1 of 2: OSError: told to fail 1"),
        ("task not ready 0", "worker 0 of 2: ValueError: cannot be prepared"),
        ("task fail 1", "worker 1 of 2: ArithmeticError: in the middle"),
        ("task no result 1", "worker 1 of 2: OSError: nothing to report"),
        ("task die 0", "worker 0 of 2 was ended by signal 9 before its work was done"),
    ],
)
def test_a_failure_is_one_line_that_names_the_worker(step: str, said: str) -> None:
    workers = errands(2)
    try:
        with pytest.raises(ChildProcessError) as error:
            if step.startswith("task "):
                workers.prepare(step.removeprefix("task "))
                workers.go()
                workers.results()
            else:
                workers.command(step)
        assert str(error.value) == said
    finally:
        workers.kill()


def test_a_worker_that_dies_between_orders_is_named() -> None:
    workers = errands(2)
    try:
        workers.prepare("run")
        workers.go()
        os.kill(int(workers.results()[1]["pid"]), signal.SIGKILL)
        with pytest.raises(ChildProcessError, match="worker 1 of 2 was ended by signal 9"):
            for _ in range(1000):
                workers.command("say who")
    finally:
        workers.kill()


PARENT = """
from errands import errands
if __name__ == "__main__":
    workers = errands(2)
    workers.prepare("run")
    workers.go()
    print(*[int(result["pid"]) for result in workers.results()], flush=True)
    workers.prepare("never end")
    workers.go()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_busy_workers_end_with_a_killed_parent(tmp_path: Path, number: signal.Signals) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    path = os.pathsep.join(map(str, [Path(hyperslab.__file__).parents[1], Path(__file__).parents[1]]))
    parent = subprocess.Popen(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert [parent.stdout.readline() for _ in range(2)] == ["busy\n"] * 2
        assert len(pids) == 2 and all(map(alive, pids))
        parent.send_signal(number)
        parent.wait(SECONDS)
        assert wait_until(lambda: not any(map(alive, pids)))
    finally:
        parent.kill()
        parent.communicate()
