"""How near the fill daily-grid is to a measured field: what compressors make of both, chunk by chunk.

python workflow/scripts/compare_fields.py FILE::DATASET, a field (time, latitude, longitude) of floats.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.data.daily_grid import LEAST, MISSING, DailyGrid
from hyperslab.data.donor_paths import NotThere, located
from hyperslab.formats.donor_opening import DonorError, open_donor

# Of both, maps so many days apart: the donor's steps are months.
STEP = 30
LEVELS = (1, 4, 9)
# Points along both axes of what lies in a chunk of series.
SIDE = 10
# Beyond this no field has values: it is what stands where there are none.
LARGEST = 1e30


def ratio(values: npt.NDArray[Any], level: int, shuffled: bool) -> float:
    """Return how many times smaller gzip makes an array, its bytes sorted by significance if `shuffled`."""
    block = np.ascontiguousarray(values)
    parts = block.view(np.uint8).reshape(-1, block.itemsize)
    content = parts.T.tobytes() if shuffled else block.tobytes()
    return block.nbytes / len(zlib.compress(content, level))


def chunks(field: npt.NDArray[Any], missing: npt.NDArray[np.bool_]) -> dict[str, npt.NDArray[Any]]:
    """Return what lies in a chunk of each kind: maps of the middle, and series where most values are."""
    time, (rows, columns) = field.shape[0] // 2, field.shape[1:]
    held = missing | (field == field[~missing].min())
    windows = itertools.product(range(0, rows - SIDE, SIDE), range(0, columns - SIDE, SIDE))
    row, column = min(windows, key=lambda at: held[:, at[0] : at[0] + SIDE, at[1] : at[1] + SIDE].sum())
    return {
        "a map": field[time],
        "8 maps": field[time : time + 8],
        f"all times of {SIDE} x {SIDE} points": field[:, row : row + SIDE, column : column + SIDE],
    }


def described(field: npt.NDArray[Any], missing: npt.NDArray[np.bool_]) -> dict[str, float]:
    """Return the ratios of each kind of chunk, the share of what has no value, and that of the least."""
    found = {
        "share without values": float(missing.mean()),
        "share of the rest at its least": least_share(field[~missing]),
    }
    for name, chunk in chunks(field, missing).items():
        for shuffled in (False, True):
            for level in LEVELS:
                words = f"{'shuffle, ' if shuffled else ''}gzip {level}"
                found[f"{name}, {words}"] = ratio(chunk, level, shuffled)
    return found


def least_share(values: npt.NDArray[Any]) -> float:
    """Return the share of values that are the least one."""
    return float(np.mean(values == values.min()))


def synthetic(shape: Sequence[int], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return a field of the fill with the donor's extents, whose maps are months apart."""
    grid = DailyGrid([shape[0] * STEP, *shape[1:]], dtype)
    return np.concatenate([grid.block((day * STEP, 0, 0), (1, *shape[1:])) for day in range(shape[0])])


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("donor", help="FILE::DATASET")
    options = parser.parse_args()
    try:
        path, dataset = located({"path": options.donor})
        with open_donor(path, dataset) as array:
            measured = np.asarray(array[tuple(slice(0, extent) for extent in array.shape)])
    except (DonorError, NotThere) as error:
        sys.exit(f"compare_fields: {error}")
    if measured.ndim != 3 or measured.dtype.kind != "f":
        sys.exit(f"compare_fields: {path}: needs a field of three axes of floats, not {measured.shape}")
    made = synthetic(measured.shape, measured.dtype)
    missing = ~np.isfinite(measured) | (np.abs(measured) > LARGEST) | (measured == np.float32(MISSING))
    both = described(measured, missing), described(made, made == MISSING)
    print(f"{'':44s} measured  daily-grid  (its least value is {LEAST})")
    for name, value in both[0].items():
        print(f"{name:44s} {value:8.2f}  {both[1][name]:10.2f}")


if __name__ == "__main__":
    main()
