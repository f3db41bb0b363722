"""Simulated studies tell a test that keeps its level from one that does not, in both of its tables."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import simulate_comparisons as command
from hyperslab.results.comparisons import Floats

# Variances that differ by much, and not at all: (degrees of freedom, common variance).
SPREADS = [(2.0, 0.003), (math.inf, 0.003)]
STUDIES = 150
# What chance adds to so many studies (3 deviations).
CHANCE = 3 * math.sqrt(0.05 * 0.95 / STUDIES)


@pytest.mark.parametrize("shared", [False, True])
def test_errors_of_equals_are_those_that_are_allowed_and_pooling_is_found_out(shared: bool) -> None:
    found = command.simulate(SPREADS, 5, shared, STUDIES, 0.3, 3).set_index("test")
    wrong = found["family_wise_error"]
    assert list(found.index) == list(command.TESTS)
    assert max(wrong["hyperslab"], wrong["adaptive"], wrong["paired t"]) <= 0.05 + CHANCE
    assert wrong["pooled"] > 0.05 + CHANCE
    assert found["in_noisiest_fifth"]["pooled"] > 0.1
    assert found["delay_found"]["hyperslab"] > 0.3


@pytest.mark.parametrize("shared", [False, True])
def test_what_is_asked_of_a_direction_keeps_its_level_at_both_ends(shared: bool) -> None:
    found = command.directions([(math.inf, 0.0001)], 8, shared, STUDIES, 3).set_index(["test", "ratio"])
    for test in command.USED:
        assert found.loc[(test, "1"), "holds"] <= 0.05 + CHANCE
        assert found.loc[(test, "1/1.05"), "any_fails"] <= 0.05 + CHANCE
        # Deviations of 1 % are small enough to tell equals from what matters, and what matters from equals.
        assert found.loc[(test, "1"), "fails"] > 0.9
        assert found.loc[(test, "1/1.05"), "holds"] > 0.9


@pytest.mark.parametrize(("used", "gated"), [(command.ours, False), (command.pooled, True)])
def test_p_values_of_noisy_pairs_that_are_too_often_small_end_with_status_1(
    used: Callable[[Floats], Floats],
    gated: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(command.TESTS, "hyperslab", used)
    # No family is ever in error, so that nothing but p values can tell.
    monkeypatch.setattr(command, "holm", np.ones_like)
    monkeypatch.setattr(command, "measurements", lambda file: None)
    monkeypatch.setattr(command, "families", lambda table: SPREADS[:1])
    arguments = ["simulate_comparisons.py", "none.tar.xz", "--rounds", "5", "--studies", "60"]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == int(gated)
    said = [line for line in capsys.readouterr().err.splitlines() if ", allowed " in line]
    assert any("p under 0.05, noisiest fifth: " in line for line in said) == gated
    assert all("p under 0.05" in line for line in said)


def test_fewer_rounds_than_a_test_needs_are_refused_before_a_pack_is_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["simulate_comparisons.py", "none.tar.xz", "--rounds", "5", "2"])
    with pytest.raises(SystemExit):
        command.main()
    assert "--rounds: at least 3" in capsys.readouterr().err


def test_the_command_takes_variances_from_packs(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pack = Path(pytestconfig.rootpath) / "packs" / "knobs-allocation.tar.xz"
    arguments = ["simulate_comparisons.py", str(pack), "--rounds", "3", "5", "--studies", "3"]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit):
        command.main()
    said = capsys.readouterr().out
    assert " families; 3 studies of 20 pairs for each row" in said
    assert said.count("adaptive") == 2 * 2 + 2 * 2 * 2
