"""Figures: which there are, and what all of them have in common. No pictures are compared."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from figure_samples import STUDY, bars, data, data_of, picture, repeats, statistic, texts
from golden_specifications import planned, studies
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex

from hyperslab import figures
from hyperslab.figures.view import look
from hyperslab.planning.drawings import Drawing
from hyperslab.studies import figures as figure_kinds
from hyperslab.studies.case_kinds import kind_of, measured_at
from hyperslab.studies.study import LoadedStudy

CASES = STUDY["cases"]
# Those of spectra are drawn as those of slices are.
EACH_KIND = [name for name in figure_kinds.names(STUDY) if not name.endswith("-spectra")]


def test_names_of_a_study_are_in_the_order_of_the_report() -> None:
    assert figure_kinds.names(STUDY) == [
        "session-slices", "ramp-slices", "grid-slices", "session-spectra", "ramp-spectra", "grid-spectra",
        "sizes", "writes", "score", "tradeoff", "mix", "counts",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "gone"),
    [
        ({"grids": []}, {"grid-slices", "grid-spectra"}),
        ({"score": False}, {"score"}),
        ({"tradeoff": []}, {"tradeoff", "mix"}),
        ({"tradeoff": ["slices"]}, {"tradeoff", "mix"}),
        ({"cases": {name: CASES[name] for name in ("slices", "spectra")}}, {"writes"}),
        ({"cases": {"whole": CASES["whole"]}}, set(figure_kinds.names(STUDY)) - {"sizes", "writes", "score"}),
    ],
)
def test_what_a_study_lacks_has_no_figure(change: dict[str, Any], gone: set[str]) -> None:
    assert set(figure_kinds.names(STUDY)) - set(figure_kinds.names({**STUDY, **change})) == gone


def test_a_case_without_session_has_bars_but_no_ramp() -> None:
    slices = {**CASES["slices"], "states": ["cold", "warm"]}
    study = {**STUDY, "cases": {**CASES, "slices": slices}}
    assert "session-slices" in figure_kinds.names(study)
    assert "ramp-slices" not in figure_kinds.names(study)
    figure = figures.draw("session-slices", "disk", dataclasses.replace(data(), study=study))
    assert "cold, minimum to maximum" in texts(figure)
    minimum = bars(figure.axes[0])["minimum"]
    assert minimum[2].get_width() == pytest.approx(statistic("min_s", state="cold")["2x2x64"])


def test_a_site_has_the_figures_of_its_cases() -> None:
    everywhere = {name: {**case, "sites": ["*"]} for name, case in CASES.items()}
    study = {**STUDY, "cases": {**everywhere, "slices": {**CASES["slices"], "sites": ["mem*"]}}}
    assert figure_kinds.names(study, "memory") == figure_kinds.names(STUDY)
    left_out = {name for name in figure_kinds.names(STUDY) if "slices" in name} | {"tradeoff", "mix"}
    assert set(figure_kinds.names(STUDY)) - set(figure_kinds.names(study, "disk")) == left_out


@pytest.fixture(scope="module", params=sorted(studies()))
def shipped(request: pytest.FixtureRequest) -> LoadedStudy:
    """A study that comes with the project, read once for all tests."""
    return planned(request.param)


def test_a_described_study_is_json_and_has_captions(shipped: LoadedStudy) -> None:
    described = figure_kinds.describe(shipped)
    assert json.loads(json.dumps(described)) == described
    assert "below" not in json.dumps(described), "a changed criterion must not change every figure"
    for figure in figure_kinds.names(described):
        assert figure_kinds.caption(figure).endswith(".")


def test_a_study_with_two_cold_reads_at_a_site_has_a_picture_of_two_there(shipped: LoadedStudy) -> None:
    sites = ["disk"] if shipped.study.sites == "all" else shipped.study.sites
    reads = {
        case: resolved
        for case, resolved in shipped.cases.items()
        if kind_of(resolved).reads_selections and "cold" in resolved["states"]
    }
    here = [[case for case, resolved in reads.items() if measured_at(resolved, site)] for site in sites]
    # ncep-keep asks at two sites, of no layout at both: its picture is that of its prices.
    if any(len(cases) > 1 for cases in here) and shipped.name != "ncep-keep":
        assert len(shipped.tradeoff) == 2
        assert any({*shipped.tradeoff} <= {*cases} for cases in here)


def test_every_kind_has_a_caption_and_no_other() -> None:
    folder = Path(__file__).parents[2] / "workflow" / "report" / "captions"
    assert {file.stem for file in folder.iterdir()} == set(figure_kinds.KINDS)


def test_a_described_grid_has_its_variables_and_layouts() -> None:
    (grid,) = figure_kinds.describe(planned("openmsi-chunking"))["grids"]
    assert grid["variables"] == ["m", "n"]
    assert grid["layouts"]["4x4x2048"] == [4, 2048]
    assert len(grid["layouts"]) == 42


@pytest.mark.parametrize("site", ["disk", "memory"])
def test_every_kind_is_drawn(site: str) -> None:
    for name in EACH_KIND:
        figure = picture(name, site)
        assert f"· {site}" in figure.texts[0].get_text()
        assert figure.axes
        assert "Not measured" not in texts(figure)


def test_a_name_that_the_study_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="no figure 'session-other'"):
        figures.draw("session-other", "disk", data())


def test_every_figure_of_a_site_without_results_says_so() -> None:
    for name in figure_kinds.names(STUDY):
        figure = picture(name, "elsewhere")
        assert not figure.axes
        assert "Not measured here." in texts(figure) or "No score was made here." in texts(figure)


def test_library_cold_is_never_called_cold() -> None:
    for name in EACH_KIND:
        assert "library-cold" not in texts(picture(name, "disk")), name
        assert "cold" not in texts(picture(name, "memory")).replace("library-cold", ""), name
    for name in ("ramp-slices", "grid-slices", "score", "tradeoff", "counts"):
        assert "library-cold" in texts(picture(name, "memory")), name
        assert "cold" in texts(picture(name, "disk")), name


def test_flagged_cells_are_kept_and_counted() -> None:
    assert "8 of 24 cells flagged as noisy, kept" in texts(picture("session-slices"))
    table = repeats("disk")
    quiet = data_of(table.assign(noisy=False, overlap=table["round"] == 0))
    words = texts(figures.draw("session-slices", "disk", quiet))
    assert "noisy" not in words
    assert "8 of 24 cells overlapping" in words


def test_stale_and_confirming_rows_are_not_drawn() -> None:
    table = repeats("disk")
    others = [table.assign(stale=True, round=7, time_s=99.0), table.assign(phase="confirm", time_s=99.0)]
    given = data_of(pd.concat([table, *others], ignore_index=True))
    for name in ("ramp-slices", "session-slices", "writes", "counts"):
        figure = figures.draw(name, "disk", given)
        assert texts(figure) == texts(picture(name)), name
        for one, other in zip(figure.axes, picture(name).axes, strict=True):
            assert one.dataLim.extents == pytest.approx(other.dataLim.extents), name
            assert len(one.lines) == len(other.lines), name


def test_axes_name_their_units() -> None:
    for name in ("session-slices", "writes", "sizes"):
        assert "[" in picture(name).axes[0].get_xlabel()
    axes = picture("tradeoff").axes[0]
    shown = [text.get_text() for text in axes.get_xticklabels() if text.get_text()]
    assert shown
    assert {text.split()[1] for text in shown} <= {"s", "ms", "µs", "ns"}


def test_a_layout_named_by_a_number_is_found() -> None:
    table = repeats("disk")
    named = data_of(table.assign(layout=table["layout"].replace("2x2x64", "7")))
    # As pandas reads it from a file of which no layout has letters.
    summary = named.summary[named.summary["layout"] == "7"].astype({"layout": int})
    figure = figures.draw("session-slices", "disk", dataclasses.replace(named, summary=summary))
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == ["7"]


def test_a_style_changes_the_figure_and_a_misspelt_one_is_refused() -> None:
    style = {"width": 6.0, "pale": 0.2, "palette": "Set2"}
    figure = figures.draw("session-slices", "disk", dataclasses.replace(data(), style=style))
    assert figure.get_size_inches()[0] == 6
    changed, usual = (bars(one.axes[0])["minimum"] for one in (figure, picture("session-slices")))
    assert changed[0].get_alpha() == 0.2
    assert to_hex(changed[2].get_facecolor()) != to_hex(usual[2].get_facecolor())
    with pytest.raises(ValueError, match="colour"):
        figures.draw("session-slices", "disk", dataclasses.replace(data(), style={"colour": "red"}))


@pytest.mark.parametrize("name", ["session-slices", "grid-slices", "tradeoff"])
def test_the_same_data_give_the_same_file(tmp_path: Path, name: str) -> None:
    for number, figure in enumerate((picture(name), figures.draw(name, "disk", data()))):
        figures.save(figure, tmp_path / f"{number}.svg")
    first, second = ((tmp_path / f"{number}.svg").read_text(encoding="utf-8") for number in range(2))
    assert first == second
    assert "<dc:date>" not in first
    assert "<text" not in first, "letters are paths, so that the page looks the same without the font"


def test_nothing_is_cut_off_at_the_edges_of_the_page() -> None:
    for name in EACH_KIND:
        figure = picture(name)
        canvas: Any = FigureCanvasAgg(figure)
        box = figure.get_tightbbox(canvas.get_renderer())
        width, height = figure.get_size_inches()
        assert box.x0 > -0.02 and box.y0 > -0.02, name
        assert box.x1 < width + 0.02 and box.y1 < height + 0.02, name


def test_what_stands_for_a_round_is_called_what_it_is() -> None:
    view = look("disk", data())
    rows = view.measurements[view.measurements["case"] == "slices"]
    session = rows[rows["state"] == "session"]
    assert view.over_rounds(rows[rows["state"] == "cold"]) == "geometric mean of the medians of 3 rounds"
    assert view.over_rounds(session) == "geometric mean of the geometric means of 3 rounds"
    assert view.over_rounds(rows) == (
        "geometric mean of the medians (cold, warm) and geometric means (session) of 3 rounds"
    )
    assert view.over_rounds(rows[rows["round"] == 0]).endswith("and geometric means (session) of one round")
    held = dataclasses.replace(view, summary=view.summary.assign(throttled_s=1.0))
    # A limit decides about cold reads and writes alone.
    assert held.over_rounds(rows[rows["state"] != "session"]) == (
        "geometric mean of the means (cold) and medians (warm) of 3 rounds"
    )


def test_a_site_is_looked_at_once_for_all_its_figures() -> None:
    view = look("disk", data())
    assert look("disk", data()) is view
    assert look("disk", dataclasses.replace(data(), style={"width": 6.0})).style["width"] == 6
    assert look("memory", data()).site == "memory"


def test_a_long_title_is_wrapped() -> None:
    titles = {name: {**case, "title": f"{name} of every element that {'somebody ' * 4}asks for"}
              for name, case in CASES.items()}  # fmt: skip
    figure = figures.draw("tradeoff", "disk", dataclasses.replace(data(), study={**STUDY, "cases": titles}))
    canvas: Any = FigureCanvasAgg(figure)
    heading, box = figure.texts[0], figure.texts[0].get_window_extent(canvas.get_renderer())
    assert heading.get_text().count("\n") == 1
    assert heading.get_text().replace("\n", " ").endswith("asks for · disk")
    assert box.x1 < figure.bbox.x1 and box.y1 < figure.bbox.y1
    # Nothing else stands where its second line does.
    (legend,) = figure.legends
    assert legend.get_window_extent(canvas.get_renderer()).y1 < box.y0
    assert figure.axes[0].yaxis.label.get_window_extent(canvas.get_renderer()).y1 < box.y0


def test_no_two_drawings_have_a_rule_of_one_name() -> None:
    pairs = (("a_b", "c"), ("a", "b_c"), ("a--b", "c"), ("a", "b--c"))
    names = [Drawing(*pair, (), scored).rule for pair in pairs for scored in (False, True)]
    assert len(set(names)) == len(names)
