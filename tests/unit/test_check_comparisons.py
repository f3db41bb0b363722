"""Equals are seldom told apart, a planted delay is found, and two runs agree on the order of layouts."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

import check_comparisons
from check_comparisons import delayed, gates, rank_correlation, told_apart
from hyperslab.results import statistics
from hyperslab.results.comparisons import Contrasts, of_rounds

NAMES = [f"{m}x{m}x{n}" for m in (1, 2, 4) for n in (128, 512)]


def measured(seed: int, sd: float = 0.02, rounds: int = 10) -> pd.DataFrame:
    """Six layouts and their twins, rounds of three repeats; a round's log median deviates by `sd`."""
    layouts = [layout for name in NAMES for layout in (name, f"{name}-twin")]
    luck = np.exp(np.random.default_rng(seed).normal(0, sd, (len(layouts), rounds, 1)))
    times = np.repeat(1 + np.arange(len(NAMES)), 2)[:, None, None] * luck * (1 + np.arange(3) / 100)
    places = pd.MultiIndex.from_product(
        [layouts, range(rounds), range(3)], names=["layout", "round", "repeat"]
    )
    table = pd.DataFrame({"time_s": times.ravel()}, index=places).reset_index()
    return table.assign(site="disk", case="slices", kind="read", state="cold", phase="main")


def test_equals_are_seldom_told_apart_and_a_delay_is_found() -> None:
    # A case is a family of its own.
    runs = pd.concat([measured(seed).assign(case=f"case {seed}") for seed in range(20)], ignore_index=True)
    same, planted = told_apart(runs), told_apart(delayed(runs, 0.15))
    assert len(same) == 20 * len(NAMES)
    assert same["different"].sum() <= 6
    assert planted["slower"].mean() >= 0.8
    assert not told_apart(delayed(measured(0), -0.15))["slower"].any()


def test_rank_correlation_sees_another_order() -> None:
    one, other = measured(1), measured(2)
    assert (rank_correlation(one, other)["spearman"] > 0.95).all()
    turned = other.assign(time_s=1 / other["time_s"])
    assert (rank_correlation(one, turned)["spearman"] < -0.9).all()


def study(sd: float, unlike: float = 0.0) -> pd.DataFrame:
    """Twelve families of twins; with `unlike` some twins are no equals at all."""
    parts = [measured(seed, sd).assign(case=f"case {seed}") for seed in range(12)]
    return delayed(pd.concat(parts, ignore_index=True), unlike)


def test_gates_hold_for_equals_and_fail_for_what_they_are_there_for() -> None:
    good = study(0.02)
    held = gates(told_apart(good), told_apart(delayed(good, 0.15))).set_index("gate")
    assert held["holds"].all(), held
    assert held["of"].tolist() == [72, 24, 36, 12, 72]
    # Twins that differ by 3 % are told apart too often.
    unlike = study(0.02, 0.03)
    failed = gates(told_apart(unlike), told_apart(delayed(unlike, 0.15))).set_index("gate")["holds"]
    assert not failed["p under 0.05, all pairs"]
    assert not failed["families with equals called different"]
    # Where rounds differ by a fifth nobody finds 15 % in ten of them.
    noisy = study(0.2)
    missed = gates(told_apart(noisy), told_apart(delayed(noisy, 0.15))).set_index("gate")["holds"]
    assert missed.drop("planted delay found").all()
    assert not missed["planted delay found"]


def test_rounds_in_sets_are_enough_families_to_find_a_test_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine sets of three of 28 rounds; one variance pooled over unequal pairs is wrong far too often."""
    rng = np.random.default_rng(4)
    parts = []
    for number in range(6):
        run = measured(number, sd=0.0, rounds=28).assign(case=f"case {number}")
        luck = {name: float(np.exp(rng.normal(-4, 1.5))) for name in sorted(set(run["layout"]))}
        cells = run[["layout", "round"]].drop_duplicates()
        cells = cells.assign(factor=np.exp(rng.normal(size=len(cells)) * cells["layout"].map(luck)))
        run = run.merge(cells, on=["layout", "round"])
        parts.append(run.assign(time_s=run["time_s"] * run.pop("factor")))
    study = pd.concat(parts, ignore_index=True)
    same = told_apart(study, split=3)
    assert (len(same), set(same["rounds"]), sorted(set(same["set"]))) == (6 * 6 * 9, {3}, list(range(9)))
    held = gates(same, None).set_index("gate")
    assert held.loc["families with equals called different", ["of", "most"]].tolist() == [54, 7]
    assert held["holds"].all(), held
    assert "planted delay found" not in held.index

    def pooled(differences: np.ndarray) -> Contrasts:
        own = of_rounds(differences)
        freedom = np.full(len(own.value), float((own.rounds - 1).sum()))
        error = np.sqrt((own.deviation**2).mean() / own.rounds)
        return Contrasts(own.value, own.deviation, own.rounds, error, freedom)

    monkeypatch.setattr(statistics, "of_rounds", pooled)
    failed = gates(told_apart(study, split=3), None).set_index("gate")["holds"]
    assert not failed["families with equals called different"]


def test_gates_hold_where_rounds_end_when_pairs_are_told_apart() -> None:
    good = study(0.02)
    planted = told_apart(delayed(good, 0.15), first=3)
    held = gates(told_apart(good, first=3), planted, stopped=True).set_index("gate")
    assert held["holds"].all(), held
    # A delay of seven deviations needs no ten rounds.
    assert planted["rounds"].mean() < 6
    unlike = study(0.02, 0.03)
    failed = gates(told_apart(unlike, first=3), planted, stopped=True).set_index("gate")["holds"]
    assert not failed["p under 0.05, all pairs"]
    assert not failed["families with equals called different"]


def test_more_rounds_than_there_are_cannot_come_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check_comparisons, "measurements", lambda _: measured(1, rounds=5))
    monkeypatch.setattr(sys, "argv", ["check_comparisons.py", "--pack", "some.tar.xz", "--first", "50"])
    with pytest.raises(SystemExit) as refused:
        check_comparisons.main()
    assert refused.value.code == 2 and "--first: at least 3 rounds" in capsys.readouterr().err
