"""Titles and labels of a study stand in figures as they are written, whatever they hold."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from figure_samples import CRITERIA, STUDY, data, texts
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from pydantic import ValidationError

from hyperslab import figures
from hyperslab.figures.style import colours, resolved
from hyperslab.studies import figures as figure_kinds
from hyperslab.studies.figure_style import HEAT, Palette

# To Matplotlib what stands between two $ is TeX.
TITLES = (r"$\foo$ costs $5", "$", "50 % & <b>", "two\nlines", "µ → é", "a_b^c", "")


# Each is one that figures can be drawn with: nothing that the schema lets through fails there.
STYLES: tuple[dict[str, Any], ...] = (
    {"palette": get_args(Palette)[-1]},
    *({"heat": name} for name in (HEAT[0], HEAT[-1], f"{HEAT[5]}_r")),
    {"width": 3, "dpi": 30, "font_size": 4, "pale": 0, "cut": 1, "row": 0.05, "row_many": 0.05},
    {"width": 40, "dpi": 600, "font_size": 40, "pale": 1, "cut": 1000},
    {"row": 5, "row_many": 5},
    {"font": "No such font", "ink": "#ABCDEF"},
)
WRONG = {
    "colour": "red",
    "palette": "rainbow",
    "heat": "jet",
    "ink": "red",
    "width": float("inf"),
    "dpi": 1e6,
    "font_size": 0,
    "pale": 2,
    "row": -1,
    "font": "",
}


@pytest.mark.parametrize("style", STYLES, ids=str)
def test_every_style_that_is_let_through_can_be_drawn(tmp_path: Path, style: dict[str, Any]) -> None:
    name = "grid-slices" if "heat" in style else "session-slices"
    figure = figures.draw(name, "disk", dataclasses.replace(data(), style=style))
    assert figure.axes
    figures.save(figure, tmp_path / "drawn.svg")


def test_every_palette_has_ten_colours() -> None:
    """All that a figure asks of one."""
    for palette in get_args(Palette):
        found = colours(resolved({"palette": palette}))
        assert [bool(re.fullmatch("#[0-9a-f]{6}", colour)) for colour in found] == 10 * [True], palette


@pytest.mark.parametrize("setting", WRONG)
def test_a_wrong_style_is_refused(setting: str) -> None:
    with pytest.raises(ValidationError, match=setting):
        resolved({setting: WRONG[setting]})


@pytest.mark.parametrize("title", TITLES, ids=repr)
def test_texts_are_drawn_as_they_are_written(tmp_path: Path, title: str) -> None:
    cases: Any = {name: {**case, "title": title} for name, case in STUDY["cases"].items()}
    score = {**data().score, "criteria": [{**CRITERIA[0], "title": title}, *CRITERIA[1:]]}
    changed = dataclasses.replace(data(), study={**STUDY, "cases": cases}, score=score)
    # Those of spectra are drawn as those of slices are; a score names a criterion without a title otherwise.
    each = [name for name in figure_kinds.names(STUDY) if not name.endswith("-spectra")]
    some = each if title == TITLES[0] else ["session-slices"] if title else ["session-slices", "score"]
    for name in some:
        figure = figures.draw(name, "disk", changed)
        # All of one figure is drawn; of the others what is asked of each text before it is drawn.
        canvas: Any = FigureCanvasAgg(figure)
        for text in figure.findobj(Text):
            text.get_window_extent(canvas.get_renderer())
        if name == some[0]:
            figures.save(figure, tmp_path / f"{name}.svg")
        if name.startswith("session-") and title:
            assert " ".join(title.split()) in texts(figure)
