"""Figures of bars: the session, file sizes, writes and the score hold the numbers of the tables."""

from __future__ import annotations

import dataclasses
import json
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from figure_samples import (
    CRITERIA,
    LAYOUTS,
    RAW,
    STUDY,
    WRITE,
    bars,
    data,
    data_of,
    line,
    picture,
    pooled,
    repeats,
    row,
    statistic,
    texts,
    write_seconds,
)
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation

from hyperslab import figures
from hyperslab.figures import sizes
from hyperslab.results.scoring import absolute_score

# The session


def test_bars_end_at_the_statistics_of_the_summary() -> None:
    axes = picture("session-slices").axes[0]
    parts = bars(axes)
    assert list(parts) == ["minimum", "median", "mean", "maximum"]
    for part, column in zip(parts, ("min_s", "median_s", "mean_s", "max_s"), strict=True):
        expected = statistic(column)
        for layout in LAYOUTS:
            bar = parts[part][row(axes, layout)]
            assert bar.get_x() + bar.get_width() == pytest.approx(expected[layout]), (part, layout)
    for before, after in zip(list(parts)[:-1], list(parts)[1:], strict=True):
        ends = [bar.get_x() + bar.get_width() for bar in parts[before]]
        assert [bar.get_x() for bar in parts[after]] == pytest.approx(ends)
    assert {bar.get_x() for bar in parts["minimum"]} == {0}


def test_only_a_bar_beyond_the_axis_is_pale_and_has_its_value_on_it() -> None:
    axes = picture("session-slices").axes[0]
    limit, longest = axes.get_xlim()[1], statistic("max_s")
    beyond = {layout for layout in LAYOUTS if longest[layout] > limit}
    assert "contiguous" in beyond
    assert len(beyond) <= 2
    for parts in bars(axes).values():
        opacity = {layout: parts[row(axes, layout)].get_alpha() for layout in LAYOUTS}
        assert opacity == {layout: 0.35 if layout in beyond else 1.0 for layout in LAYOUTS}
    written = {round(text.xy[1]): text.get_text() for text in axes.texts if isinstance(text, Annotation)}
    assert set(written) == {row(axes, layout) for layout in beyond}
    # The spike of the third selection, in the middle one of three rounds.
    assert longest["contiguous"] == pytest.approx(0.9 * 1.02 * (1 + 0.5 / 3) * 3)
    assert "max 3.21 s, first 1.38 s" in written[row(axes, "contiguous")]


def test_the_axis_holds_every_bar_where_they_are_alike() -> None:
    table = repeats("disk")
    alike = data_of(table[table["layout"].isin(["2x2x128", "4x4x256"])])
    figure = figures.draw("session-slices", "disk", alike)
    assert all(bar.get_alpha() == 1 for parts in bars(figure.axes[0]).values() for bar in parts)
    assert "beyond the axis" not in texts(figure)
    assert "6 layouts not measured" in texts(figure)


def test_the_first_selection_of_a_session_is_a_mark_of_its_own() -> None:
    axes = picture("session-slices").axes[0]
    first = statistic("first_selection_s")
    x, y = line(axes, "first selection")
    near = [layout for layout in LAYOUTS if first[layout] <= axes.get_xlim()[1]]
    expected = {row(axes, layout): first[layout] for layout in near}
    assert dict(zip(y, x, strict=True)) == pytest.approx(expected)
    assert (first < statistic("max_s")).all()


def test_a_mean_below_the_median_is_marked() -> None:
    table = repeats("disk")
    session = (table["layout"] == "auto") & (table["state"] == "session")
    times = table["time_s"].mask(session & (table["repeat"] < 2), 1e-5)
    times = times.mask(session & (table["repeat"] == 2), 0.006)
    axes = figures.draw("session-slices", "disk", data_of(table.assign(time_s=times))).axes[0]
    assert line(axes, "mean below the median")[1].tolist() == [row(axes, "auto")]
    assert bars(axes)["mean"][row(axes, "auto")].get_width() == 0


def test_the_median_stands_beside_its_bar() -> None:
    axes = picture("session-slices").axes[0]
    beside = {
        text.get_position()[1]: text.get_text() for text in axes.texts if not isinstance(text, Annotation)
    }
    assert beside[row(axes, "contiguous")] == "1.15 s"
    assert statistic("median_s")["contiguous"] == pytest.approx(1.1475)


