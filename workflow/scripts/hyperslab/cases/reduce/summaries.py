"""Summaries of planes: least and greatest value, mean and standard deviation, without what has no value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from hyperslab.cases.reduce.moments import STEP_ELEMENTS, Floats, Moments


@dataclass(frozen=True)
class Summaries(Moments):
    """Moments, and the least and greatest value of each plane; `missing` stands where there is no value.

    A plane without any value has infinite extremes, a mean of 0 and no deviation (NaN).
    """

    least: Floats
    greatest: Floats
    missing: float | None

    ROWS: ClassVar[int] = 5

    @classmethod
    def nothing(cls, planes: int, missing: float | None) -> Summaries:
        """Return the summaries of nothing yet."""
        count, mean, m2, least, greatest = np.zeros((cls.ROWS, planes))
        found = cls(count, mean, m2, least, greatest, missing)
        found.clear()
        return found

    def of(self, table: Sequence[Floats]) -> Self:
        """Return what lives in a table of `ROWS` arrays over planes, with the same `missing`."""
        count, mean, m2, least, greatest = table
        return replace(self, count=count, mean=mean, m2=m2, least=least, greatest=greatest)

    @property
    def table(self) -> list[Floats]:
        """The arrays, in the order of a table."""
        return [self.count, self.mean, self.m2, self.least, self.greatest]

    @property
    def deviation(self) -> Floats:
        """Standard deviation (numpy.std) of each plane."""
        found: Floats = np.sqrt(self.variance)
        return found

    def clear(self) -> None:
        """Make these the summaries of nothing."""
        super().clear()
        self.least[:] = np.inf
        self.greatest[:] = -np.inf

    def _valid(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the elements that are values, one after the other."""
        if self.missing is None:
            return values
        there = values != values.dtype.type(self.missing)
        return values if there.all() else values.compress(there)

    def add(self, block: npt.NDArray[Any], axis: int) -> None:
        """Add the values of a block whose planes lie along `axis`, plane by plane.

        In pieces that stay in the processor's cache, so that the block itself is gone through once.
        """
        planes = np.moveaxis(block, axis, 0)
        for number, plane in enumerate(planes):
            flat = plane.reshape(-1)
            for first in range(0, len(flat), STEP_ELEMENTS):
                self._add_piece(number, self._valid(flat[first : first + STEP_ELEMENTS]))

    def _add_piece(self, number: int, values: npt.NDArray[Any]) -> None:
        """Add values of one plane; two passes for mean and deviation (stable), merged as moments are."""
        if not len(values):
            return
        # As numpy has it: where one value is NaN, so are they.
        self.least[number] = np.minimum(self.least[number], values.min())
        self.greatest[number] = np.maximum(self.greatest[number], values.max())
        wide = values.astype(np.float64)
        mean = wide.sum() / len(wide)
        wide -= mean
        before = self.count[number]
        total = before + len(wide)
        apart = mean - self.mean[number]
        self.m2[number] += np.einsum("i,i->", wide, wide) + apart * apart * before * len(wide) / total
        self.mean[number] += apart * len(wide) / total
        self.count[number] = total

    def merge(self, other: Moments) -> None:
        """Add `other`, in place."""
        assert isinstance(other, Summaries)
        super().merge(other)
        np.minimum(self.least, other.least, out=self.least)
        np.maximum(self.greatest, other.greatest, out=self.greatest)

    def exact(self, block: npt.NDArray[Any], axis: int) -> None:
        """Make these the truth of a block, plane by plane along `axis`: what numpy says of the values."""
        self.clear()
        for number, plane in enumerate(np.moveaxis(block, axis, 0)):
            values = self._valid(plane.reshape(-1))
            if not len(values):
                continue
            wide = values.astype(np.float64)
            self.count[number], self.mean[number] = len(wide), np.mean(wide)
            self.m2[number] = np.var(wide) * len(wide)
            self.least[number], self.greatest[number] = np.min(values), np.max(values)

    def differing(self, truth: Self) -> npt.NDArray[np.intp]:
        """Return the planes that are not the truth: extremes exactly, all else within rounding."""
        pairs = ((self.least, truth.least), (self.greatest, truth.greatest))
        wrong = [(found != right) & ~(np.isnan(found) & np.isnan(right)) for found, right in pairs]
        return np.union1d(super().differing(truth), np.flatnonzero(np.logical_or(*wrong)))
