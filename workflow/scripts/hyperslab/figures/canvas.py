"""From a drawing function to a finished figure, and from a figure to a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from hyperslab.figures import FigureData
from hyperslab.figures.sheet import lay_out
from hyperslab.figures.style import settings
from hyperslab.figures.view import View, look


def render(make: Callable[[View, str], Figure], site: str, data: FigureData, case: str) -> Figure:
    """Return the figure that `make` draws, laid out once,
    so that every file format shows the same arrangement.
    """
    view = look(site, data)
    rc: Any = settings(view.style)
    with mpl.rc_context(rc):
        figure = make(view, case)
        lay_out(figure)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write `figure`; letters become paths, identifiers come from a fixed salt and no date is kept."""
    metadata = {"png": {"Software": None}, "pdf": {"CreationDate": None}}
    with mpl.rc_context({"svg.hashsalt": "hyperslab", "svg.fonttype": "path"}):
        if path.suffix == ".svg":
            # savefig would go through the whole figure once more before, for a layout that it has already.
            canvas: Any = FigureCanvasSVG(figure)
            canvas.print_svg(path, metadata={"Date": None})
        else:
            figure.savefig(path, metadata=metadata.get(path.suffix.lstrip("."), {}))
