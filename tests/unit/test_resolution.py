"""Views that become finer: what a study may say, what is timed and counted, tables, figure and page of it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from figure_samples import data_of, texts
from studies import changed, load, mistake

from hyperslab import figures, formats
from hyperslab.cases import timed_selections
from hyperslab.cases.context import Context, VerificationError
from hyperslab.cases.resolution import run
from hyperslab.cases.timed_selections import Session
from hyperslab.data.levels import truth
from hyperslab.data.selections import Box, asked_boxes, at_level
from hyperslab.data.values import open_values
from hyperslab.layouts import layout_of
from hyperslab.report.data import Inputs, gather
from hyperslab.report.levels import view_table
from hyperslab.results.recommend import recommend
from hyperslab.results.resolution import by_level, pictures, typical
from hyperslab.results.statistics import summarise
from hyperslab.results.tables import tidy
from hyperslab.specifications import Specification
from hyperslab.studies import figures as named
from hyperslab.studies.specification import cell_specification
from hyperslab.studies.summary import study_meta

SHAPE, EXTENT = [40, 48, 200], [30, 20, 90]
LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {"chunks": [8, 8, 40]},
    "with-levels": {"chunks": [8, 8, 40], "pyramid": {"levels": 3}},
    "means": {"chunks": [8, 8, 40], "pyramid": {"levels": 2, "by": "averaging"}},
    "zarr": {"format": "zarr", "chunks": [8, 8, 40]},
    "idx": {"format": "idx", "bits_per_block": 10, "blocks_per_file": 16},
}
VIEW = {"resolution": {"x": 30, "y": 20, "z": 90}, "level": 3, "picture": ["z", "x"]}


def content(**case: Any) -> dict[str, Any]:
    """A study with one view."""
    return {
        "title": "a study",
        "dataset": {"axes": ["x", "y", "z"], "shape": SHAPE, "dtype": "uint16"},
        "layouts": LAYOUTS,
        "cases": {"view": {**VIEW, **case}},
        "repeats": {"cold": 3, "warm": 2},
        "recommendation": {"mix": {"view": 1}, "size_bound": 2, "confirm_rounds": 0},
    }


# ---- in a study


def test_a_level_stands_for_all_finer_ones(tmp_path: Path) -> None:
    found = load(tmp_path, content()).cases["view"]
    assert (found["levels"], found["extent"], found["picture"]) == ([3, 2, 1, 0], EXTENT, ["z", "x"])
    assert load(tmp_path, content(level=[5, 2])).cases["view"]["levels"] == [5, 2]
    assert load(tmp_path, content(level=0)).cases["view"]["levels"] == [0]
    without = {key: value for key, value in VIEW.items() if key != "picture"}
    study = content()
    study["cases"]["view"] = without
    assert load(tmp_path, study).cases["view"]["picture"] == ["y", "z"]


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ({"level": None}, "a `resolution` case needs `level`"),
        ({"level": 9}, "cases.view.level: 9 does not exist; there are 0, which is all, to 8"),
        ({"level": [1, 2]}, "level: a view becomes finer; name the coarsest level first"),
        ({"level": [2, 2]}, "level: each at most once"),
        ({"states": ["cold", "session"]}, "states: views are cold and warm, and have no session"),
        ({"picture": ["x", "t"]}, "cases.view.picture: ['x', 't'] must name two of x, y, z"),
        ({"picture": ["x", "x"]}, "cases.view.picture"),
        ({"resolution": {"x": 41}}, "cases.view.resolution.x: extent 41 does not fit: axis x has 40"),
        ({"resolution": {"t": 4}}, "cases.view.resolution.t: no such axis"),
        ({"resolution": "all"}, "cases.view.resolution: expected a mapping of axes"),
        ({"memory_dtype": "float32"}, "memory_dtype: only a `read` case has it"),
    ],
    ids=str,
)
def test_a_view_that_cannot_be_is_one_line(tmp_path: Path, case: dict[str, Any], says: str) -> None:
    assert says in mistake(tmp_path, content(**case))


def test_pictures_need_two_axes(tmp_path: Path) -> None:
    study = content(resolution={"x": "all"}, level=1, picture=None)
    study["dataset"] = {"axes": ["x"], "shape": [200], "dtype": "uint16"}
    study["layouts"] = {"plain": {"chunks": [40]}}
    assert "needs two axes or more" in mistake(tmp_path, study)


def test_only_views_have_pictures(tmp_path: Path) -> None:
    assert "picture: only a `resolution` case has it" in mistake(
        tmp_path, changed("cases.slices.picture", ["x", "y"])
    )


# ---- measured


def context_of(directory: Path, layout: str, round_: str = "r0", **case: Any) -> Context:
    """A newly written file of a layout, and what measures the view."""
    study = load(directory, content(**case))
    spec: Specification = cell_specification(study, layout, "view", round_)
    format_, values = formats.load(spec["layout"]["format"]), open_values(spec["dataset"])
    path = str(directory / f"a{layout_of(spec['layout']).suffix}")
    format_.prepare(spec)
    format_.generate(path, spec, values)
    return Context(spec, format_, path, values, False)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_view_is_read_from_coarse_to_fine(disk: Path, tmp_path: Path, layout: str) -> None:
    directory = disk / layout
    directory.mkdir()
    context = context_of(directory, layout)
    outcome = run(context)
    assert outcome.skipped == {}
    rows = outcome.repeats
    assert [(row["state"], row["repeat"]) for row in rows] == [
        ("warm", 0), ("warm", 1), ("cold", 0), ("cold", 1), ("cold", 2),
    ]  # fmt: skip
    drawn = {
        state: list(zip(asked_boxes(context.specification, state), range(3), strict=False))
        for state in ("warm", "cold")
    }
    for row in rows:
        levels = json.loads(row["levels"])
        assert [one["level"] for one in levels] == [3, 2, 1, 0]
        # The same part at all levels: it begins where the coarsest has an element.
        box, _ = drawn[row["state"]][row["repeat"]]
        assert row["origin"] == [start // 8 * 8 for start in box.origin]
        kept = [[-(-width // 2 ** one["level"]) for width in EXTENT] for one in levels]
        assert [one["asked_bytes"] for one in levels] == [2 * math.prod(each) for each in kept]
        for name in ("time_s", "asked_bytes", "requested_bytes", "device_bytes", "chunks_touched"):
            assert row[name] == pytest.approx(sum(one[name] for one in levels))
        opening = row["open_s"] if row["state"] == "cold" else 0
        assert row["first_picture_s"] == pytest.approx(levels[0]["time_s"] + opening)
        assert row["first_requested_bytes"] == levels[0]["requested_bytes"]
        if row["state"] == "cold":
            assert row["resident_before"] <= 0.01
            assert row["first_requested_bytes"] == row["first_requested_predicted_bytes"] > 0
        else:
            assert row["resident_before"] >= 0.99 and "first_requested_predicted_bytes" not in row
    # What keeps nothing between two levels, and what keeps all of it, is told exactly.
    exact = layout in ("zarr", "idx")
    assert ("requested_predicted_bytes" in rows[-1]) == exact
    if exact:
        assert rows[-1]["requested_predicted_bytes"] == rows[-1]["requested_bytes"]
    # Only one view of the first round shows what it looks like.
    assert [row["levels"].count('"picture"') for row in rows] == [4, 0, 0, 0, 0]


def test_a_preview_of_a_pyramid_asks_for_little(disk: Path) -> None:
    asked = {}
    for layout in ("plain", "with-levels", "means"):
        directory = disk / f"preview-{layout}"
        directory.mkdir()
        rows = run(context_of(directory, layout, resolution={"x": "all"}, level=[3])).repeats
        asked[layout] = rows[-1]["first_requested_bytes"]
    # Of two levels of means the coarser is read for the third, and thinned.
    assert asked["plain"] > 100 * asked["with-levels"] and asked["plain"] > 15 * asked["means"]


def test_a_view_of_idx_reads_nothing_twice(disk: Path) -> None:
    asked: dict[str, list[Any]] = {}
    for name, level in (("refined", [3, 2, 1, 0]), ("finest", [0])):
        directory = disk / f"idx-{name}"
        directory.mkdir()
        row = run(context_of(directory, "idx", resolution={"x": "all"}, level=level)).repeats[-1]
        asked[name] = [row["requested_bytes"], row["chunks_touched"]]
    assert asked["refined"] == asked["finest"]


@pytest.mark.parametrize(("short", "cold"), [(3600.0, 6), (1e-9, 3)])
def test_short_views_are_repeated_more_often(
    tmp_path: Path, disk: Path, monkeypatch: pytest.MonkeyPatch, short: float, cold: int
) -> None:
    monkeypatch.setattr(timed_selections, "SHORT_SECONDS", short)
    study = load(tmp_path, {**content(), "repeats": {"warm": 2}})
    spec = cell_specification(study, "idx", "view", "r0")
    assert (spec["repeats"]["cold"], spec["most_repeats"]) == (15, {"cold": 45})
    directory = disk / f"short-{cold}"
    directory.mkdir()
    context = context_of(directory, "idx")
    context = replace(context, specification={**context.specification, "most_repeats": {"cold": 6}})
    states = [row["state"] for row in run(context).repeats]
    assert states.count("cold") == cold and states.count("warm") == 2


def test_a_wrong_element_of_any_level_fails_the_cell(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timed = Session.timed_selection

    def spoilt(self: Session, opened: Any, box: Box, state: str, repeat: int) -> Any:
        row = timed(self, opened, box, state, repeat)
        if getattr(box, "level", 0) == 2 and repeat == 1:
            self._read[-1] = (*self._read[-1][:3], b"another digest")
        return row

    monkeypatch.setattr(Session, "timed_selection", spoilt)
    directory = disk / "spoilt"
    directory.mkdir()
    with pytest.raises(VerificationError, match="selection 1 of state warm differs"):
        run(context_of(directory, "means"))


def test_pictures_are_of_what_was_read(disk: Path) -> None:
    directory = disk / "pictures"
    directory.mkdir()
    context = context_of(directory, "means", round_="r0")
    row = run(context).repeats[0]
    found = pictures(pd.DataFrame([{**row, "layout": "means"}]))["means"]
    assert [one.level for one in found] == [3, 2, 1, 0]
    # The second axis is the one that is not shown; every level has an element at multiples of 8.
    plane = row["origin"][1] + 20 // 2 // 8 * 8
    for one in found:
        box = at_level(Box((row["origin"][0], plane, row["origin"][2]), (30, 1, 90)), one.level)
        values = truth(context.values, box, 2)[:, 0, :].T.astype(float)
        assert one.pixels.shape == values.shape
        # Brighter where the value is larger.
        order = np.argsort(values.reshape(-1), kind="stable")
        assert (np.diff(one.pixels.reshape(-1)[order].astype(int)) >= 0).all()
    assert found[-1].pixels.min() == 0 and found[-1].pixels.max() == 255
    other = disk / "another-round"
    other.mkdir()
    assert '"picture"' not in run(context_of(other, "plain", round_="r1")).repeats[0]["levels"]


# ---- shown


def table() -> pd.DataFrame:
    """Repeats of two layouts: levels of 1, 2 and 3 ms and as many kB; in round 1 twice the time."""
    rows = []
    for number, layout in enumerate(("plain", "with-levels")):
        for round_ in (0, 1, 2):
            for repeat in (0, 1):
                for state, open_s in (("cold", 0.01), ("warm", None)):
                    levels: list[dict[str, Any]] = [
                        {"level": level, "time_s": seconds * 1e-3 * (1 + (round_ == 1)), "asked_bytes": 10,
                         "requested_bytes": 1000 * seconds * (1 + 9 * number), "requested_reads": 1,
                         "device_bytes": 4096, "chunks_touched": 1}
                        for level, seconds in ((4, 1), (2, 2), (0, 3))
                    ]  # fmt: skip
                    if repeat == round_ == 0 and state == "cold":
                        pixels = np.arange(12, dtype=np.uint8) * (number + 1)
                        for one in levels:
                            one["picture"] = {"shape": [3, 4], "pixels": encoded(pixels)}
                    rows.append({
                        "study": "s", "site": "disk", "layout": layout, "case": "view", "kind": "resolution",
                        "phase": "main", "round": round_, "state": state, "repeat": repeat, "open_s": open_s,
                        "time_s": sum(one["time_s"] for one in levels), "first_picture_s": 0.011,
                        "file_bytes": 1000, "device_bytes": 3 * 4096, "requested_reads": 3, "noisy": False,
                        "requested_bytes": sum(one["requested_bytes"] for one in levels), "overlap": False,
                        "stale": False, "levels": json.dumps(levels),
                    })  # fmt: skip
    return tidy(rows)


def encoded(pixels: np.ndarray[Any, Any]) -> str:
    import base64
    import zlib

    return base64.b64encode(zlib.compress(pixels.tobytes())).decode()


def test_each_level_is_a_row_with_what_came_before() -> None:
    found = by_level(table())
    assert len(found) == 2 * 3 * 2 * 2 * 3
    cold = found[(found["state"] == "cold") & (found["round"] == 0) & (found["layout"] == "with-levels")]
    assert cold["so_far_time_s"][:3].tolist() == pytest.approx([0.011, 0.013, 0.016])
    assert cold["so_far_requested_bytes"][:3].tolist() == [10_000, 30_000, 60_000]
    assert cold["requested_bytes"][:3].tolist() == [10_000, 20_000, 30_000]
    warm = found[found["state"] == "warm"]
    assert warm["so_far_time_s"][:3].tolist() == pytest.approx([0.001, 0.003, 0.006])
    times = typical(warm, "time_s")
    assert times.index.tolist() == [4, 2, 0]
    # The geometric mean of 1, 2 and 1 ms.
    assert times.loc[4, "plain"] == pytest.approx(2 ** (1 / 3) * 1e-3)
    unknown = by_level(table().assign(device_bytes=math.nan))
    assert unknown["device_bytes"].isna().all() and unknown["requested_bytes"].notna().all()
    unknown = by_level(table().assign(requested_bytes=math.nan))
    assert unknown["requested_bytes"].isna().all() and unknown["requested_reads"].notna().all()
    assert by_level(table().assign(levels="")).empty


def test_a_mix_weighs_the_time_to_the_finest_level() -> None:
    (found,) = recommend(summarise(table()), mix={"view": 1.0}, states=["cold"])
    assert found.ranking[0].times["view cold"] == pytest.approx(0.016 ** (2 / 3) * 0.022 ** (1 / 3), rel=1e-6)


def study_of(tmp_path: Path) -> Any:
    study = content(level=[4, 2, 0], title="A view")
    study["layouts"] = {name: LAYOUTS[name] for name in ("plain", "with-levels")}
    return load(tmp_path, study)


def test_the_figure_has_lines_and_pictures(tmp_path: Path) -> None:
    study = named.describe(study_of(tmp_path))
    assert [name for name in named.names(study) if "view" in name] == ["resolution-view", "session-view"]
    figure = figures.draw("resolution-view", "disk", data_of(table(), study=study))
    left, right, *shown = figure.axes
    assert [label.get_text() for label in left.get_xticklabels()] == ["1 of 16", "1 of 4", "all"]
    (plain, levels) = right.lines
    assert np.asarray(plain.get_ydata()) == pytest.approx([1000, 3000, 6000])
    assert np.asarray(levels.get_ydata()) == pytest.approx([10_000, 30_000, 60_000])
    # Two layouts that show different pictures have a row each, of three levels.
    assert len(shown) == 6 and [len(axes.images) for axes in shown] == [1] * 6
    assert np.asarray(shown[0].images[0].get_array()).tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    words = texts(figure)
    assert "A view: from the first picture to the finest" in words
    assert "1 of 16, plain" in words and "all, with-levels" in words
    # What opening asks the kernel for is counted nowhere.
    assert "times with opening, bytes without" in words
    same = table()
    alike = figures.draw("resolution-view", "disk", data_of(same[same["layout"] == "plain"], study=study))
    assert len(alike.axes) == 5 and "1 of 16, plain" not in texts(alike)
    nothing = data_of(same.assign(levels=""), study=study)
    assert "Not measured here." in texts(figures.draw("resolution-view", "disk", nothing))


def test_times_that_a_limit_holds_back_are_means_and_called_so(tmp_path: Path) -> None:
    slow = table().query("repeat == 1").assign(repeat=2)
    slow["levels"] = [
        json.dumps([{**one, "time_s": 100 * one["time_s"]} for one in json.loads(levels)])
        for levels in slow["levels"]
    ]
    both = pd.concat([table(), slow], ignore_index=True)
    study = named.describe(study_of(tmp_path))
    # Of the first level, with 10 ms of opening: 1, 1 and 100 ms, in round 1 twice as long.
    for throttled_s, rounds in ((0.0, (0.011, 0.012)), (1.0, (0.132 / 3, 0.234 / 3))):
        held = data_of(both.assign(throttled_s=throttled_s), study=study)
        figure = figures.draw("resolution-view", "disk", held)
        left, right, *_ = figure.axes
        expected = rounds[0] ** (2 / 3) * rounds[1] ** (1 / 3)
        assert np.asarray(left.lines[0].get_ydata())[0] == pytest.approx(expected)
        assert np.asarray(right.lines[0].get_ydata()) == pytest.approx([1000, 3000, 6000])
        words = texts(figure)
        assert ("geometric mean of the means of 3 rounds" in words) == (throttled_s > 0)
        assert ("bytes: medians in place of means" in words) == (throttled_s > 0)


def test_the_page_has_every_level(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    given = Inputs(
        study=study_meta(study), measurements=table(), summary=summarise(table()), context=[], score={},
        recommendation={}, confirmation=None, figures={}, expected=[],
    )  # fmt: skip
    found = view_table(gather(given), "disk", "view", None)
    assert found is not None and len(found.rows) == 3 * 2
    words = [[cell.text for cell in row] for row in found.rows]
    assert [row[:2] for row in words[:3]] == [
        ["1 of 16", "plain"],
        ["1 of 16", "with-levels"],
        ["1 of 4", "plain"],
    ]
    assert words[0][2:4] == ["1.00 ms", "11.0 ms"]
    assert [column.name for column in found.columns][2:4] == ["Cold, this level", "Cold, until it is there"]
    assert view_table(gather(given), "disk", "another", None) is None
