"""How lines of one figure are told apart: colour, marker, and dashes once all colours are used."""

from __future__ import annotations

from typing import Any

from matplotlib.lines import Line2D

from hyperslab.figures.view import View

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "h")
DASHED = (0, (4, 2))


def look(view: View, number: int) -> dict[str, Any]:
    """Return the look of line `number`; no other line of a hundred has its colour and marker."""
    turn, place = divmod(number, len(view.tints))
    # A colour that comes again has another marker, ten times over: 3 and 10 share no divisor.
    marker = MARKERS[(place + 3 * turn) % len(MARKERS)]
    return {
        "color": view.tints[place],
        "marker": marker,
        "markersize": 5,
        "linestyle": DASHED if turn % 2 else "-",
        "linewidth": 1.4,
    }


def entry(view: View, number: int, words: str, **other: Any) -> Line2D:
    """Return the entry of line `number` in a legend, with what is other in it than in its look."""
    return Line2D([], [], label=words, **look(view, number) | other)
