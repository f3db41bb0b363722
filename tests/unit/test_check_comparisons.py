"""Equals are seldom told apart, a planted delay is found, and two runs agree on the order of layouts."""

from __future__ import annotations

import numpy as np
import pandas as pd

from check_comparisons import delayed, rank_correlation, told_apart

NAMES = [f"{m}x{m}x{n}" for m in (1, 2, 4) for n in (128, 512)]


def measured(seed: int, sd: float = 0.02) -> pd.DataFrame:
    """Six layouts and their twins, three rounds of five repeats; a round's log median deviates by `sd`."""
    random = np.random.default_rng(seed)
    rows = []
    for position, name in enumerate(NAMES):
        for layout in (name, f"{name}-twin"):
            for round_ in range(3):
                luck = float(np.exp(random.normal(0, sd)))
                rows += [
                    {"site": "disk", "case": "slices", "kind": "read", "state": "cold", "phase": "main",
                     "layout": layout, "round": round_, "repeat": repeat,
                     "time_s": (1 + position) * luck * (1 + repeat / 100)}
                    for repeat in range(5)
                ]  # fmt: skip
    return pd.DataFrame(rows)


def test_equals_are_seldom_told_apart_and_a_delay_is_found() -> None:
    runs = [measured(seed) for seed in range(20)]
    same = pd.concat([told_apart(run) for run in runs])
    planted = pd.concat([told_apart(delayed(run, 0.15)) for run in runs])
    assert len(same) == 20 * len(NAMES)
    assert same["different"].sum() <= 6
    assert planted["slower"].mean() >= 0.8
    assert not told_apart(delayed(measured(0), -0.15))["slower"].any()


def test_rank_correlation_sees_another_order() -> None:
    one, other = measured(1), measured(2)
    assert (rank_correlation(one, other)["spearman"] > 0.95).all()
    turned = other.assign(time_s=1 / other["time_s"])
    assert (rank_correlation(one, turned)["spearman"] < -0.9).all()
