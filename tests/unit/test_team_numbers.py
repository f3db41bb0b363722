"""Figures and tables of several workers: means, speed-ups and rates against the numbers they are made of."""

from __future__ import annotations

import dataclasses
import math
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from figure_samples import texts
from matplotlib.colors import to_hex
from matplotlib.container import ErrorbarContainer
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from report_samples import meta, plain_layout

from hyperslab import figures
from hyperslab.cases.parallel.case import in_force
from hyperslab.figures import FigureData
from hyperslab.report import workers as report
from hyperslab.report.data import Data, Inputs, gather
from hyperslab.report.fastest import fastest_table
from hyperslab.results.scaling import against, speedups
from hyperslab.results.statistics import summarise
from hyperslab.results.tables import tidy
from hyperslab.studies import figures as figure_kinds
from hyperslab.studies.case_kinds.workers import API_NAMES

REPEATS, ROUNDS, CORES = 4, 3, 2
# Seconds of the reduction by so many processes; twice as long by ranks.
SECONDS = {1: 0.8, 2: 0.5, 4: 1.0}
APIS = {"hdf5": 0.2, "mpiio": 0.1, "posix": 0.05}
ASKED = 2e6
REDUCE = {
    "kind": "reduce",
    "states": ["cold", "warm"],
    "shape": [8, 8, 64],
    "layouts": ["a"],
    "family": "slices",
}
PARALLEL: dict[str, Any] = {
    "datasets": 4, "bytes": 2**18, "transfer": 2**16, "block": 4096, "interleaved": True, "collective": False,
    "hints": {},
}  # fmt: skip


def study() -> dict[str, Any]:
    """The part of a study that figures need: one reduction and one parallel family."""
    cases: dict[str, Any] = {}
    for by, letter in (("processes", "p"), ("ranks", "r")):
        for workers in SECONDS:
            title = f"variance, {workers} {by}"
            cases[f"slices-{workers}{letter}"] = {**REDUCE, "by": by, "workers": workers, "title": title}
    for api in APIS:
        cases[f"all-{api}-2r"] = {
            "kind": "parallel", "states": ["write", "cold"], "shape": [4, 64], "layouts": ["a"],
            "family": "all", "by": "ranks", "workers": 2, "title": f"blocks, {API_NAMES[api]}, 2 ranks",
            "parallel": {**PARALLEL, "api": api},
        }  # fmt: skip
    return {
        "shape": [8, 8, 64],
        "layouts": ["a"],
        "grids": [],
        "cases": cases,
        "score": False,
        "tradeoff": [],
    }


STUDY = study()


@cache
def rows(rounds: int = ROUNDS) -> pd.DataFrame:
    """Repeats around the seconds of each case; a slow round slows all of its cells alike. Not to be changed
    in place.
    """
    found = []
    for name, case in STUDY["cases"].items():
        for round_ in range(rounds):
            for repeat in range(REPEATS):
                spread = (
                    (1 + 0.5 * round_) * (1 + 0.02 * (repeat - 1.5)) * (1 + 0.001 * hash_of(name, round_))
                )
                common = {
                    "study": "s", "site": "disk", "layout": "a", "case": name, "kind": case["kind"],
                    "phase": "main", "round": round_, "repeat": repeat, "processes": case["workers"],
                    "physical_cores": CORES, "asked_bytes": ASKED, "requested_bytes": 3e6,
                    "chunks_shared": 25 * (case["workers"] - 1),
                    "noisy": False, "overlap": False, "stale": False,
                }  # fmt: skip
                if case["kind"] == "reduce":
                    seconds = SECONDS[case["workers"]] * (2 if case["by"] == "ranks" else 1)
                    found += [
                        {**common, "state": state, "time_s": seconds * spread * factor}
                        for state, factor in (("cold", 2), ("warm", 1))
                    ]
                else:
                    seconds = APIS[case["parallel"]["api"]] * spread
                    said = {"in_force": "romio_cb_write enable"} if "mpiio" in name else {}
                    found.append(
                        {**common, **said, "state": "write", "time_s": 2 * seconds, "write_s": seconds}
                    )
                    found.append({**common, **said, "state": "cold", "time_s": seconds})
    return tidy(found)


