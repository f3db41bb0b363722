"""Where the templates of pages lie; rules name them as inputs, so that a changed one makes its page again."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parents[3] / "report"
REPORT = _FOLDER / "report.html.j2"
CLAIMS = _FOLDER / "claims.html.j2"
ADVICE = _FOLDER / "advice.html.j2"
# Where a report on a website finds the page of all claims.
FRONT_DOOR = "../index.html"
# What all of them include.
SHARED = (_FOLDER / "parts.html.j2", _FOLDER / "style.css")


def figure_anchor(site: str, figure: str) -> str:
    """Return the place of a figure in a report."""
    return f"figure-{site}-{figure}"
