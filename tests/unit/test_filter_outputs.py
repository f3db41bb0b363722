"""What tables, figures, the report and the recommendation make of filtered and of lossy layouts."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from figure_samples import RAW, STUDY, bars, data_of, line, repeats, row, texts
from matplotlib.figure import Figure
from report_samples import MAIN, inputs, measured
from studies import changed, load, mistake

import recommend as script
from hyperslab import figures
from hyperslab.figures import FigureData
from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.report import numbers
from hyperslab.report.data import Inputs, gather
from hyperslab.report.model import Table
from hyperslab.results.statistics import summarise
from hyperslab.studies import figures as figure_kinds

EXACT, LOSSY = "4x4x64", "4x4x256"


@cache
def filtered() -> FigureData:
    """The study of the figures with two filtered layouts, one of them lossy."""
    table = repeats("disk").copy()
    for layout, ratio in ((EXACT, 4.0), (LOSSY, 8.0)):
        here = table["layout"] == layout
        table.loc[here, "filters"] = "gzip 4" if layout == EXACT else "zfp accuracy 0.5"
        table.loc[here, ["ratio_raw", "ratio_padded"]] = [ratio, 1.25 * ratio]
        table.loc[here, ["data_bytes", "file_bytes"]] = [RAW / ratio, RAW / ratio + 1100]
    others = ~table["layout"].isin([EXACT, LOSSY])
    table.loc[others, ["ratio_raw", "ratio_padded"]] = [0.9, 1.0]
    lossy_rows = table["layout"] == LOSSY
    # Another round read elements with a larger error.
    table.loc[lossy_rows, "error_max"] = 0.25 + 0.1 * table["round"]
    study = {**copy.deepcopy(STUDY), "filtered": [EXACT, LOSSY]}
    return data_of(table, study=study)


@cache
def drawn(name: str) -> Figure:
    """A figure of it, which no test changes."""
    return figures.draw(name, "disk", filtered())


def test_a_study_without_filters_has_no_ratios() -> None:
    assert "ratios" not in figure_kinds.names(STUDY)
    assert "ratios" in figure_kinds.names({**STUDY, "filtered": [EXACT]})


def test_which_layouts_are_filtered_is_said_only_where_some_are(tmp_path: Path) -> None:
    assert "filtered" not in figure_kinds.describe(load(tmp_path, changed("rounds", 3)))
    study = load(tmp_path, changed("layouts.4x4x64.filters", ["lzf"]))
    assert figure_kinds.describe(study)["filtered"] == ["4x4x64"]


def test_bars_and_marks_are_the_two_ratios() -> None:
    axes = drawn("ratios").axes[0]
    (parts,) = bars(axes).values()
    marks = dict(zip(*reversed(line(axes, "of its chunks, filled up at the edges")), strict=True))
    for layout, ratio in ((EXACT, 4.0), (LOSSY, 8.0), ("contiguous", 0.9)):
        assert parts[row(axes, layout)].get_width() == pytest.approx(ratio)
        assert marks[row(axes, layout)] == pytest.approx(1.25 * ratio if ratio > 1 else 1.0)


@pytest.mark.parametrize("name", ["sizes", "ratios"])
def test_the_largest_error_stands_beside_the_lossy_layout_alone(name: str) -> None:
    figure = drawn(name)
    axes = figure.axes[0]
    beside = {text.get_position()[1]: text.get_text() for text in axes.texts}
    assert beside[row(axes, LOSSY)].endswith("± 0.450")
    assert [text for text in beside.values() if "±" in str(text)] == [beside[row(axes, LOSSY)]]
    assert "±: largest error of a lossy layout; others are exact" in texts(figure)


def test_without_a_lossy_layout_no_figure_speaks_of_errors() -> None:
    data = filtered()
    exact = dataclasses.replace(data, measurements=data.measurements.assign(error_max=np.nan))
    for name in ("sizes", "ratios"):
        assert "±" not in texts(figures.draw(name, "disk", exact))


def test_a_table_from_before_these_columns_can_still_be_drawn() -> None:
    old = repeats("disk").drop(columns=["error_max", "ratio_raw", "ratio_padded", "chunks_left_alone"])
    assert "±" not in texts(figures.draw("sizes", "disk", data_of(old)))


# ---- the report


def size_table(**columns: Any) -> Table:
    """The table of sizes where the layout 4x4x2 has these columns."""
    main = measured(MAIN, "main")
    here = main["layout"] == "4x4x2"
    for name, value in columns.items():
        main.loc[here, name] = value
    given = inputs(measured(MAIN, "main"), None, measurements=main)
    found = numbers.size_table(gather(Inputs(**given)), "disk", "4x4x2")
    assert found is not None
    return found


def cells(table: Table, layout: str) -> dict[str, Any]:
    (found,) = (row for row in table.rows if row[0].text == layout)
    return {column.name: cell for column, cell in zip(table.columns, found, strict=True)}


def test_filters_add_columns_to_the_table_of_sizes() -> None:
    assert "Array to stored" not in [column.name for column in size_table().columns]
    table = size_table(filters="gzip 4", ratio_raw=2.9, ratio_padded=3.8, chunks_left_alone=7)
    found = cells(table, "4x4x2")
    assert (found["Array to stored"].text, found["Whole chunks to stored"].text) == ("2.90 x", "3.80 x")
    assert found["Chunks left unfiltered"].text == "7"
    assert found["Largest error"].text == "exact"
    assert cells(table, "auto")["Array to stored"].text == "–"


def test_a_lossy_layout_has_its_error_beside_its_size() -> None:
    table = size_table(
        filters="zfp accuracy 0.5", error_max=0.4, error_rms=0.1, changed_share=0.25, error_bound=0.5
    )
    error = cells(table, "4x4x2")["Largest error"]
    assert (error.text, error.note) == ("0.400", "lossy: rms 0.100, 25.0 % of the elements; promised 0.500")
    unbound = size_table(filters="nbit 12", error_max=0.0, error_rms=0.0, changed_share=0.0)
    found = cells(unbound, "4x4x2")["Largest error"]
    assert (found.text, found.note) == ("0", "lossy: rms 0, 0.0 % of the elements")


def test_an_infinite_error_is_said_in_words() -> None:
    lost: dict[str, Any] = {"error_max": np.inf, "error_rms": np.inf, "changed_share": 0.25}
    found = cells(size_table(filters="zfp rate 4", **lost), "4x4x2")["Largest error"]
    assert (found.text, found.note) == ("a number became none", "lossy: 25.0 % of the elements")
    data = filtered()
    infinite = dataclasses.replace(data, measurements=data.measurements.assign(error_max=np.inf))
    for name in ("sizes", "ratios"):
        written = texts(figures.draw(name, "disk", infinite))
        assert "a number became none" in written and "± –" not in written


# ---- the recommendation


def recommended(directory: Path, excluded: Iterable[str]) -> dict[str, Any]:
    """What the rule writes, of a study in which 4x4x2 is fastest."""
    reasons = dict.fromkeys(excluded, "its filter is lossy")
    summarise(measured(MAIN, "main")).to_csv(directory / "summary.csv", index=False)
    chosen = {"mix": {}, "imperceptible_ms": 10, "states": ["cold"], "size_bound": 1000.0}
    asked = {
        "recommendation": {**chosen, **({"excluded": reasons} if reasons else {})},
        "contiguous": "contiguous", "automatic": "auto", "raw_bytes": 2000,
        "rounds": (3, 3),
    }  # fmt: skip
    place = {"type": "ext4", "source": "/dev/sda1", "identity": "", "node_local": False}
    context = directory / "context.json"
    context.write_text(json.dumps([{"site": "disk", "place": place}]), encoding="utf-8")
    files = SimpleNamespace(summary=str(directory / "summary.csv"), context=str(context))
    out = directory / "out.json"
    script.main(SimpleNamespace(input=files, params=SimpleNamespace(asked=asked), output=[str(out)]))
    (site,) = json.loads(out.read_text(encoding="utf-8"))["sites"]
    found: dict[str, Any] = site
    return found


def test_a_lossy_layout_is_not_recommended_unless_asked_for(tmp_path: Path) -> None:
    assert recommended(tmp_path, [])["pick"] == "4x4x2"
    found = recommended(tmp_path, ["4x4x2"])
    assert found["pick"] == "auto"
    assert "lossy" in found["left_out"]["4x4x2"]
    none = recommended(tmp_path, MAIN)
    assert (none["pick"], none["reason"]) == (None, "no layout is left: its filter is lossy")


def test_the_study_says_which_layouts_are_lossy(tmp_path: Path) -> None:
    content = changed("layouts.4x4x64.filters", [{"nbit": 12}])
    load(tmp_path, content)
    assert list(PlannedStudy(tmp_path / "mine.yaml").recommendation_settings()["excluded"]) == ["4x4x64"]
    content["recommendation"]["lossy"] = True
    load(tmp_path, content)
    assert "excluded" not in PlannedStudy(tmp_path / "mine.yaml").recommendation_settings()
    load(tmp_path, changed("layouts.4x4x64.filters", ["gzip"]))
    settings = PlannedStudy(tmp_path / "mine.yaml").recommendation_settings()
    assert settings.keys() == {"mix", "imperceptible_ms", "states", "size_bound"}


def test_no_driver_is_left_out_by_its_name(tmp_path: Path) -> None:
    layouts = {"core": {"settings": {"driver": "core"}}, "stdio": {"settings": {"driver": "stdio"}}}
    load(tmp_path, {**changed("layouts", layouts), "grids": [], "score": None, "recommendation": {}})
    assert "excluded" not in PlannedStudy(tmp_path / "mine.yaml").recommendation_settings()


def test_only_reads_and_writes_take_lossy_layouts(tmp_path: Path) -> None:
    content = changed("layouts.4x4x64.filters", [{"nbit": 12}])
    content["cases"]["many"] = {"objects": "x"}
    said = mistake(tmp_path, content)
    assert said.startswith(
        "cases.many.layouts: only read and write cases can measure the error of a lossy filter"
    )
