"""Figures, drawn: a kind is one module here, with draw(view, case), named in studies.figures."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperslab.studies.figures import names

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class FigureData:
    """What figures are drawn from.

    `measurements` and `summary` are the tables of a study (`hyperslab.results.columns`), `score` and
    `recommendation` the content of the JSON files ({} where there is none), `study` is `describe` of it,
    `style` what differs from the defaults of `hyperslab.studies.figure_style.FigureStyle`.
    """

    measurements: pd.DataFrame
    summary: pd.DataFrame
    score: Mapping[str, Any]
    recommendation: Mapping[str, Any]
    study: Mapping[str, Any]
    style: Mapping[str, Any] = field(default_factory=dict)


def draw(name: str, site: str, data: FigureData) -> Figure:
    """Draw the figure `name` (one of `names`) of one site; one that says so where nothing was measured.

    Raises ValueError for a name that the study does not have and for an unknown setting of the style.
    """
    if name not in names(data.study):
        raise ValueError(f"no figure {name!r} in this study; there are {', '.join(names(data.study))}")
    canvas = importlib.import_module("hyperslab.figures.canvas")
    kind, _, case = name.partition("-")
    figure: Figure = canvas.render(
        importlib.import_module(f"hyperslab.figures.{kind}").draw, site, data, case
    )
    return figure


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure in the format of the path's ending; the same figure always gives the same bytes."""
    importlib.import_module("hyperslab.figures.canvas").save(figure, Path(path))
