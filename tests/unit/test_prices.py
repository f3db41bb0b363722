"""What an answer and a month cost: by hand, as a table of the report, as a figure, and what is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from figure_samples import STUDY, data, repeats, texts
from matplotlib.figure import Figure
from report_samples import CONFIRM, MAIN, inputs, measured, meta
from studies import BASE, load, mistake

from hyperslab import figures
from hyperslab.report.build import build_page
from hyperslab.report.data import Inputs, gather
from hyperslab.report.prices import prices_table
from hyperslab.results.prices import HOURS_OF_A_MONTH, answer_costs, month_costs
from hyperslab.results.tables import tidy

GIVEN: dict[str, Any] = {
    "source": "made up", "date": "2026-01-31", "currency": "EUR", "stored": 0.02, "stored_at": {"disk": 0.1},
    "puts": 0.005, "gets": 0.0004, "out": 0.09, "worker_hour": 3.6, "running_hour": {"served*": 0.5},
    "questions": 1000,
}  # fmt: skip
# As the model leaves them.
PRICES = {
    **GIVEN, "cases": [], "lists": None, "heads": None, "out_at": {}, "inside": 0.0, "together": False,
}  # fmt: skip


def counted(layout: str, case: str, requests: float, wire: float, seconds: float) -> list[dict[str, Any]]:
    """Three cold repeats of a layout in a store: one more request, 1 kB and 0.1 s to open it."""
    return [
        {
            "site": "store", "layout": layout, "case": case, "kind": "read", "phase": "main", "state": "cold",
            "round": 0, "repeat": repeat, "time_s": seconds, "open_s": 0.1, "wire_requests": requests,
            "wire_bytes": wire, "open_requests": 1, "open_wire_bytes": 1e3, "file_bytes": 5e9,
            "upload_requests": 2000, "stale": False,
        }
        for repeat in range(3)
    ]  # fmt: skip


@pytest.fixture
def rows() -> pd.DataFrame:
    """Two layouts and two cases in a store."""
    given = [
        *counted("plain", "map", 9, 999e3, 0.9), *counted("plain", "series", 999, 99e6, 9.9),
        *counted("served", "map", 1, 9e3, 0.4), *counted("served", "series", 1, 9e3, 0.4),
    ]  # fmt: skip
    return tidy([{"older_protocol": None, **row} for row in given])


def study(**changes: Any) -> dict[str, Any]:
    """What rows are priced by."""
    return {"cases": {"map": {}, "series": {}}, "prices": {**PRICES, **changes}}


def test_an_answer_costs_its_requests_its_bytes_and_its_time(rows: pd.DataFrame) -> None:
    found = answer_costs(rows, study(), "store").set_index(["layout", "case"])
    answer = found.loc[("plain", "map")]
    # Ten requests, a megabyte and a second of a worker.
    assert answer["requests"] == pytest.approx(10 * 0.0004 / 1000)
    assert answer["out"] == pytest.approx(1e6 / 1e9 * 0.09)
    assert answer["seconds"] == pytest.approx(1.0)
    assert answer["work"] == pytest.approx(3.6 / 3600)
    assert answer["counted"]


def test_each_kind_of_request_has_its_price(rows: pd.DataFrame) -> None:
    # Of nine requests of a map two ask for lists and one for a size; opening asks for a list.
    rows = rows.assign(wire_lists=2.0, wire_heads=1.0, wire_puts=0.0, open_lists=1.0)
    found = answer_costs(rows, study(), "store").set_index(["layout", "case"])
    assert found.loc[("plain", "map"), "requests"] == pytest.approx((7 * 0.0004 + 3 * 0.005) / 1000)
    found = answer_costs(rows, study(lists=1.0, heads=0.1), "store").set_index(["layout", "case"])
    assert found.loc[("plain", "map"), "requests"] == pytest.approx((6 * 0.0004 + 3 * 1.0 + 0.1) / 1000)


def test_what_a_server_gets_from_the_store_is_not_what_leaves_it(rows: pd.DataFrame) -> None:
    rows["client_bytes"] = rows["client_bytes"].mask(rows["layout"] == "served", 5e6)
    rows["open_client_bytes"] = rows["open_client_bytes"].mask(rows["layout"] == "served", 1e6)
    found = answer_costs(rows, study(inside=0.01), "store").set_index(["layout", "case"])
    served = found.loc[("served", "map")]
    assert served["out"] == pytest.approx(6e6 / 1e9 * 0.09)
    # Nine and one thousand bytes of its own requests.
    assert served["inside"] == pytest.approx(1e4 / 1e9 * 0.01)
    plain = found.loc[("plain", "map")]
    assert (plain["out"], plain["inside"]) == (pytest.approx(1e6 / 1e9 * 0.09), 0)
    there = answer_costs(rows, study(out_at={"store": 0.0}), "store")
    assert (there["out"] == 0).all()


def test_an_answer_takes_as_long_as_copying_opening_and_reading(rows: pd.DataFrame) -> None:
    rows["fetch_s"] = 7.0
    found = answer_costs(rows, study(), "store").set_index(["layout", "case"])
    assert found.loc[("plain", "map"), "seconds"] == pytest.approx(8.0)
    assert found.loc[("plain", "map"), "work"] == pytest.approx(8 * 3.6 / 3600)


def test_of_reads_that_a_limit_holds_back_seconds_are_means(rows: pd.DataFrame) -> None:
    # Two bursts that it lets pass, and what waits for them.
    bursts = rows.assign(time_s=rows["repeat"].map({0: 0.1, 1: 0.1, 2: 9.9}))
    for throttled_s, seconds in ((None, 0.2), (1.0, (0.2 + 0.2 + 10.0) / 3)):
        held = bursts.assign(throttled_s=throttled_s).astype({"throttled_s": float})
        found = answer_costs(held, study(), "store").set_index(["layout", "case"]).loc[("plain", "map")]
        assert found["seconds"] == pytest.approx(seconds)
        assert found["work"] == pytest.approx(seconds * 3.6 / 3600)
        # What is counted knows no bursts.
        assert found["requests"] == pytest.approx(10 * 0.0004 / 1000)
        assert month_costs(held, study(), "store").loc["plain", "seconds"] == pytest.approx(seconds)


def test_a_month_is_what_is_kept_what_runs_and_what_is_asked(rows: pd.DataFrame) -> None:
    found = month_costs(rows, study(), "store")
    assert found.loc["plain", "kept"] == pytest.approx(5 * 0.02)
    assert month_costs(rows, study(), "disk").loc["plain", "kept"] == pytest.approx(5 * 0.1)
    assert found.loc["plain", "running"] == 0
    assert found.loc["served", "running"] == pytest.approx(0.5 * HOURS_OF_A_MONTH)
    each = 2 * 0.0004 / 1000 + 1e4 / 1e9 * 0.09 + 0.5 * 3.6 / 3600
    assert found.loc["served", "asked"] == pytest.approx(1000 * each)
    assert found.loc["plain", "upload"] == pytest.approx(2000 * 0.005 / 1000)
    # Of the times the geometric mean: 1 s and 10 s.
    assert found.loc["plain", "seconds"] == pytest.approx(10**0.5)
    assert (found["month"] == found["kept"] + found["running"] + found["asked"]).all()


def test_named_cases_alone_are_asked_and_several_workers_are_paid(rows: pd.DataFrame) -> None:
    priced = study(cases=["map"])
    priced["cases"]["map"] = {"workers": 4}
    found = answer_costs(rows, priced, "store")
    assert set(found["case"]) == {"map"}
    assert found.set_index("layout").loc["plain", "work"] == pytest.approx(4 * 3.6 / 3600)


def test_of_many_answers_to_clients_one_is_priced(rows: pd.DataFrame) -> None:
    one = answer_costs(rows, study(), "store").set_index(["layout", "case"]).loc[("plain", "map")]
    many = rows.assign(requests=20.0, answer_median_s=0.3)
    found = answer_costs(many, study(), "store").set_index(["layout", "case"]).loc[("plain", "map")]
    parts = ["requests", "out", "work"]
    assert found[parts].tolist() == pytest.approx((one[parts] / 20).tolist())
    assert found["seconds"] == 0.3


def test_the_report_has_a_table_where_the_study_has_prices() -> None:
    given = inputs(measured(MAIN, "main"), measured(CONFIRM, "confirm"))
    assert prices_table(gather(Inputs(**given)), "disk", None) is None
    given["study"] = meta(prices=PRICES)
    page = build_page(Inputs(**given))
    (table,) = (
        table
        for block in page.sites[0].blocks
        for table in block.tables
        if table.title == "What an answer and a month cost"
    )
    assert "made up (2026-01-31)" in table.note and "No object store counts requests here" in table.note
    assert [column.name for column in table.columns[:3]] == ["Layout", "Kept", "EUR for 1,000 × some slices"]


def drawn(table: pd.DataFrame, **prices: Any) -> Figure:
    """The figure of these repeats of a study with prices."""
    study = {**STUDY, "prices": {**PRICES, **prices}}
    return figures.draw("prices", "disk", dataclasses.replace(data(), measurements=table, study=study))


def test_the_figure_names_every_layout() -> None:
    figure = drawn(repeats().assign(throttled_s=0.0))
    assert figure.axes[0].get_xlabel() == "what a month costs [EUR]"
    said = {text.get_text() for text in figure.axes[0].texts}
    assert {"contiguous", "4x4x256", "auto"} <= said
    # Nothing of the other site.
    assert {name for name in said if name.startswith("contiguous")} == {"contiguous"}
    assert any("made up, 2026-01-31" in text.get_text() for text in figure.texts)
    assert "an answer: a cold one with its opening, and with copying where that comes first;" in texts(figure)
    assert "times: means where a limit" not in texts(figure)


@pytest.mark.parametrize(("state", "said"), [("warm", "a warm one"), ("session", "a selection of a session")])
def test_the_figure_says_of_which_state_an_answer_is(state: str, said: str) -> None:
    one = repeats().query(f"site == 'disk' and state == '{state}'")
    figure = drawn(one)
    assert f"an answer: {said}; geometric mean over the cases" in texts(figure)
    assert "opening" not in texts(figure)


def test_one_figure_has_the_layouts_of_all_sites_where_they_are_wanted_together() -> None:
    # Measured at the sites disk and memory.
    figure = drawn(repeats(), together=True)
    said = {text.get_text() for text in figure.axes[0].texts}
    assert {name for name in said if name.startswith("contiguous")} == {"contiguous", "contiguous at memory"}


def with_prices(**prices: Any) -> dict[str, Any]:
    """A study whose prices say this."""
    return {**yaml.safe_load(BASE), "prices": prices}


def test_prices_change_figures_and_report_and_no_cell(tmp_path: Path) -> None:
    plain, priced = (
        load(tmp_path, content)
        for content in (yaml.safe_load(BASE), with_prices(**GIVEN | {"running_hour": {}}))
    )
    assert priced.hashes("main") == plain.hashes("main")
    assert "prices" in priced.figure_meta and "prices" not in plain.figure_meta
    assert priced.report_meta["prices"]["date"] == "2026-01-31"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"date": "2026-01-31"}, "prices.source: this key is required"),
        ({"source": "x", "date": "soon"}, "prices.date"),
        ({"source": "x", "date": "2026-01-31", "gets": -1}, "prices.gets: should be greater than"),
        ({"source": "x", "date": "2026-01-31", "cases": ["slice"]}, "prices.cases: no case 'slice'"),
        ({"source": "x", "date": "2026-01-31", "cases": ["write"]}, "'write' only writes"),
        ({"source": "x", "date": "2026-01-31", "running_hour": {"hsds*": 1}}, "'hsds*' fits no layout"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    assert said in mistake(tmp_path, with_prices(**given))


def test_a_layout_that_was_asked_less_has_no_month(rows: pd.DataFrame) -> None:
    more = tidy([{"older_protocol": None, **row} for row in counted("partly", "map", 9, 999e3, 0.9)])
    whole = month_costs(rows, study(), "store")
    found = month_costs(pd.concat([rows, more]), study(), "store")
    assert found.loc["partly", ["asked", "month", "seconds"]].isna().all()
    assert found.loc["partly", "kept"] == found.loc["plain", "kept"]
    pd.testing.assert_frame_equal(found.drop("partly"), whole, check_dtype=False)


def test_what_is_kept_is_the_file_of_the_whole_array(rows: pd.DataFrame) -> None:
    part = [row for name in "abc" for row in counted("plain", f"part-{name}", 9, 999e3, 0.9)]
    parts = tidy([{"older_protocol": None, **row, "file_bytes": 6e8, "upload_requests": 1} for row in part])
    found = month_costs(pd.concat([rows, parts]), study(), "store")
    assert found.loc["plain", "stored_bytes"] == 5e9
    assert found.loc["plain", "upload"] == pytest.approx(2000 * 0.005 / 1000)


def note_of(main: pd.DataFrame) -> str:
    """What stands below the table of prices of these rounds."""
    found = prices_table(gather(Inputs(**inputs(main, None, study=meta(prices=PRICES)))), "disk", None)
    assert found is not None
    return found.note


def test_the_table_says_of_which_state_an_answer_is_and_what_it_leaves_out() -> None:
    cold = measured(MAIN, "main")
    assert "An answer is a cold one with its opening, and" in note_of(cold)
    assert "Left out" not in note_of(cold)
    warm = measured({**MAIN, "late": (0.01, 0.01)}, "main").assign(state="warm")
    assert "An answer is a warm one; its time" in note_of(warm)
    both = note_of(pd.concat([cold[cold["case"] == "slices"], warm], ignore_index=True))
    assert both.endswith(" Left out, as not measured cold: 1 layout and 1 case.")


def test_table_and_figure_say_where_seconds_are_means() -> None:
    said = "medians over all repeats, of seconds means, since a limit holds reads back; a month"
    cold = measured(MAIN, "main")
    assert said in note_of(cold.assign(throttled_s=1.0))
    assert said not in note_of(cold) and "medians over all repeats; a month" in note_of(cold)
    # A warm read comes from memory, which no limit holds back.
    assert said not in note_of(cold.assign(state="warm", throttled_s=1.0))
    assert "times: means where a limit" in texts(drawn(repeats().assign(throttled_s=1.0)))
