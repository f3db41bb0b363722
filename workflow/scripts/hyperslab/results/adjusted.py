"""Means over rounds of layouts that do not all have the same rounds, as where rounds were added for some."""

from __future__ import annotations

import numpy as np
import pandas as pd


def adjusted_means(logs: pd.DataFrame) -> pd.Series:
    """Return the mean of each row (a layout) over rounds (the columns): over all of them, had it all.

    A layout whose further rounds fell into a slow hour would look slow beside one that had none. So where
    values are missing (NaN), layout + round is fitted by least squares (Montgomery, Design and Analysis of
    Experiments, chapter 4: incomplete blocks), and the mean is that of an average round. Where none is
    missing it is the plain mean; NaN for a row without any.
    """
    values = logs.to_numpy(dtype=float)
    here = np.isfinite(values)
    if here.all() or not here.any():
        return logs.mean(axis=1)
    row, column = np.nonzero(here)
    rows, columns = values.shape
    design = np.zeros((len(row) + 1, rows + columns))
    design[np.arange(len(row)), row] = 1.0
    design[np.arange(len(row)), rows + column] = 1.0
    # Effects of rounds add up to nothing.
    design[-1, rows + np.unique(column)] = 1.0
    fitted, *_ = np.linalg.lstsq(design, np.append(values[here], 0.0), rcond=None)
    return pd.Series(fitted[:rows], logs.index).where(here.any(axis=1))
