"""Means over rounds of layouts that do not all have the same rounds, as where rounds were added for some."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def adjusted_means(logs: pd.DataFrame) -> pd.Series:
    """Return the mean of each row (a layout) over rounds (the columns): over all of them, had it all.

    A layout whose further rounds fell into a slow hour would look slow beside one that had none. So where
    values are missing (NaN), layout + round is fitted by least squares (Montgomery, Design and Analysis of
    Experiments, chapter 4: incomplete blocks), and the mean is that of an average round. Where none is
    missing it is the plain mean; NaN for a row without any.
    """
    values = logs.to_numpy(dtype=float)
    if np.isfinite(values).all() or not np.isfinite(values).any():
        return logs.mean(axis=1)
    return pd.Series(effects(values)[0], logs.index)


def effects(values: Floats) -> tuple[Floats, Floats]:
    """Return the mean of each row in an average column, and by how much each column is above that.

    By least squares where values are missing (NaN); NaN for a row or a column without any. Rows that share no
    column with the others, nor by way of further rows, are fitted apart: nothing says how their columns
    compare.
    """
    here = np.isfinite(values)
    if here.all():
        return values.mean(axis=1), values.mean(axis=0) - values.mean()
    row, column = np.nonzero(here)
    rows, columns = values.shape
    blocks = _blocks(here)
    design = np.zeros((len(row) + len(blocks), rows + columns))
    design[np.arange(len(row)), row] = 1.0
    design[np.arange(len(row)), rows + column] = 1.0
    # Effects of the columns of a block add up to nothing.
    design[len(row) :, rows:] = blocks
    fitted, *_ = np.linalg.lstsq(design, np.append(values[here], np.zeros(len(blocks))), rcond=None)
    means = np.where(here.any(axis=1), fitted[:rows], np.nan)
    return means, np.where(here.any(axis=0), fitted[rows:], np.nan)


def _blocks(here: NDArray[np.bool_]) -> Floats:
    """Return blocks x columns: 1 for the columns of a block, which rows tie together, else 0."""
    tied = here.T @ here
    while not ((wider := tied @ tied) == tied).all():
        tied = wider
    return np.unique(tied[here.any(axis=0)].astype(float), axis=0)