def hash_of(name: str, round_: int) -> int:
    """A small number that differs between cells, so that there is something to pool."""
    return sum(map(ord, name)) * (round_ + 1) % 7 - 3


@cache
def summary(rounds: int = ROUNDS) -> pd.DataFrame:
    """The summary of these rows; not to be changed in place, either."""
    return summarise(rows(rounds))


def data(table: pd.DataFrame, known: pd.DataFrame | None = None) -> FigureData:
    return FigureData(table, summarise(table) if known is None else known, {}, {}, STUDY)


def page_data(table: pd.DataFrame, known: pd.DataFrame | None = None) -> Data:
    described = meta(layouts={"a": plain_layout([4, 4, 16])}, cases=STUDY["cases"])
    return gather(
        Inputs(
            study=described, measurements=table, summary=summarise(table) if known is None else known,
            context=[], score={},
            recommendation={}, confirmation=None, figures={"disk": []}, expected=[],
        )
    )  # fmt: skip


# ---- statistics


def test_a_speed_up_is_the_ratio_in_an_average_round() -> None:
    found = summary()
    found = found[found["state"] == "warm"]
    counts = {workers: f"slices-{workers}p" for workers in SECONDS}
    table = speedups(found, counts).set_index("workers")
    assert list(table.index) == [1, 2, 4]
    assert table.loc[1, "ratio"] == 1 and math.isnan(table.loc[1, "low"])
    for workers in (2, 4):
        assert table.loc[workers, "ratio"] == pytest.approx(SECONDS[1] / SECONDS[workers], rel=0.01)
        assert table.loc[workers, "low"] < table.loc[workers, "ratio"] < table.loc[workers, "high"]
        # Rounds differ by half, and cells of one round by a few thousandths: pairing takes the former out.
        assert table.loc[workers, "high"] / table.loc[workers, "low"] < 1.05
        assert table.loc[workers, "different"]


def test_without_the_fewest_workers_there_is_no_speed_up() -> None:
    found = summary()
    found = found[(found["state"] == "warm") & (found["case"] != "slices-1p")]
    assert speedups(found, {workers: f"slices-{workers}p" for workers in SECONDS}).empty


def test_what_was_not_measured_is_not_compared() -> None:
    found = summary()
    found = found[found["state"] == "write"]
    table = against(found, "all-hdf5-2r", ["all-mpiio-2r", "all-none-2r", "all-mpiio-2r"])
    assert list(table["case"]) == ["all-mpiio-2r"]
    assert table["ratio"][0] == pytest.approx(2, rel=0.01)
    assert against(found, "all-none-2r", ["all-mpiio-2r"]).empty


def test_under_three_rounds_there_is_no_interval() -> None:
    found = summary(rounds=2)
    found = found[found["state"] == "warm"]
    table = speedups(found, {workers: f"slices-{workers}p" for workers in SECONDS})
    assert table["low"].isna().all() and table["ratio"].notna().all()


# ---- figures


def xs(line: Line2D) -> list[float]:
    """The abscissas of a line."""
    return [float(value) for value in np.asarray(line.get_xdata(), float)]


def test_both_kinds_have_a_figure_a_family() -> None:
    assert figure_kinds.names(STUDY) == ["speedup-slices", "parallel-all", "sizes"]


