"""The front over all cases that count and the size of the file, and why a layout is on it."""

from __future__ import annotations

import pandas as pd
import pytest

from hyperslab.results.front import counted, fronts, pareto

TIMES = pd.DataFrame(
    {
        "x": {
            "fast": 1.0,
            "even": 2.0,
            "third": 3.0,
            "small": 3.0,
            "bit-smaller": 3.0,
            "both": 4.0,
            "bad": 5.0,
        },
        "y": {
            "fast": 2.0,
            "even": 1.0,
            "third": 3.0,
            "small": 3.0,
            "bit-smaller": 3.0,
            "both": 4.0,
            "bad": 5.0,
        },
        "z": {
            "fast": 5.0,
            "even": 5.0,
            "third": 1.0,
            "small": 6.0,
            "bit-smaller": 6.0,
            "both": 2.0,
            "bad": 7.0,
        },
    }
)
SIZES = pd.Series(
    {"fast": 100, "even": 100, "third": 100, "small": 1, "bit-smaller": 99, "both": 50, "bad": 100}
)


def test_a_layout_is_on_the_front_for_its_times_another_case_its_size_or_both() -> None:
    assert fronts(TIMES, ["x", "y"], SIZES).to_dict() == {
        "fast": "drawn", "even": "drawn", "third": "case", "small": "size", "bit-smaller": "", "both": "both",
        "bad": "",
    }  # fmt: skip


def test_a_case_that_some_layouts_lack_and_sizes_that_nobody_knows_are_left_out() -> None:
    lacking = TIMES.assign(z=TIMES["z"].where(TIMES.index != "bad"))
    assert fronts(lacking, ["x", "y"], SIZES)["third"] == ""
    assert set(fronts(TIMES, ["x", "y"], pd.Series(dtype=float))) == {"drawn", "case", ""}


def test_a_column_may_have_to_be_smaller_by_a_factor() -> None:
    points = pd.DataFrame({"x": [1.0, 1.0], "y": [1.0, 0.99]})
    assert pareto(points, ["x", "y"]).tolist() == [False, True]
    assert pareto(points, ["x", "y"], {"y": 0.98}).tolist() == [True, True]


@pytest.mark.parametrize(
    ("choice", "state", "found"),
    [
        ({}, "cold", [("x", "cold"), ("y", "cold")]),
        ({"shares": {"y cold": 0.5, "fill write": 0.5}}, "cold", [("y", "cold"), ("fill", "write")]),
        # Of a warm picture the warm times count, where there are any.
        ({"shares": {"x cold": 0.5, "y cold": 0.5}}, "warm", [("x", "warm")]),
    ],
)
def test_the_cases_that_count_are_those_of_the_recommendation(
    choice: dict[str, object], state: str, found: list[tuple[str, str]]
) -> None:
    measured = [("x", "cold"), ("x", "warm"), ("y", "cold"), ("fill", "write")]
    assert counted(choice, pd.DataFrame(measured, columns=["case", "state"]), state) == found
