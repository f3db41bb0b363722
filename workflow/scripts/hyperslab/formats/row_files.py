"""Files of ragged rows, whatever their format: how rows are read run by run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hyperslab.data.rows import Lengths, RowBlock, end_to_end

if TYPE_CHECKING:
    from hyperslab.formats.row_seam import Numbers

# Of each run that was read: where its rows begin and the last one ends, and their values.
Runs = tuple[Sequence[Lengths], Sequence[npt.NDArray[Any]]]


def runs_of(numbers: Numbers) -> list[tuple[int, int]]:
    """Return first and stop of what is read at once: a run, or each of some rows by itself."""
    if isinstance(numbers, range):
        return [(numbers.start, numbers.stop)]
    return [(number, number + 1) for number in numbers]


def block_of(found: Runs, dtype: np.dtype[Any]) -> RowBlock:
    """Return runs that were read as one block of rows, which no stopwatch measures."""
    bounds, values = found
    lengths = end_to_end([np.diff(one) for one in bounds], np.dtype(np.int64))
    return RowBlock(lengths, end_to_end(values, dtype))
