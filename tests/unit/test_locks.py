"""Locks: who has to wait says so, once, and goes on when the other has gone."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hyperslab.measuring.locks import VARIABLE, HeldElsewhere, alone, exclusive, one_of
from hyperslab.sites import roots


def begun(work: Callable[[], None]) -> threading.Thread:
    """A thread that works, after it could have ended unless something holds it up."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(0.5)
    return thread


def test_who_waits_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / ".lock"
    order: list[str] = []

    def second() -> None:
        with exclusive(place, passing=True, waiting="waits for another"):
            order.append("second")

    with exclusive(place, passing=True, waiting="unheard") as lock:
        assert lock.held
        other = begun(second)
        assert other.is_alive()
        order.append("first")
    other.join(10)
    assert order == ["first", "second"]
    assert capsys.readouterr().out == "waits for another\n"
    assert not place.exists()


def test_who_does_not_wait_is_told(tmp_path: Path) -> None:
    place = tmp_path / ".lock"
    with exclusive(place, passing=True):
        with pytest.raises(HeldElsewhere), exclusive(place, passing=True, wait=False):
            pass
        assert place.exists()
    with exclusive(place, passing=True, wait=False) as lock:
        assert lock.held
    assert not place.exists()


def test_any_user_may_lock_what_another_has_made(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with exclusive(tmp_path / "one") as lock, one_of(tmp_path / "several", 2) as held:
            assert lock.held and held
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == dict.fromkeys(("one", "several", "several.0", "several.1"), 0o666)


def test_several_holders_and_one_who_is_alone_take_turns(tmp_path: Path) -> None:
    place = tmp_path / ".lock"
    order: list[str] = []

    def alone() -> None:
        with one_of(place, 1) as held:
            assert held
            order.append("alone")

    with one_of(place, 2) as first, one_of(place, 2) as second:
        assert first and second
        other = begun(alone)
        assert other.is_alive()
        order.append("both")
    other.join(10)
    assert order == ["both", "alone"]


def test_a_run_without_slurm_takes_turns_with_jobs_on_its_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs on two nodes of Slurm do not wait for each other, also where both are on one machine."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    for name in ("SLURM_CLUSTER_NAME", "SLURMD_NODENAME"):
        monkeypatch.delenv(name, raising=False)
    places = [str(tmp_path / name) for name in "abc"]
    for place in places:
        roots.prepare(place, roots.Root())
    order: list[str] = []

    def job(node: str, place: str) -> threading.Thread:
        monkeypatch.setenv("SLURMD_NODENAME", node)
        return begun(lambda: measured(node, place))

    def measured(node: str, place: str) -> None:
        with alone(place) as held:
            assert held == {"node": True, "root": True}
            order.append(node)

    with alone(places[0]):
        waiting = job("n1", places[1])
        assert waiting.is_alive()
    waiting.join(10)
    with alone(places[1]):
        job("n2", places[2]).join(10)
        assert order == ["n1", "n2"]
