"""A run looks at the queue when it is time, and at once when a batch has ended or nothing is left."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from hyperslab.planning import slurm_patches as looks
from hyperslab.planning.slurm_patches import Looks


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(looks, "SOON_SECONDS", 0.05)


def slept(executor: SimpleNamespace, happens: Callable[[], object] = lambda: None) -> float:
    """Seconds until the executor looks again, where something happens meanwhile."""
    timer = threading.Timer(0.1, happens)
    timer.start()
    began = time.monotonic()
    asyncio.run(executor.sleep())
    timer.join()
    return time.monotonic() - began


@pytest.fixture
def executor(tmp_path: Path) -> SimpleNamespace:
    job = SimpleNamespace(aux={"slurm_logfile": tmp_path / "7.log"})
    active = [SimpleNamespace(aux=None), job]
    made = SimpleNamespace(wait=True, next_seconds_between_status_checks=0.5, active_jobs=active)
    Looks(made, f"{tmp_path}/*.json").begin()
    return made


def test_nothing_new_means_its_own_time(executor: SimpleNamespace) -> None:
    assert slept(executor) >= 0.5


def test_the_end_of_a_batch_brings_the_next_looks_forward(executor: SimpleNamespace, tmp_path: Path) -> None:
    executor.next_seconds_between_status_checks = 60
    assert slept(executor, (tmp_path / "r0of1.json").touch) < 30
    # The job itself may still be in the queue.
    assert slept(executor) < 30


def test_a_marker_of_an_earlier_run_counts_when_it_is_written_again(
    executor: SimpleNamespace, tmp_path: Path
) -> None:
    marker = tmp_path / "r0of1.json"
    marker.touch()
    Looks(executor, f"{tmp_path}/*.json").begin()
    assert slept(executor) >= 0.5
    assert slept(executor, marker.unlink) >= 0.5
    executor.next_seconds_between_status_checks = 60
    assert slept(executor, marker.touch) < 30


def test_what_a_job_prints_brings_the_next_looks_forward(executor: SimpleNamespace, tmp_path: Path) -> None:
    """As Slurm's own last words do, of a job that it ends: such a one leaves no marker."""
    (tmp_path / "8.log").touch()
    assert slept(executor, (tmp_path / "8.log").touch) >= 0.5
    executor.next_seconds_between_status_checks = 60
    assert slept(executor, (tmp_path / "7.log").touch) < 30


def test_a_run_without_jobs_left_does_not_wait(
    executor: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not for the next look at markers, either.
    monkeypatch.setattr(looks, "LOOK_SECONDS", 60)
    executor.next_seconds_between_status_checks = 60
    assert slept(executor, lambda: setattr(executor, "wait", False)) < 30
