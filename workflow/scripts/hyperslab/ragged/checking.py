"""What is to be written as rows: taken where the rows' type holds it exactly, else refused in one line."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from .convention import RaggedError
from .reading import RaggedRows

Row = npt.ArrayLike
# Whole numbers below are all held by floats of 64 bits.
HELD_BY_FLOATS = 2**53


class CheckedRows(RaggedRows):
    """Rows, and the checks of what is added to them."""

    def checked_block(
        self, lengths: npt.ArrayLike, values: npt.ArrayLike
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """Return values in the rows' type, and the elements of each row; raises RaggedError as above."""
        flat, counts = self._checked(values), np.asarray(lengths)
        whole = counts.ndim == 1 and (
            not counts.size or (counts.dtype.kind in "iu" and int(counts.min()) >= 0)
        )
        if not whole:
            raise RaggedError(f"{self._place}: lengths should be a sequence of whole numbers from 0 on")
        # One that alone is too long could make a sum of 64 bits overflow.
        total = int(counts.max(initial=0))
        if total <= len(flat):
            total = int(counts.sum())
        if total != len(flat):
            said = f"lengths add up to {total:,}, and there are {len(flat):,} values"
            raise RaggedError(f"{self._place}: {said}")
        return flat, counts.astype(np.int64, copy=False)

    def _checked(self, row: Row) -> npt.NDArray[Any]:
        """Return one row in the rows' type; raises RaggedError where that would change it."""
        given = row if isinstance(row, np.ndarray) else np.asarray(row)
        if given.ndim != 1:
            raise RaggedError(f"{self._place}: a row has one axis, not {given.ndim}")
        # Asked of few: rows are many, and short.
        if type(row) is not np.ndarray and np.ma.is_masked(row):
            raise RaggedError(
                f"{self._place}: a row has masked elements, for which files have no place; fill them"
            )
        if isinstance(row, (list, tuple)) and _rounded(row, given):
            raise RaggedError(
                f"{self._place}: a row of floats has whole numbers that these do not hold; it does not fit"
            )
        if given.dtype is self.dtype or given.dtype == self.dtype:
            return given
        if given.size == 0:
            return np.empty(0, self.dtype)
        if self.dtype.names is None and given.dtype.kind in "iufcb":
            safe = np.can_cast(given.dtype, self.dtype, "safe")
            # Of 64 bits numpy calls safe what floats do not hold.
            counted = given.dtype.kind in "iu" and self.dtype.kind in "fc"
            if safe and not counted:
                return given.astype(self.dtype)
            # Numbers of Python have no type of their own; those that the rows' type holds are taken.
            known = safe or not isinstance(row, np.ndarray)
            if known and (turned := _exactly(given, self.dtype)) is not None:
                return turned
        raise RaggedError(f"{self._place} holds rows of {self.dtype}, and one of {given.dtype} does not fit")


def _rounded(row: Sequence[Any], given: npt.NDArray[Any]) -> bool:
    """Return whether numpy made other floats of whole numbers, since a row has floats, too."""
    if given.dtype.kind not in "fc" or not (np.abs(given) >= HELD_BY_FLOATS).any():
        return False
    pairs = zip(row, given.tolist(), strict=True)
    return any(isinstance(one, Integral) and int(one) != held for one, held in pairs)


def _exactly(given: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any] | None:
    """Return values in another type; None where one of them would change."""
    with np.errstate(all="ignore"):
        turned = given.astype(dtype)
    if given.dtype.kind in "iu" and dtype.kind in "fc":
        # Compared as whole numbers: as floats both would have lost the same bits.
        held, limits = turned.real.astype(np.promote_types(turned.real.dtype, "f8")), np.iinfo(given.dtype)
        inside = bool(((held >= float(limits.min)) & (held < float(limits.max + 1))).all())
        return turned if inside and np.array_equal(held.astype(given.dtype), given) else None
    same = np.array_equal(turned, given, equal_nan=given.dtype.kind in "fc")
    return turned if same else None
