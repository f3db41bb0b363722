"""What one parameter of a filter or codec may be, and the types of elements for which it means something."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

SMALL_INTEGERS = frozenset(("uint8", "int8", "uint16", "int16"))
INTEGERS = SMALL_INTEGERS | {"uint32", "int32", "uint64", "int64"}
FLOATS = frozenset(("float32", "float64"))
NUMBERS = INTEGERS | FLOATS


@dataclass(frozen=True)
class Parameter:
    """What one parameter may be: one of `words`, or a number from `low` to `high`.

    `default` is in force where a study gives none; without one the parameter has to be given, unless it is
    one of several modes. `treats` are the types of elements for which it means something.
    """

    low: float = 0
    high: float = math.inf
    words: tuple[str, ...] = ()
    default: int | float | str | None = None
    even: bool = False
    treats: frozenset[str] = NUMBERS

    def mistake(self, value: Any) -> str | None:
        """Return what is allowed instead of `value`; None where it is allowed."""
        if self.words:
            return None if value in self.words else f"should be {' or '.join(map(repr, self.words))}"
        if math.isfinite(value) and self.low <= value <= self.high and not (self.even and value % 2):
            return None
        span = f"{self.low:g} to {self.high:g}" if math.isfinite(self.high) else "finite and above 0"
        return f"should be {'even, ' if self.even else ''}{span}"
