"""Measurements of studies with a known truth, for the tests of statistics."""

from __future__ import annotations

import numpy as np
import pandas as pd

LAYOUTS = 42
ROUNDS = 3


def study(
    log_medians: np.ndarray, repeats: int = 15, repeat_sd: float = 0.1, seed: int = 0, **columns: object
) -> pd.DataFrame:
    """Measurements with one row a repeat from layouts x rounds of log medians (NaN: cell not measured)."""
    rng = np.random.default_rng(seed)
    layouts, rounds = log_medians.shape
    scatter = rng.normal(0, repeat_sd, (layouts, rounds, repeats))
    scatter -= np.median(scatter, axis=2, keepdims=True)
    frame = pd.DataFrame(
        {
            "layout": np.repeat([f"l{index:03}" for index in range(layouts)], rounds * repeats),
            "round": np.tile(np.repeat(np.arange(rounds), repeats), layouts),
            "repeat": np.tile(np.arange(repeats), layouts * rounds),
            "time_s": np.exp(log_medians[:, :, None] + scatter).ravel(),
        }
    )
    keys = {"site": "disk", "case": "slices", "kind": "read", "phase": "main", "state": "cold"}
    return frame.assign(**{**keys, **columns}).dropna(subset="time_s")


def noise(
    rng: np.random.Generator, sd: float = 0.03, round_sd: float = 0.05, rounds: int = ROUNDS
) -> np.ndarray:
    """Layouts x rounds of error: what moves a whole round, and what moves one cell of it.

    Layouts differ in how much they vary, by a factor of about two either way, as those of real studies do.
    """
    own = sd * np.exp(rng.normal(0, 0.35, (LAYOUTS, 1)))
    return own * rng.normal(0, 1, (LAYOUTS, rounds)) + rng.normal(0, round_sd, rounds)


PLAIN = ("disk", "slices", "cold", "main")
