"""Measured times steadied by what was predicted of the very selections that were measured.

A few rounds know the ratio of two layouts to a tenth or worse, and the best of many is then often the
luckiest. A prediction knows nothing of luck. So for each case the log of measured over predicted seconds is
formed in each round, of the same boxes, and less its mean over the layouts: what is left is by how much the
prediction is wrong for a layout, and noise. What a layout has of it on average is believed as far as it
stands out from the noise,

    w = tau^2 / (tau^2 + s^2 / R),

with s the deviation of these logs between rounds, pooled over all layouts and cases, R the layout's rounds,
and tau how wrong predictions are (empirical Bayes: James and Stein 1961, with the variance of the prior from
other data). Then a layout is as fast as the prediction says, times w of what was found.

Numbers go in and come out; nothing here knows what was measured, or how it was predicted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hyperslab.results.adjusted import effects

Floats = NDArray[np.float64]

# Between predictions and what was measured, as deviation of logs: the median of eight packs
# (replay_advice.py).
TAU = 0.13
# The deviation of logs between rounds, where one round alone says nothing of it.
NOISE = 0.15


def steadied(measured: Floats, predicted: Floats, tau: float = TAU) -> Floats:
    """Return the logs of seconds of each layout in each case, steadied: cases x layouts.

    Both arguments are logs of seconds, cases x layouts x rounds, `measured` with NaN where a layout lacks a
    round. `tau` is the deviation of the logs by which predictions are wrong.
    """
    wrong, noise = _errors(measured - predicted)
    weight = tau**2 / (tau**2 + noise / np.isfinite(measured).sum(axis=2))
    centre = wrong.mean(axis=1, keepdims=True)
    usual = np.log(np.exp(predicted).mean(axis=2))
    steady: Floats = usual + centre + weight * (wrong - centre)
    return steady


def deviation(measured: Floats, predicted: Floats) -> float:
    """Return how wrong predictions are, tau, by what was measured: the deviation over the layouts of what is
    left of the logs beside the mean of each case, less what the noise between rounds makes of it.

    Arguments are as for `steadied`; 0 where the noise explains all.
    """
    wrong, noise = _errors(measured - predicted)
    own = noise / np.isfinite(measured).sum(axis=2).mean()
    return float(np.sqrt(max(0.0, wrong.var(axis=1, ddof=1).mean() - own)))


def _errors(logs: Floats) -> tuple[Floats, float]:
    """Return the mean log error of each layout in each case (cases x layouts), and the variance between
    rounds that is left beside what all layouts of a case share in a round.
    """
    found, squares, freedom = [], 0.0, 0
    for each in logs:
        layouts, rounds = effects(each)
        left = each - layouts[:, None] - rounds
        squares += float(np.nansum(left**2))
        here = np.isfinite(left)
        freedom += int(here.sum() - len(layouts) - here.any(axis=0).sum() + 1)
        found.append(layouts)
    return np.array(found), squares / freedom if freedom > 0 else NOISE**2
