"""A page as one self-contained HTML text: no script, no network, everything from configuration escaped."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from hyperslab.report import templates
from hyperslab.report.advice import AdvicePage
from hyperslab.report.claims_model import ClaimsPage
from hyperslab.report.model import Page


def render(page: Page | ClaimsPage | AdvicePage, template: Path = templates.REPORT) -> str:
    """Return the HTML of a page, with the template and the style sheet beside it."""
    found = _environment(template.parent).get_template(template.name)
    return found.render(page=page, figure_anchor=templates.figure_anchor)


@cache
def _environment(place: Path) -> Environment:
    """Return what compiles each template of a folder once, however many pages are made with it."""
    return Environment(
        loader=FileSystemLoader(place),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
