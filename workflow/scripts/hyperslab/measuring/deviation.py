"""How far values read of a lossy layout are from the truth, and whether its filter kept its promise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

# A filter computes in the type of the elements: a value passes through this many roundings at most.
ROUNDINGS = 4


@dataclass
class Deviation:
    """Sums over every element compared so far.

    `largest` is the largest absolute error, infinite where a number became none; `magnitude` the largest
    absolute value of either side, `spacing` the distance of neighbouring numbers there (0 for integers).
    """

    elements: int = 0
    changed: int = 0
    largest: float = 0.0
    squares: float = 0.0
    magnitude: float = 0.0
    spacing: float = 0.0
    # The type in which values are stored, and rounded, where they are read as another.
    stored: np.dtype[Any] | None = None

    def add(self, found: npt.NDArray[Any], truth: npt.NDArray[Any]) -> None:
        """Compare an array with the truth; raises ValueError where type or extent differ."""
        if found.dtype != truth.dtype or found.shape != truth.shape:
            raise ValueError(f"{found.dtype} {found.shape} instead of {truth.dtype} {truth.shape}")
        if not found.size:
            return
        error = _absolute_difference(found, truth)
        self.elements += found.size
        self.changed += int(np.count_nonzero(error))
        self.largest = max(self.largest, float(error.max()))
        self.squares += float(np.square(error, dtype=np.float64).sum())
        if truth.dtype.kind == "f":
            self._note_magnitude(found, truth)

    def _note_magnitude(self, found: npt.NDArray[Any], truth: npt.NDArray[Any]) -> None:
        for side in (found, truth):
            finite = np.abs(side[np.isfinite(side)])
            self.magnitude = max(self.magnitude, float(finite.max(initial=0)))
        rounded = self.stored if self.stored is not None and self.stored.kind == "f" else truth.dtype
        self.spacing = float(np.spacing(rounded.type(self.magnitude)))

    def exceeds(self, bound: float | None) -> bool:
        """Return whether the error is beyond `bound` and what rounding explains; never without a bound."""
        return bound is not None and self.largest > bound + ROUNDINGS * self.spacing

    def columns(self) -> dict[str, float]:
        """Return the largest and root-mean-square absolute error in the array's unit,
        and share of changed elements.
        """
        count = max(1, self.elements)
        return {
            "error_max": self.largest,
            "error_rms": math.sqrt(self.squares / count),
            "changed_share": self.changed / count,
        }


def _absolute_difference(found: npt.NDArray[Any], truth: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return |found - truth|: 0 where both are equal or no number, infinite where only one is a number."""
    if truth.dtype.kind != "f":
        # Exact for integers of any size: the larger minus the smaller fits the unsigned type.
        unsigned = np.dtype(f"u{truth.dtype.itemsize}")
        larger, smaller = np.maximum(found, truth), np.minimum(found, truth)
        difference: npt.NDArray[Any] = larger.astype(unsigned) - smaller.astype(unsigned)
        return difference
    same = (found == truth) | (np.isnan(found) & np.isnan(truth))
    with np.errstate(invalid="ignore", over="ignore"):
        error: npt.NDArray[Any] = np.abs(found.astype(np.float64) - truth.astype(np.float64))
    error[same] = 0.0
    error[np.isnan(error)] = math.inf
    return error
