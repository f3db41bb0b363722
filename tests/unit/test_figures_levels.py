"""The figure and the table of selections at several levels hold the numbers of the tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from figure_samples import STUDY, data_of, repeats, texts

from hyperslab import figures
from hyperslab.report.data import Inputs, gather
from hyperslab.report.levels import levels_table
from hyperslab.results.statistics import summarise
from hyperslab.studies import figures as named

LEVELS = {6: "view-level6", 3: "view-level3", 0: "view-level0"}
FEW = ["contiguous", "4x4x128", "auto"]


def study() -> dict[str, Any]:
    """The sample study, whose case is read at three levels."""
    case = STUDY["cases"]["slices"]
    cases = {
        name: {**case, "title": f"Whole volume, level {level}", "level": level, "family": "view"}
        for level, name in LEVELS.items()
    }
    return {**STUDY, "cases": cases, "tradeoff": []}


def table() -> pd.DataFrame:
    """Repeats of three levels: of each finer one, eight times the bytes and four times the time."""
    rows = repeats()
    rows = rows[(rows["case"] == "slices") & rows["layout"].isin(FEW)]
    parts = []
    for step, name in enumerate(LEVELS.values()):
        requested = 10_000.0 * 8**step
        parts.append(rows.assign(case=name, time_s=rows["time_s"] * 4**step, requested_bytes=requested))
    return pd.concat(parts, ignore_index=True)


def test_a_family_of_levels_has_one_figure() -> None:
    assert [name for name in named.names(study()) if name.startswith("levels-")] == ["levels-view"]
    assert not [name for name in named.names(STUDY) if name.startswith("levels-")]


def test_lines_go_from_coarse_to_fine() -> None:
    rows = table()
    figure = figures.draw("levels-view", "disk", data_of(rows, study=study()))
    left, right = figure.axes
    for axes in (left, right):
        assert [label.get_text() for label in axes.get_xticklabels()] == ["1 of 64", "1 of 8", "all"]
        assert len(axes.lines) == len(FEW) and axes.get_yscale() == "log"
    for line in right.lines:
        assert np.asarray(line.get_ydata()).tolist() == [10_000, 80_000, 640_000]
    for line in left.lines:
        times = np.asarray(line.get_ydata()).tolist()
        assert times[1:] == pytest.approx([4 * times[0], 16 * times[0]])
    assert left.get_ylabel() == "time of a cold read" and right.get_ylabel() == "bytes requested"
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert len(legend) == len(FEW)


def test_what_was_read_warm_alone_is_not_said_to_be_not_measured() -> None:
    rows = table()
    figure = figures.draw("levels-view", "disk", data_of(rows[rows["state"] == "warm"], study=study()))
    assert "Not measured cold here." in texts(figure)


def test_a_layout_that_lacks_the_first_state_has_no_counts_of_another() -> None:
    rows = table()
    rows = rows[(rows["layout"] != "auto") | (rows["state"] != "cold")]
    rows = rows.assign(requested_bytes=rows["requested_bytes"].where(rows["state"] == "cold", 7e9))
    given = Inputs(
        study=study(), measurements=rows, summary=summarise(rows), context=[], score={}, recommendation={},
        confirmation=None, figures={}, expected=[],
    )  # fmt: skip
    found = levels_table(gather(given), "disk", None)
    assert found is not None
    columns = [column.name for column in found.columns]
    shown = [dict(zip(columns, (cell.text for cell in row), strict=True)) for row in found.rows]
    assert [row["Read of each axis"] for row in shown] == [
        word for word in ("1 of 64", "1 of 8", "all") for _ in FEW
    ]
    for row in shown:
        lacking = row["Layout"] == "auto"
        assert (row["cold"] == row["Requested"] == row["Asked"] == "–") == lacking
        assert row["warm"] != "–" and row["Requested"] != "7,000.0 MB"
    assert {row["Requested"] for row in shown if row["Read of each axis"] == "all"} == {"0.64 MB", "–"}
