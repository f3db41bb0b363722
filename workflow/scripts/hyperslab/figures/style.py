"""How figures look: one dictionary, and what Matplotlib makes of it. Sizes are inches and points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import seaborn as sns

STYLE: dict[str, Any] = {
    # A page is about 1,000 pixels wide; SVG points are 4/3 of a pixel.
    "width": 10.0,
    "dpi": 100,
    "font": "DejaVu Sans",
    "font_size": 9.5,
    # Colours that also the colour-blind tell apart; the first is that of the recommended layout.
    "palette": "colorblind",
    "heat": "viridis_r",
    "ink": "#222222",
    "muted": "#6e6e6e",
    "faint": "#c4c4c4",
    "alarm": "#c00000",
    # How opaque a bar is that runs beyond the axis, or a score below full marks.
    "pale": 0.35,
    # Bars are cut where the longest is more than this many times as long as the axis that suits most.
    "cut": 1.5,
    "row": 0.30,
    "row_many": 0.205,
}


def resolved(style: Mapping[str, Any]) -> dict[str, Any]:
    """`STYLE` with the settings of `style`; ValueError for one that does not exist."""
    unknown = sorted(set(style) - set(STYLE))
    if unknown:
        raise ValueError(f"unknown style setting {', '.join(unknown)}; allowed: {', '.join(STYLE)}")
    return {**STYLE, **style}


def colours(style: Mapping[str, Any]) -> list[str]:
    """Ten hexadecimal colours of the palette."""
    return [str(colour) for colour in sns.color_palette(style["palette"], 10).as_hex()]


def settings(style: Mapping[str, Any]) -> dict[str, Any]:
    """Matplotlib's settings while a figure is drawn."""
    size, ink = style["font_size"], style["ink"]
    return {
        **sns.axes_style("whitegrid"),
        "font.family": [style["font"]],
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
