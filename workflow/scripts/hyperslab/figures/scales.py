"""Axes in readable units: times with SI prefixes, bytes as kB, MB and GB (powers of 1,000)."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

TIMES = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))
BYTES = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0))
# Round numbers within a decade, many to few.
DIGITS = ((1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0), (1.0, 2.0, 3.0, 5.0), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,))
Units = tuple[tuple[str, float], ...]


def unit_for(value: float, units: Units = TIMES) -> tuple[str, float]:
    """Return the largest unit of which `value` (in base units) holds at least one, and its size."""
    return next(((name, size) for name, size in units if value >= size), units[-1])


def tick(value: float, units: Units = TIMES) -> str:
    """Return a round number for an axis: 50 ms, 2 s, 10 MB, 30,000; a zero without a unit."""
    if value == 0:
        return "0"
    name, size = unit_for(value * (1 + 1e-9), units)
    return f"{value / size:,.6g} {name}".rstrip()


def linear(axis: Axis, limit: float, word: str, units: Units = TIMES) -> None:
    """Make an axis linear from 0; its label, `word` with a unit that suits `limit`,
    says what its numbers are.
    """
    name, size = unit_for(limit, units)
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / size:,.6g}"))
    axis.set_label_text(f"{word} [{name}]")


def logarithmic(
    axis: Axis, values: Iterable[float], word: str, units: Units = TIMES, inches: float = 4.0
) -> None:
    """Make an axis logarithmic around the positive `values`, with a unit on every number.

    `inches`, about its length, says how many numbers fit.
    """
    known = np.array([value for value in values if value > 0 and math.isfinite(value)])
    low, high = (known.min() / 1.35, known.max() * 1.35) if known.size else (0.5, 2.0)
    decades = math.log10(high / low)
    axes = axis.axes
    on_x = axis is axes.xaxis
    (axes.set_xscale if on_x else axes.set_yscale)("log")
    (axes.set_xlim if on_x else axes.set_ylim)(low, high)
    room = 1.55 * inches
    digits = next((known for known in DIGITS if len(known) * decades <= room), DIGITS[-1])
    rounds = LogLocator(base=10.0 ** math.ceil(decades / room), subs=digits, numticks=30)
    # A range this short may hold one round number; LogLocator then gives many others, which overlap.
    axis.set_major_locator(MaxNLocator(nbins=max(1, int(room))) if decades < 0.35 else rounds)
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick(value, units)))
    axis.set_minor_formatter(NullFormatter())
    axis.set_label_text(word)
