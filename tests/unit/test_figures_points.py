"""Figures of lines, fields and points: ramp, grid, trade-off and counts hold the numbers of the tables."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from figure_samples import GRID, LAYOUTS, STUDY, data, data_of, line, picture, pooled, repeats, texts
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from hyperslab import figures
from hyperslab.figures import advice, tradeoff
from hyperslab.figures.tradeoff import requests_of
from hyperslab.figures.view import look
from hyperslab.results.front import fronts, pareto
from hyperslab.results.requests import request_times, typical

# The ramp


def test_the_ramp_keeps_the_order_of_selections_and_every_round() -> None:
    panels = {axes.get_title(loc="left"): axes for axes in picture("ramp-slices").axes}
    assert list(panels) == ["★ 4x4x128", "4x4x256", "contiguous", "auto"]
    axes = panels["auto"]
    here = data().measurements.query("site == 'disk' and case == 'slices' and state == 'session'")
    here = here[here["layout"] == "auto"].sort_values("repeat")
    for number in range(3):
        x, y = line(axes, f"round {number}")
        assert x.tolist() == [1, 2, 3, 4, 5]
        assert y == pytest.approx(here.loc[here["round"] == number, "time_s"].to_numpy())
    mean = np.exp(here.assign(log=np.log(here["time_s"])).groupby("repeat")["log"].mean())
    assert line(axes, "mean")[1] == pytest.approx(mean.to_numpy())
    assert sum(drawn.get_label() == "other" for drawn in axes.lines) == len(LAYOUTS) - 1
    assert axes.get_yscale() == "log"


def test_the_ramp_lies_between_the_cold_and_the_warm_median() -> None:
    for axes in picture("ramp-spectra").axes:
        layout = axes.get_title(loc="left").removeprefix("★ ")
        levels = [
            float(np.asarray(drawn.get_ydata())[0]) for drawn in axes.lines if drawn.get_linestyle() != "-"
        ]
        assert levels == pytest.approx([pooled("spectra", state)[layout] for state in ("cold", "warm")])
        low, high = axes.get_ylim()
        assert low < min(levels) < max(levels) < high


def test_few_layouts_have_a_panel_each() -> None:
    table = repeats("disk")
    few = ["contiguous", "2x2x64", "4x4x256"]
    figure = figures.draw("ramp-slices", "disk", data_of(table[table["layout"].isin(few)]))
    assert [axes.get_title(loc="left") for axes in figure.axes] == few


# The grid


def test_heat_maps_hold_the_pooled_medians() -> None:
    figure = picture("grid-slices")
    panels = {axes.get_title(loc="left").split(" [")[0]: axes for axes in figure.axes if axes.texts}
    assert list(panels) == ["cold", "warm"]
    for state, axes in panels.items():
        medians = pooled("slices", state)
        expected = np.array([[medians[f"{m}x{m}x{n}"] for n in (64, 128, 256)] for m in (2, 4)])
        field = axes.collections[0]
        assert np.asarray(field.get_array()).reshape(2, 3) == pytest.approx(expected)
        assert isinstance(field.norm, LogNorm)
        unit = axes.get_title(loc="left").split("[")[1].split("]")[0]
        scale = {"ms": 1e-3, "µs": 1e-6}[unit]
        words = [float(text.get_text().replace(",", "")) * scale for text in axes.texts]
        assert words == pytest.approx(expected.ravel(), rel=0.06)
        assert "contiguous 9" in axes.get_title(loc="left")
        assert [text.get_text() for text in axes.get_yticklabels()] == ["2", "4"]


def test_the_recommended_cell_is_framed() -> None:
    axes = picture("grid-slices").axes[0]
    frames = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    # Row m = 4 is the second from the top, column n = 128 the second from the left.
    assert {frame.get_xy() for frame in frames} == {(1, 1)}


def test_the_contiguous_layout_is_a_line_in_the_colour_bar_where_it_lies_within() -> None:
    def marks(figure: Any) -> list[float]:
        bar = figure.axes[0].collections[0].colorbar.ax
        return sorted({float(drawn.get_ydata()[0]) for drawn in bar.lines})

    assert marks(picture("grid-slices")) == []
    table = repeats("disk")
    between = table["time_s"].mask(table["layout"] == "contiguous", 0.001)
    figure = figures.draw("grid-slices", "disk", data_of(table.assign(time_s=between)))
    assert marks(figure) == pytest.approx([0.001])


def test_an_unmeasured_cell_is_a_dash() -> None:
    table = repeats("disk")
    figure = figures.draw("grid-slices", "disk", data_of(table[table["layout"] != "2x2x128"]))
    (dash,) = (text for text in figure.axes[0].texts if text.get_text() == "–")
    assert dash.get_position() == (1.5, 0.5)


def test_a_grid_of_one_variable_is_one_row_and_each_grid_has_its_panels() -> None:
    row = {name: [n] for name, (m, n) in GRID.items() if m == 4}
    grids = [*STUDY["grids"], {"name": "4x4x{n}", "variables": ["n"], "layouts": row}]
    study = {**STUDY, "grids": grids}
    figure = figures.draw("grid-slices", "disk", dataclasses.replace(data(), study=study))
    panels = [axes for axes in figure.axes if axes.texts]
    assert [len(axes.texts) for axes in panels] == [6, 6, 3, 3]
    assert [text.get_text() for text in panels[2].get_xticklabels()] == ["64", "128", "256"]
    assert panels[2].get_xlabel() == "n"
    assert panels[2].get_title(loc="left").startswith("4x4x{n}, cold")


# The trade-off


def test_the_name_of_two_copies_takes_two_lines() -> None:
    table = repeats("disk")
    pair = "2x2x64-blosc-lz4-and-4x4x2048-blosc-lz4"
    axes = figures.draw(
        "tradeoff", "disk", data_of(table.assign(layout=table["layout"].replace("2x2x64", pair)))
    ).axes
    words = "2x2x64-blosc-lz4\nand 4x4x2048-blosc-lz4"
    assert words in [text.get_text() for text in axes[0].texts]
    assert words in [text.get_text() for text in axes[1].get_yticklabels()]


def test_the_front_is_joined_and_every_layout_has_its_point() -> None:
    axes = picture("tradeoff").axes[0]
    points = pd.DataFrame({case: pooled(case, "cold") for case in ("slices", "spectra")})
    front = points[pareto(points, ["slices", "spectra"])].sort_values("slices")
    assert 2 < len(front) < len(points)
    x, y = line(axes, "Pareto front")
    assert x == pytest.approx(front["slices"].to_numpy())
    assert y == pytest.approx(front["spectra"].to_numpy())
    for layout, place in points.iterrows():
        (x,), (y,) = line(axes, str(layout))
        assert (x, y) == pytest.approx(tuple(place))
    named = {text.get_text().removeprefix("★ ") for text in axes.texts}
    assert named == set(points.index), "few layouts, so that each is named"
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_title(loc="left") == "cold"


def test_of_many_layouts_those_with_a_role_or_on_the_front_are_named() -> None:
    template = repeats("disk").query("layout == '4x4x64'")
    slow = [template.assign(layout=f"slow-{n}", time_s=template["time_s"] * (50 + n)) for n in range(9)]
    table = pd.concat([repeats("disk"), *slow], ignore_index=True)
    figure = figures.draw("tradeoff", "disk", data_of(table))
    points = pd.DataFrame({case: pooled(case, "cold") for case in ("slices", "spectra")})
    sizes = data().summary.query("site == 'disk'").groupby("layout")["file_bytes"].first()
    on = fronts(points, ["slices", "spectra"], sizes)
    assert set(on) == {"drawn", "size"}, "those that are not slow are on the front, some for their size alone"
    named = {text.get_text().removeprefix("★ ") for text in figure.axes[0].texts}
    assert named == set(on.index[on != ""]) | {"contiguous", "auto", "4x4x128"}
    # What is on the front for its size alone is a hollow point.
    hollow = {
        str(drawn.get_label()) for drawn in figure.axes[0].lines
        if drawn.get_marker() == "o" and drawn.get_markerfacecolor() == "white"
    }  # fmt: skip
    assert hollow == set(on.index[on == "size"]) - {"contiguous", "auto", "4x4x128"}
    rows = [text.get_text().removeprefix("★ ") for text in figure.axes[1].get_yticklabels()]
    assert set(rows) == named


def test_beside_the_times_stand_the_sizes_of_the_files() -> None:
    axes = picture("tradeoff").axes[1]
    sizes = data().summary.query("site == 'disk'").groupby("layout")["file_bytes"].first()
    rows = [text.get_text().removeprefix("★ ") for text in axes.get_yticklabels()]
    drawn = [patch.get_width() for patch in axes.patches if isinstance(patch, Rectangle)]
    assert drawn == pytest.approx([sizes[name] for name in rows])


def test_where_nothing_is_cold_the_picture_is_of_the_warm_times() -> None:
    table = repeats("disk").query("state == 'warm'")
    figure = figures.draw("tradeoff", "disk", data_of(table))
    assert figure.axes[0].get_title(loc="left") == "warm"


def test_names_of_points_do_not_cover_each_other() -> None:
    # Many layouts on one front, close together.
    rng = np.random.default_rng(1)
    template = repeats("disk").query("layout == '4x4x64'")
    parts = [repeats("disk")]
    for number in range(24):
        slower = {"slices": 1.25**number, "spectra": 1.2**-number}
        factor = template["case"].map(slower).fillna(1) * rng.uniform(0.97, 1.03)
        parts.append(template.assign(layout=f"layout-{number}", time_s=template["time_s"] * factor))
    figure = figures.draw("tradeoff", "disk", data_of(pd.concat(parts, ignore_index=True)))
    canvas: Any = FigureCanvasAgg(figure)
    # The words alone, without the line to the point.
    boxes = [Text.get_window_extent(text, canvas.get_renderer()) for text in figure.axes[0].texts]
    assert len(boxes) > 15
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


# Counts


@pytest.mark.parametrize("number", range(4))
def test_counts_are_drawn_against_the_pooled_cold_medians(number: int) -> None:
    column = ["asked_bytes", "chunk_bytes", "requested_bytes", "device_bytes"][number]
    axes = picture("counts").axes[number]
    rows = data().measurements.query("site == 'disk' and state == 'cold'")
    expected = [
        (count, pooled(case, "cold")[layout])
        for (layout, case), count in rows.groupby(["layout", "case"])[column].median().items()
    ]
    drawn = np.asarray(axes.collections[0].get_offsets())
    assert np.array(sorted(map(tuple, drawn))) == pytest.approx(np.array(sorted(expected)))
    assert column.split("_")[0] in axes.get_title(loc="left")
    # One colour a case.
    faces = np.asarray(axes.collections[0].get_facecolor())
    assert len(np.unique(faces.round(4), axis=0)) == 2


def test_a_count_of_zero_is_said_not_drawn() -> None:
    device = picture("counts", "memory").axes[3]
    assert not device.collections
    assert [text.get_text() for text in device.texts] == ["the file lies in memory"]


def test_where_nobody_would_notice_there_is_no_mix_to_choose_for() -> None:
    quick = repeats("disk").assign(time_s=lambda rows: rows["time_s"] / 1e6)
    figure = figures.draw("mix", "disk", data_of(quick))
    assert not figure.axes
    assert any("nobody would notice" in text.get_text() for text in figure.texts)
    assert figures.draw("mix", "disk", data()).axes


def test_points_are_those_of_the_tables_where_rounds_were_added() -> None:
    table = repeats("disk")
    # Of contiguous two rounds more were measured, which were slow ones.
    more = table[table["layout"].eq("contiguous") & table["round"].eq(2)]
    added = [more.assign(round=number, time_s=more["time_s"] * 3) for number in (3, 4)]
    given = data_of(pd.concat([table, *added], ignore_index=True))
    summary = given.summary[(given.summary["site"] == "disk") & (given.summary["phase"] == "main")]
    expected = typical(request_times(summary, ("slices", "cold")))
    found = requests_of(look("disk", given), "slices", "cold")
    np.testing.assert_allclose(found["value"], expected.loc[found.index])
    plain = np.exp(np.log(request_times(summary, ("slices", "cold"))).mean(axis=1))
    # All others would have taken longer in these rounds.
    assert (found["value"] > 1.2 * plain)[[name for name in plain.index if name != "contiguous"]].all()
    assert ((found["low"] < found["value"]) & (found["value"] < found["high"])).all()


def test_intervals_lie_within_the_axes_and_are_named_where_there_are_some() -> None:
    table = repeats("disk").query("layout in ['auto', '2x2x64', '4x4x128']")
    noise = table["round"].map({0: 1.0, 1: 2.0, 2: 0.6})
    rough = data_of(table.assign(time_s=table["time_s"] * noise))
    figure = tradeoff.draw(look("disk", rough))
    for case, (low, high) in zip(
        ("slices", "spectra"), (figure.axes[0].get_xlim(), figure.axes[0].get_ylim()), strict=True
    ):
        ends = requests_of(look("disk", rough), case, "cold")
        assert low < ends["low"].min() and ends["high"].max() < high
    assert "lines: 95 % intervals of the rounds" in texts(figure)
    few = tradeoff.draw(look("disk", data_of(table[table["round"] < 2])))
    assert "95 %" not in texts(few)


def test_an_advice_names_the_reads_that_have_no_panel() -> None:
    one = repeats("disk").query("state == 'cold' and case == 'slices'")
    reads = ["slices", *(f"read{number}" for number in range(1, 6))]
    table = pd.concat([one.assign(case=name) for name in reads], ignore_index=True)
    study = {**STUDY, "cases": dict.fromkeys(reads, STUDY["cases"]["slices"])}
    view = look("disk", data_of(table, study=study))
    told = {"layout": "auto", "file_bytes": 1e5, "times": dict.fromkeys(reads, 0.01)}
    site = {"predicted": [told], "measured": [], "copies": None}

    def drawn(count: int) -> Figure:
        asked = [{"name": name} for name in reads[:count]]
        prediction = {"state": "cold", "today": "auto", "reads": asked, "sites": {"disk": site}}
        return advice.draw(view, prediction)

    assert [axes.get_title() for axes in drawn(6).axes] == reads[:4]
    assert "without read4 and read5: in the table alone" in texts(drawn(6))
    assert "in the table alone" not in texts(drawn(4))


def test_intervals_of_an_advice_lie_within_the_axes() -> None:
    table = repeats("disk").query("state == 'cold' and case == 'slices'")
    noise = table["round"].map({0: 1.0, 1: 2.0, 2: 0.6})
    view = look("disk", data_of(table.assign(time_s=table["time_s"] * noise)))
    told = {"layout": "auto", "file_bytes": 1e5, "times": {"slices": 0.01}}
    site = {"predicted": [told], "measured": [], "copies": None}
    prediction = {"state": "cold", "today": "auto", "reads": [{"name": "slices"}], "sites": {"disk": site}}
    (axes,) = advice.draw(view, prediction).axes
    low, high = axes.get_ylim()
    ends = requests_of(view, "slices", "cold")
    assert low < ends["low"].min() and ends["high"].max() < high


def test_what_an_advice_calls_cold_in_memory_is_library_cold() -> None:
    for site, state in (("disk", "cold"), ("memory", "library-cold")):
        table = repeats(site).query(f"state == '{state}' and case == 'slices'")
        told = {"layout": "auto", "file_bytes": 1e5, "times": {"slices": 0.01}}
        asked = {"state": "cold", "today": "auto", "reads": [{"name": "slices"}]}
        sites = {site: {"predicted": [told], "measured": [], "copies": None}}
        figure = advice.draw(look(site, data_of(table)), {**asked, "sites": sites})
        assert f"what a {state} read waits for, opening included" in texts(figure)