@pytest.mark.parametrize(
    ("kind", "timed"), [("read", "selection"), ("open_all", "opening"), ("resolution", "view")]
)
def test_what_was_timed_is_called_what_it_is(kind: str, timed: str) -> None:
    cases = {**STUDY["cases"], "slices": {**STUDY["cases"]["slices"], "kind": kind}}
    given = dataclasses.replace(data(), study={**STUDY, "cases": cases})
    figure = figures.draw("session-slices", "disk", given)
    assert figure.axes[0].get_xlabel().startswith(f"time of one {timed} [")
    assert f"each statistic of a round's 5 {timed}s; of these the median over 3 rounds" in texts(figure)


def test_where_rounds_were_added_the_words_do_not_give_them_to_every_layout() -> None:
    table = repeats("disk")
    added = table[table["layout"].eq("contiguous") & table["round"].eq(2)].assign(round=3)
    given = data_of(pd.concat([table, added], ignore_index=True))
    said = texts(figures.draw("session-slices", "disk", given))
    assert "of these the median over 3 to 4 rounds" in said
    assert "8 layouts in 3 to 4 rounds" in texts(figures.draw("ramp-slices", "disk", given))


def test_roles_are_told_by_star_and_weight() -> None:
    labels = picture("session-slices").axes[0].get_yticklabels()
    bold = [text.get_text() for text in labels if text.get_fontweight() == "bold"]
    assert bold == ["contiguous", "auto", "★ 4x4x128", "4x4x256"]


# Sizes


def test_sizes_are_stacked_to_the_file() -> None:
    left, right = picture("sizes").axes
    parts = bars(left)
    rows = data().measurements.query("site == 'disk' and case == 'slices'").drop_duplicates("layout")
    for _, file in rows.iterrows():
        place = row(left, file["layout"])
        for part in ("data", "padding", "index", "remainder"):
            assert parts[part][place].get_width() == pytest.approx(file[f"{part}_bytes"])
        end = parts["remainder"][place]
        assert end.get_x() + end.get_width() == pytest.approx(file["file_bytes"])
    contiguous = rows.set_index("layout").loc["contiguous", "file_bytes"]
    assert set(line(left, "contiguous baseline")[0]) == {contiguous}
    assert np.array_equal(line(right, "index computed"), line(right, "index in the file"))


def test_agreement_is_said_and_written_files_are_not_compared() -> None:
    words = texts(picture("sizes"))
    assert f"as computed for {len(LAYOUTS)} of {len(LAYOUTS)} layouts" in words
    assert "disagree" not in words


@pytest.mark.parametrize("column", ["index_bytes", "padding_bytes"])
def test_one_disagreement_is_loud(column: str) -> None:
    table = repeats("disk")
    wrong = (table["layout"] == "4x4x64") & (table["round"] == 1) & (table["case"] == "spectra")
    figure = figures.draw("sizes", "disk", data_of(table.assign(**{column: table[column] + wrong})))
    (alarm,) = (text for text in figure.texts if "disagree" in text.get_text())
    assert "4x4x64" in alarm.get_text()
    assert to_hex(alarm.get_color()) == "#c00000"
    (mark,) = (text for text in figure.axes[1].texts if text.get_text() == "disagrees")
    assert isinstance(mark, Annotation)
    assert mark.xy[1] == row(figure.axes[0], "4x4x64")
    assert "as computed for" not in texts(figure)


# Writes


def test_write_bars_are_the_durable_medians_and_their_shares() -> None:
    figure = picture("writes")
    axes = figure.axes[0]
    parts, expected = bars(axes), pooled("whole", "write")
    for layout in LAYOUTS:
        widths = {name: found[row(axes, layout)].get_width() for name, found in parts.items()}
        assert sum(widths.values()) == pytest.approx(expected[layout])
        # Here every write takes the same time, so that the parts are known too.
        assert widths == pytest.approx(
            {
                "create and write": WRITE["create_s"] + write_seconds(layout),
                "flush": WRITE["flush_s"],
                "close": WRITE["close_s"],
                "fsync": WRITE["fsync_s"],
            }
        )
    assert line(axes, "reference")[0] == pytest.approx([0.41, 0.41])
    assert "plain write and fsync" in texts(figure)
    assert "At once" in axes.get_title(loc="left")


