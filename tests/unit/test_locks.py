"""Locks: who has to wait says so, once, and goes on when the other has gone."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from hyperslab.measuring.locks import exclusive


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
