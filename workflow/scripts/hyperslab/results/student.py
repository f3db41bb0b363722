"""Student's t distribution, from the functions beneath scipy.stats, whose import alone takes a second."""

from __future__ import annotations

from typing import Any

from scipy import special


def quantile(probability: Any, freedom: Any) -> Any:
    """Return the value below which t lies with `probability` (above 0); NaN without degrees of freedom."""
    return special.stdtrit(freedom, probability)


def above(value: Any, freedom: Any) -> Any:
    """Return the probability that t lies above `value`."""
    return special.stdtr(freedom, -value)


def critical(probability: Any, freedom: Any) -> Any:
    """Return the value above which t lies with `probability`, which is above 0."""
    return -special.stdtrit(freedom, probability)