def test_the_figure_shows_mean_deviation_speed_up_and_what_is_not_claimed() -> None:
    table = rows()
    figure = figures.draw("speedup-slices", "disk", data(table, summary()))
    assert len(figure.axes) == 4
    here = table[(table["state"] == "warm") & table["case"].str.match(r"slices-\dp")]
    expected = here.groupby("processes")["time_s"].agg(["mean", "std"])
    time, gain = figure.axes[1], figure.axes[3]
    (drawn,) = (one for one in time.lines if xs(one) == [1, 2, 4] and one.get_linestyle() == "-")
    np.testing.assert_allclose(np.asarray(drawn.get_ydata(), float), expected["mean"])
    errors = [found for found in time.containers if isinstance(found, ErrorbarContainer)]
    bars = [segment[:, 1] for found in errors for segment in found.lines[2][0].get_segments()]
    mean, sd = expected.loc[2]
    assert any(np.allclose(bar, [mean - sd, mean + sd]) for bar in bars)
    (ideal,) = (one for one in gain.lines if one.get_label() == "ideal")
    assert xs(ideal) == [1, CORES]
    hollow = [one for one in gain.lines if to_hex(one.get_markerfacecolor()) == "#ffffff" and xs(one)]
    assert hollow and all(min(xs(one)) > CORES for one in hollow)
    (shaded,) = (patch for patch in gain.patches if patch.get_label() == "beyond")
    assert isinstance(shaded, Rectangle) and shaded.get_x() == CORES + 0.5
    words = texts(figure)
    assert "variance: time and speed-up · disk" in words
    assert "2 physical cores; beyond them nothing is claimed" in words and "MPI ranks" in words


def test_where_rounds_were_added_the_words_do_not_give_them_to_every_case() -> None:
    table = rows()
    added = table[table["case"].eq("slices-1p") & table["round"].eq(0)].assign(round=ROUNDS)
    figure = figures.draw("speedup-slices", "disk", data(pd.concat([table, added], ignore_index=True)))
    assert f"{REPEATS} repeats in each of {ROUNDS} to {ROUNDS + 1} rounds" in texts(figure)


def test_many_layouts_are_told_apart_by_their_looks() -> None:
    names = [f"l{number:02}" for number in range(12)]
    # One state, which is one row of panels.
    warm = rows().query("kind == 'reduce' and state == 'warm'")
    table = pd.concat([warm.assign(layout=name) for name in names])
    given = dataclasses.replace(data(table), study={**STUDY, "layouts": names})
    (legend,) = figures.draw("speedup-slices", "disk", given).legends
    handles = [one for one in legend.legend_handles if isinstance(one, Line2D) and one.get_label() in names]
    looks = {(one.get_color(), one.get_marker(), one.get_linestyle()) for one in handles}
    assert len(looks) == len(handles) == len(names)


def test_the_ideal_line_begins_with_the_fewest_workers() -> None:
    table = rows()
    table = table[table["processes"] > 1].assign(physical_cores=4)
    cases = {name: case for name, case in STUDY["cases"].items() if case.get("workers") != 1}
    given = dataclasses.replace(data(table), study={**STUDY, "cases": cases})
    gain = figures.draw("speedup-slices", "disk", given).axes[-1]
    (ideal,) = (one for one in gain.lines if one.get_label() == "ideal")
    assert (xs(ideal), list(np.asarray(ideal.get_ydata(), float))) == ([2, 4], [1, 2])


def test_where_all_workers_have_a_core_nothing_is_shaded() -> None:
    figure = figures.draw("speedup-slices", "disk", data(rows().assign(physical_cores=8)))
    assert not any(patch.get_label() == "beyond" for axes in figure.axes for patch in axes.patches)
    assert "8 physical cores" in texts(figure) and "claimed" not in texts(figure)


def test_rates_are_bytes_over_seconds() -> None:
    table = rows()
    figure = figures.draw("parallel-all", "disk", data(table, summary()))
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["durable write", "read, cold"]
    pooled = summary().drop_duplicates(["case", "state"]).set_index(["case", "state"])["pooled_median_s"]
    heights = [bars.patches[0].get_height() for bars in figure.axes[0].containers if hasattr(bars, "patches")]
    expected = [ASKED / pooled[f"all-{api}-2r", "write"] / 1e6 for api in APIS]
    np.testing.assert_allclose(heights, expected)
    assert "MPI-IO" in texts(figure)


def test_a_site_without_results_says_so() -> None:
    for name in ("speedup-slices", "parallel-all"):
        assert "Not measured here." in texts(figures.draw(name, "elsewhere", data(rows(), summary())))


# ---- tables


def cells(table: Any) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