def test_the_legend_has_what_was_put_into_a_store_wherever_that_was() -> None:
    rows = repeats("disk")
    written = rows[rows["case"] == "whole"]
    stored = rows.assign(upload_s=rows["reference_s"])
    both = pd.concat([stored, written.assign(case="again")], ignore_index=True)
    cases = {**STUDY["cases"], "again": {**STUDY["cases"]["whole"], "title": "Again"}}
    figure = figures.draw("writes", "disk", data_of(both, study={**STUDY, "cases": cases}))
    assert [list(bars(axes))[-1] for axes in figure.axes] == ["upload", "fsync"]
    (legend,) = figure.legends
    said = [text.get_text() for text in legend.get_texts()]
    assert said[:5] == ["create and write", "flush", "close", "fsync", "upload"]


# The score


def blocks(axes: Axes) -> dict[int, list[Rectangle]]:
    """Row -> its blocks."""
    found: dict[int, list[Rectangle]] = {}
    for container in axes.containers:
        assert isinstance(container, BarContainer)
        for bar in container.patches:
            found.setdefault(round(bar.get_y() + bar.get_height() / 2), []).append(bar)
    return found


def test_blocks_are_the_criteria_met() -> None:
    left, right = picture("score").axes
    absolute = {
        entry["layout"]: entry["score"] for entry in data().score["absolute"] if entry["site"] == "disk"
    }
    (matched,) = (entry for entry in data().score["matched"] if entry["site"] == "disk")
    for axes, scores in ((left, absolute), (right, matched["scores"])):
        for layout in LAYOUTS:
            found = blocks(axes).get(row(left, layout), [])
            assert len(found) == scores.get(layout, 0), layout
            assert sum(bar.get_width() for bar in found) == scores.get(layout, 0)
            full = scores.get(layout) == len(CRITERIA)
            assert {bar.get_alpha() for bar in found} <= {1.0 if full else 0.35}
        assert len(set(scores.values())) > 1
    heading = right.get_title(loc="left")
    assert "(cold)" in heading
    assert f"λ = {matched['factor']:.4g}" in heading
    assert f"{matched['binding_case']}, met last by {matched['binding_layout']}" in heading


def test_published_layouts_are_marked() -> None:
    for axes in picture("score").axes:
        (marks,) = (drawn for drawn in axes.lines if drawn.get_marker() == "D")
        assert np.asarray(marks.get_ydata()).tolist() == [row(picture("score").axes[0], "4x4x128")]


def test_bounds_of_a_score_are_called_published_only_where_they_were() -> None:
    assert "as published (session)" in texts(picture("score"))
    own = dataclasses.replace(data(), score={**data().score, "published": []})
    said = texts(figures.draw("score", "disk", own))
    assert "own bounds (session)" in said and "published" not in said


def test_criteria_that_differ_in_their_state_alone_are_told_apart() -> None:
    small = {"statistic": "file_bytes", "below": 1.2 * RAW}
    alike = [CRITERIA[0], {**CRITERIA[0], "state": "cold"}, small, {**small, "case": "slices"}, CRITERIA[1]]
    absolute = json.loads(absolute_score(data().summary, alike).to_json(orient="records"))
    score = {**data().score, "criteria": alike, "absolute": absolute, "matched": []}
    figure = figures.draw("score", "disk", dataclasses.replace(data(), score=score))
    (legend,) = figure.legends
    slices, cold, file, of_slices, spectra = [text.get_text() for text in legend.get_texts()][: len(alike)]
    assert (slices, cold) == ("slices < 4 ms (session)", "slices < 4 ms (cold)")
    assert of_slices == f"{file} (slices)" and spectra == "spectra < 4 ms"


def test_no_match_gives_its_reason() -> None:
    entry = {"site": "disk", "factor": None, "reason": "too few layouts", "scores": None}
    none = dataclasses.replace(data(), score={**data().score, "matched": [entry]})
    assert "Not matched: too few layouts." in texts(figures.draw("score", "disk", none))


def test_the_number_of_files_stands_beside_sizes_where_a_layout_has_several() -> None:
    view: Any = SimpleNamespace(contiguous="contiguous")
    table = pd.DataFrame(
        {"file_bytes": [2e6, 3e6], "files": [1, 1], "error_max": math.nan}, index=["contiguous", "chunks"]
    )
    assert sizes._size(view, table, "chunks") == "3.00 MB  +50.0 %"
    table["files"] = [1, 1234]
    assert sizes._size(view, table, "chunks") == "3.00 MB  +50.0 %  1,234 files"
    assert sizes._size(view, table, "contiguous") == "2.00 MB  1 file"
