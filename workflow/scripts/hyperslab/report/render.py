"""A page as one self-contained HTML text: no script, no network, everything from configuration escaped."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from hyperslab.report.model import Page

TEMPLATE = Path(__file__).parents[3] / "report" / "report.html.j2"


def render(page: Page, template: Path = TEMPLATE) -> str:
    """The HTML of a page, with the template and the style sheet beside it."""
    environment = Environment(
        loader=FileSystemLoader(template.parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template.name).render(page=page)
