"""How figures look: one dictionary, and what Matplotlib makes of it. Sizes are inches and points."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from hyperslab.studies.figure_style import FigureStyle

STYLE: dict[str, Any] = FigureStyle().model_dump()


def resolved(style: Mapping[str, Any]) -> dict[str, Any]:
    """Return `STYLE` with the settings of `style`; raises ValueError for a wrong one."""
    return FigureStyle.model_validate(dict(style)).model_dump()


def colours(style: Mapping[str, Any]) -> list[str]:
    """Return ten hexadecimal colours of the palette."""
    return list(_ten(style["palette"]))


@cache
def _ten(palette: str) -> tuple[str, ...]:
    # Where something is drawn, and not by whoever imports this: it takes a second.
    import seaborn as sns

    return tuple(str(colour) for colour in sns.color_palette(palette, 10).as_hex())


def settings(style: Mapping[str, Any]) -> dict[str, Any]:
    """Return Matplotlib's settings while a figure is drawn."""
    import seaborn as sns

    size, ink = style["font_size"], style["ink"]
    return {
        **sns.axes_style("whitegrid"),
        "font.family": [style["font"]],
        # A title may hold what would be TeX between two $, and is drawn as it is written.
        "text.parse_math": False,
        "font.size": size,
        "axes.titlesize": size,
        "axes.labelsize": size,
        "xtick.labelsize": size - 0.5,
        "ytick.labelsize": size - 0.5,
        "legend.fontsize": size - 0.5,
        "axes.titlelocation": "left",
        "axes.edgecolor": style["faint"],
        "axes.titlecolor": ink,
        "axes.labelcolor": ink,
        "text.color": ink,
        "xtick.color": ink,
        "ytick.color": ink,
        "grid.color": "#e6e6e6",
        "grid.linewidth": 0.6,
        "axes.linewidth": 0.8,
        "legend.frameon": False,
        "figure.dpi": style["dpi"],
        "savefig.dpi": style["dpi"],
    }
