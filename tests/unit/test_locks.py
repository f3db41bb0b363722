"""Locks: who has to wait says so, once, and goes on when the other has gone."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from hyperslab.measuring.locks import exclusive, one_of


def test_who_waits_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / ".lock"
    order: list[str] = []

    def second() -> None:
        with exclusive(place, passing=True, waiting="waits for another"):
            order.append("second")

    with exclusive(place, passing=True, waiting="unheard") as lock:
        assert lock.held
        other = threading.Thread(target=second)
        other.start()
        other.join(0.5)
        assert other.is_alive()
        order.append("first")
    other.join(10)
    assert order == ["first", "second"]
    assert capsys.readouterr().out == "waits for another\n"
    assert not place.exists()


def test_any_user_may_lock_what_another_has_made(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with exclusive(tmp_path / "one") as lock, one_of(tmp_path / "several", 2) as held:
            assert lock.held and held
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"one": 0o666, "several.0": 0o666, "several.1": 0o666}