def test_the_table_of_reductions_has_every_count_and_claims_nothing_beyond_the_cores() -> None:
    table = report.speedup_table(page_data(rows(), summary()), "disk", None)
    assert table is not None
    body = cells(table)
    assert len(body) == 2 * 3 * 2
    warm = {row[3]: row for row in body if row[2] == "warm"}
    assert set(warm) == {
        "1 process",
        "2 processes",
        "4 processes",
        "1 MPI rank",
        "2 MPI ranks",
        "4 MPI ranks",
    }
    assert warm["2 processes"][0] == "variance" and warm["2 processes"][7] == "80 %"
    assert warm["2 processes"][6].startswith("1.6") or warm["2 processes"][6].startswith("1.59")
    assert warm["4 processes"][9] == "75"
    notes = {row[3].text: row[6].note for row in table.rows if row[2].text == "warm"}
    assert notes["4 processes"] == report.BEYOND and notes["2 processes"].startswith("95 % ")


def test_the_table_of_reductions_says_where_workers_of_several_nodes_ran() -> None:
    apart = rows()
    apart.loc[apart["case"] == "slices-2p", "nodes"] = "n1 n2"
    table = report.speedup_table(page_data(apart), "disk", None)
    assert table is not None
    assert {(row[3].text, row[3].note) for row in table.rows if row[3].note} == {("2 processes", "on n1, n2")}


def test_the_table_of_rates_compares_with_mpi_io() -> None:
    table = report.parallel_table(page_data(rows(), summary()), "disk", None)
    assert table is not None
    names = [column.name for column in table.columns]
    body = {row[1]: dict(zip(names, row, strict=True)) for row in cells(table)}
    hdf5 = body["parallel HDF5"]
    assert hdf5["Access"] == "independent, interleaved blocks of 4 KiB, 4 x 256 KiB a rank, 64 KiB a call"
    assert hdf5["MPI-IO, durable write, is"].endswith("x faster")
    assert body["POSIX"]["MPI-IO, durable write, is"].endswith("x slower")
    assert body["MPI-IO"]["MPI-IO, durable write, is"] == "itself"
    durable, calls = (float(hdf5[name].split()[0]) for name in ("Durable write", "Write calls alone"))
    assert calls == pytest.approx(2 * durable, rel=0.05)
    assert [row[0].note for row in table.rows if row[1].text == "MPI-IO"] == ["romio_cb_write enable"]


def test_interfaces_and_numbers_of_workers_compete_in_the_opening() -> None:
    found = fastest_table(page_data(rows(), summary()))
    assert [column.name for column in found.columns] == ["Site", "Case", "Cold", "Warm", "Write"]
    assert cells(found) == [
        ["disk", "variance", "2 processes", "2 processes", "–"],
        ["disk", "blocks, 2 ranks", "POSIX", "–", "POSIX"],
    ]
    assert "; slowest 4 ranks, " in found.rows[0][2].note
    assert "; slowest parallel HDF5, " in found.rows[1][4].note


def test_what_was_compared_where_a_limit_holds_back_is_called_means() -> None:
    both = "the rounds' medians (means of throttled cold reads and writes)"
    for throttled_s, gain, rate in ((0.0, "the rounds' medians", "medians"), (1.0, both, "means")):
        held = rows().assign(throttled_s=throttled_s)
        known = summarise(held)
        page = page_data(held, known)
        speedup = report.speedup_table(page, "disk", None)
        rates = report.parallel_table(page, "disk", None)
        assert speedup is not None and f"ratio of {gain} to the fewest workers" in speedup.note
        assert rates is not None and f"{rate}, with its 95 % interval; write calls alone" in rates.note
        words = texts(figures.draw("speedup-slices", "disk", data(held, known)))
        assert f"ratio of {gain} with its 95 % interval" in words


def test_a_study_without_workers_has_neither_table() -> None:
    empty = page_data(rows().iloc[:0])
    assert report.speedup_table(empty, "disk", None) is None
    assert report.parallel_table(empty, "disk", None) is None


def test_what_is_in_force_is_said_in_words() -> None:
    settings = {"last_call": "contiguous, collective", "hints": {"cb_nodes": "1", "other": "2", "mine": "3"}}
    assert in_force(settings, {"mine": "4"}) == "contiguous, collective, cb_nodes 1, mine 3"
    assert in_force({"dataset_layout": "contiguous"}, {}) == ""
