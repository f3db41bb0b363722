"""Figures and tables of settings: the source's table, many small datasets, requests, what was in force."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from figure_samples import bars, line, row, texts
from report_samples import CONTEXT

from hyperslab import figures
from hyperslab.figures import FigureData
from hyperslab.report.data import Inputs, gather
from hyperslab.report.model import Table
from hyperslab.report.settings import objects_table, published_table, requests_table, settings_table
from hyperslab.results.statistics import summarise
from hyperslab.results.tables import tidy
from hyperslab.studies import figures as figure_kinds

LAYOUTS = ["small", "large"]
SHAPE = {"write": [10, 10], "few": [100, 10], "many": [1000, 10]}
CASES: dict[str, dict[str, Any]] = {
    "write": {"kind": "write", "states": ["write"], "title": "At once"},
    "few": {"kind": "objects", "states": ["write", "cold"], "title": "Few"},
    "many": {"kind": "objects", "states": ["write", "cold"], "title": "Many"},
}
PUBLISHED = {"write": {"small": {"total_s": 50.0, "write_s": 40.0, "file_bytes": 3e6}}}
STUDY: dict[str, Any] = {
    "shape": [1000, 10], "layouts": LAYOUTS, "grids": [], "score": False, "tradeoff": [],
    "cases": {
        name: {**case, "shape": SHAPE[name], "layouts": LAYOUTS, "sites": ["*"]}
        for name, case in CASES.items()
    },
    "published": PUBLISHED, "settings_vary": True,
}  # fmt: skip


def _row(layout: str, case: str, state: str, round_: int, **columns: Any) -> dict[str, Any]:
    """A repeat of the one site; the large layout takes twice as long."""
    return {
        "study": "s", "site": "disk", "layout": layout, "case": case, "kind": CASES[case]["kind"],
        "phase": "main", "round": round_, "state": state, "repeat": 0, "stale": False, "noisy": False,
        "overlap": False, "file_bytes": 1e6, "began_wall_s": 0, "ended_wall_s": 1, **columns,
    }  # fmt: skip


def rows() -> pd.DataFrame:
    """One repeat of each case and state, in three equal rounds."""
    found = []
    for layout, factor in zip(LAYOUTS, (1, 2), strict=True):
        for number in range(3):
            spans = {"total_s": 5.0 * factor, "write_s": 2.0 * factor, "time_s": 6.0 * factor}
            calls = {"call_mean_s": 0.1 * factor, "call_max_s": 0.3 * factor}
            asked = {"requested_reads": 0, "requested_bytes": 0, "requested_writes": 7 * factor}
            counted = {**asked, "written_bytes": 4e6 * factor}
            found.append(_row(layout, "write", "write", number, **spans, **calls, **counted))
            for case, objects in (("few", 100), ("many", 1000)):
                spans = {"time_s": 0.01 * objects * factor}
                found.append(_row(layout, case, "write", number, **spans, **calls, **counted))
                reading = {"requested_reads": factor, "requested_bytes": 4096, "open_s": 1e-3}
                spans = {"time_s": 1e-3 * factor}
                found.append(_row(layout, case, "cold", number, **spans, **reading))
    return tidy(found)


@pytest.fixture(scope="module")
def data() -> FigureData:
    """The study as figures see it."""
    table = rows()
    return FigureData(table, summarise(table), {}, {"sites": []}, STUDY)


def test_only_studies_that_need_them_have_these_figures() -> None:
    assert figure_kinds.names(STUDY) == ["published-write", "sizes", "writes", "objects", "requests"]
    plain = {**STUDY, "cases": {"write": STUDY["cases"]["write"]}}
    del plain["published"], plain["settings_vary"]
    assert figure_kinds.names(plain) == ["sizes", "writes"]
    for name in figure_kinds.names(STUDY):
        assert figure_kinds.caption(name)


def test_published_numbers_stand_right_of_the_measured_ones(data: FigureData) -> None:
    figure = figures.draw("published-write", "disk", data)
    left, right = figure.axes
    for axes, write, total in ((left, 2.0, 5.0), (right, 40.0, 50.0)):
        found = bars(axes)
        inside, rest = found["write calls"][0], found["open, flush and close"][0]
        assert inside.get_width() == pytest.approx(write)
        assert rest.get_x() + rest.get_width() == pytest.approx(total)
    # The source has nothing of the other layout.
    assert bars(right)["write calls"][row(left, "large")].get_width() == 0
    said = texts(figure)
    assert "5.00 s, 2.00 s; 1.00 MB" in said and "50.0 s, 40.0 s; 3.00 MB" in said


def test_objects_are_drawn_against_their_number(data: FigureData) -> None:
    figure = figures.draw("objects", "disk", data)
    titles = [axes.get_title(loc="left") for axes in figure.axes if axes.get_visible()]
    assert titles == ["writing one of them", "reading the latest, cold"]
    for layout, factor in zip(LAYOUTS, (1, 2), strict=True):
        x, y = line(figure.axes[0], layout)
        assert x.tolist() == [100, 1000]
        assert y.tolist() == pytest.approx([0.01 * factor] * 2)
        assert line(figure.axes[1], layout)[1].tolist() == pytest.approx([1e-3 * factor] * 2)


def test_requests_stand_beside_times(data: FigureData) -> None:
    figure = figures.draw("requests", "disk", data)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["At once, write", "Few, write", "Few, cold", "Many, write", "Many, cold"]
    said = texts(figure)
    assert "6.00 s; 7 writes 4.00 MB" in said and "12.0 s; 14 writes 8.00 MB" in said
    assert "1.00 ms (open 1.00 ms); 1 read 0.0041 MB" in said


def test_figures_of_a_site_without_results_say_so(data: FigureData) -> None:
    for name in ("published-write", "objects", "requests"):
        assert "Not measured here." in texts(figures.draw(name, "elsewhere", data))


# ---- tables of the report


def report_data(**changes: Any) -> Any:
    """The study as the report sees it."""
    table = rows()
    study = {**STUDY, "layouts": dict.fromkeys(LAYOUTS, {}), **changes.pop("study", {})}
    context = changes.pop("context", [CONTEXT])
    return gather(
        Inputs(
            study=study, measurements=table, summary=summarise(table), context=context, score={},
            recommendation={"sites": []}, confirmation=None, figures={}, expected=[],
        )
    )  # fmt: skip


def cells(table: Any) -> list[list[str]]:
    """The words of a table."""
    assert isinstance(table, Table)
    return [[cell.text for cell in line_] for line_ in table.rows]


def test_the_published_table_of_the_report() -> None:
    found = published_table(report_data(), "disk", None)
    first, second = cells(found)
    assert first[:5] == ["small", "5.00 s", "50.0 s", "2.00 s", "40.0 s"]
    assert first[5:] == ["100 ms", "–", "300 ms", "1.00 MB", "3.00 MB"]
    assert second[:3] == ["large", "10.0 s", "–"]
    assert published_table(report_data(study={"published": {}}), "disk", None) is None


def test_the_table_of_objects() -> None:
    found = cells(objects_table(report_data(), "disk", None))
    assert [line_[:3] for line_ in found] == [
        ["small", "100", "10.0 ms"], ["large", "100", "20.0 ms"],
        ["small", "1,000", "10.0 ms"], ["large", "1,000", "20.0 ms"],
    ]  # fmt: skip
    assert found[0][4] == "0.0700"


def test_the_table_of_requests() -> None:
    found = cells(requests_table(report_data(), "disk", None))
    assert ["small", "At once", "write", "6.00 s", "0", "0 MB", "7", "4.00 MB"] in found
    assert requests_table(report_data(study={"settings_vary": False}), "disk", None) is None


def test_settings_by_layout_show_what_differs_alone() -> None:
    context = [
        {**CONTEXT, "layouts": [layout], "settings": {
            "sieve_bytes": 65536, "libver": ["earliest", "latest"],
            "alignment": {"threshold_bytes": 1, "bytes": size},
        }}
        for layout, size in (("small", 1), ("large", 4096))
    ]  # fmt: skip
    found = settings_table(report_data(context=context))
    assert found is not None
    assert cells(found) == [["small", "1"], ["large", "4096"]]
    assert settings_table(report_data(context=context[:1])) is None
