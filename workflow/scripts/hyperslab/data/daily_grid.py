"""Daily grids like those of climate records: a smooth field a day, sea ice, and no values over land."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.data.mixing import MixedIndices

# What stands where there is no value, and the least value: that of sea ice.
MISSING, LEAST = -999.0, -1.8
# A unit of the whole numbers of which values are made, in degrees.
UNIT = 1e-5
DAYS_A_YEAR = 365.25
# Factors of waves have as many steps; a product of two of them, and a sum of a few such, is exact in 24 bits.
STEPS = 1024
# (waves around the globe, half waves from pole to pole, days of one turn, amplitude in steps)
WAVES = ((1, 3, 91, 120), (2, 5, 37, 160), (3, 2, 53, 110), (5, 7, 23, 90), (9, 11, 17, 60), (16, 18, 11, 40))
# The same without days, of the land; its sum is above LAND_LEVEL on about a third of the globe.
LAND = (
    (1, 1, 0, 420),
    (2, 3, 1, 330),
    (3, 4, 2, 300),
    (5, 6, 1, 230),
    (9, 8, 3, 170),
    (17, 13, 2, 120),
    (33, 29, 5, 60),
)
LAND_LEVEL = 178_000
# Bits that are taken from noise of 16 bits: what is left, in units, is as rough as a measured field.
NOISE_SHIFT = 2

Table = npt.NDArray[np.int64]


@lru_cache(maxsize=512)
def _wave(function: Callable[[float], float], turns: float, first: int, count: int, length: int) -> Table:
    """Return a wave of so many turns over an axis of `length`, at `count` indices from `first`, in steps.

    Each index by itself and rounded, so that a part of the axis has what all of it has. Kept, because days
    are made one by one.
    """
    by = 2 * math.pi * turns / length
    found = np.array([round(STEPS * function(by * at)) for at in range(first, first + count)], np.int64)
    found.flags.writeable = False
    return found


@lru_cache(maxsize=2)
def _land(south: int, rows: int, west: int, columns: int, height: int, width: int) -> npt.NDArray[np.bool_]:
    """Return where there is land in a part of a grid of `height` x `width`, which is the same every day."""
    above = np.zeros((rows, columns), np.float32)
    for number, (turns, halves, shift, amplitude) in enumerate(LAND):
        function = math.cos if number % 2 else math.sin
        along = _wave(math.sin, halves / 2, south + shift * height // 7, rows, height) * amplitude // STEPS
        around = _wave(function, turns, west, columns, width)
        above += np.multiply.outer(along.astype(np.float32), around.astype(np.float32))
    return above > LAND_LEVEL


class DailyGrid:
    """A field on a grid (day, latitude, longitude), in degrees, warm at the equator, with seasons, weather.

    Waves that travel around the globe, seasons, a third without values (`MISSING`, the same every day), ice
    where it would be colder than `LEAST`, and noise of a few hundredths of a degree in every element. How
    near to a measured field this is for compressors, workflow/scripts/compare_fields.py says. Values are
    sums of whole numbers below 2^24, which float32 holds in whatever order a library adds them: a box made
    alone is that part of the whole, bit by bit. Over land and ice all days are alike: there nothing tells
    one day from another.
    """

    def __init__(self, shape: Sequence[int], dtype: str | np.dtype[Any]) -> None:
        if len(shape) != 3:
            raise ValueError("a daily grid has three axes: day, latitude, longitude")
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        self._noise = MixedIndices(shape, "uint16")

    def block(self, origin: Sequence[int], extent: Sequence[int]) -> npt.NDArray[Any]:
        """Return the values of the box; same shape as `extent`."""
        (day, south, west), (days, rows, columns) = origin, extent
        around = self._around(west, columns)
        field = self._of_rows(day, days, south, rows) @ around
        field = field.reshape(days, rows, columns)
        noise = self._noise.block(origin, extent)
        noise >>= NOISE_SHIFT
        field += noise
        np.maximum(field, 0, out=field)
        field *= np.float32(UNIT)
        field += np.float32(LEAST)
        out = field.astype(self.dtype, copy=False)
        np.copyto(out, self.dtype.type(MISSING), where=_land(south, rows, west, columns, *self.shape[1:]))
        return out

    def _around(self, west: int, columns: int) -> npt.NDArray[np.float32]:
        """Return what the waves are along a circle of latitude: a row for each one's two parts, then ones."""
        length = self.shape[2]
        parts = [
            _wave(function, turns, west, columns, length)
            for turns, *_ in WAVES
            for function in (math.cos, math.sin)
        ]
        return np.array([*parts, np.ones(columns, np.int64)], np.float32)

    def _of_rows(self, day: int, days: int, south: int, rows: int) -> npt.NDArray[np.float32]:
        """Return by how much each part counts on each day at each latitude; both in one axis."""
        length, found = self.shape[1], []
        for _, halves, turn, amplitude in WAVES:
            along = _wave(math.sin, halves / 2, south, rows, length) * amplitude // STEPS
            for function in (math.cos, math.sin):
                found.append(np.multiply.outer(_wave(function, 1, day, days, turn), along) // STEPS)
        found.append(self._zonal(day, days, south, rows))
        return np.stack(found, axis=-1).reshape(days * rows, -1).astype(np.float32)

    def _zonal(self, day: int, days: int, south: int, rows: int) -> Table:
        """Return the mean field at each latitude on each day, in units: warm at the equator, with seasons."""
        profile = _wave(math.sin, 0.5, south, rows, self.shape[1]) * 3600 - 800 * STEPS
        seasons = np.array(
            [round(STEPS * math.cos(2 * math.pi * at / DAYS_A_YEAR)) for at in range(day, day + days)],
            np.int64,
        )
        tilt = _wave(math.cos, 0.5, south, rows, self.shape[1])
        found: Table = profile - np.multiply.outer(seasons, tilt) * 400 // STEPS
        return found
