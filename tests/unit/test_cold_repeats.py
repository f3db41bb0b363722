"""How many cold repeats a cell has: more where they are short, as many as a study says where it says so."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from samples import file_specification, read_cell
from studies import BASE, Content, load
from test_cases import Clock
from yaml import safe_load

from hyperslab import cases
from hyperslab.cases import timed_selections
from hyperslab.cases.context import Context
from hyperslab.data.values import open_values
from hyperslab.formats.hdf5.array import FORMAT
from hyperslab.measuring.throttling import Limiter
from hyperslab.planning.estimates import estimated_seconds
from hyperslab.specifications import SHORT_SECONDS, Specification
from hyperslab.studies import specification

FIRST, MOST = 4, 12


class Timed:
    """HDF5 whose opening and reading take as long as is said of each repeat, in ms, and closing a second."""

    artifact = FORMAT.artifact

    def __init__(self, clock: Clock, opening: list[int], reading: list[int]) -> None:
        self._clock = clock
        self._opening, self._reading = itertools.cycle(opening), itertools.cycle(reading)
        for name in ("report", "predict", "stored_sizes"):
            setattr(self, name, getattr(FORMAT, name))

    def open(self, path: str, spec: Specification) -> Any:
        opened = FORMAT.open(path, spec)
        self._clock.ns += next(self._opening) * 10**6
        plain, close = opened.reader, opened.close

        def reader(box: Any) -> Any:
            read = plain(box)

            def timed() -> Any:
                self._clock.ns += next(self._reading) * 10**6
                return read()

            return timed

        def slow_close() -> None:
            self._clock.ns += 10**9
            close()

        opened.reader, opened.close = reader, slow_close  # type: ignore[method-assign]
        return opened


def repeats_of(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    opening: list[int],
    reading: list[int],
    most: bool = True,
    memory_resident: bool = False,
    limiter: Limiter | None = None,
    **states: int,
) -> dict[str, list[Any]]:
    """State -> origins of its repeats, of a cell whose openings and readings take these ms in turn."""
    clock = Clock()
    monkeypatch.setattr(timed_selections, "perf_counter_ns", clock.now)
    spec = read_cell(file_specification((6, 7, 20), (2, 3, 4)), (2, 7, 3), {"cold": FIRST, **states})
    if most:
        spec["most_repeats"] = {"cold": MOST}
    path, values = str(directory / "a.h5"), open_values(spec["dataset"])
    FORMAT.generate(path, spec, values)
    format_: Any = Timed(clock, opening, reading)
    context = Context(spec, format_, path, values, memory_resident, limiter=limiter or Limiter())
    rows = cases.load("read")(context).repeats
    context.artifact.clear()
    found: dict[str, list[Any]] = {}
    for row in rows:
        assert row["repeat"] == len(found.setdefault(row["state"], []))
        found[row["state"]].append(row["origin"])
    return found


@pytest.mark.parametrize(
    ("opening", "reading", "count"),
    [
        ([1], [48], MOST),
        # Opening counts: what a request waits for.
        ([3], [48], FIRST),
        ([48], [3], FIRST),
        ([0], [50], FIRST),
        # The median of the first ones decides, not a slow or a fast one of them, nor those that come later.
        ([0, 0, 0, 999], [10], MOST),
        ([0], [60, 60, 60, 0], FIRST),
        ([0], [10, 10, 10, 10, 999, 999, 999, 999, 999, 999, 999, 999], MOST),
    ],
)
def test_short_selections_are_repeated_more_often(
    disk: Path, monkeypatch: pytest.MonkeyPatch, opening: list[int], reading: list[int], count: int
) -> None:
    assert SHORT_SECONDS == 0.05
    found = repeats_of(disk, monkeypatch, opening, reading)
    assert {state: len(origins) for state, origins in found.items()} == {"cold": count}


def test_only_where_the_specification_lets_it_and_in_that_state(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = repeats_of(disk, monkeypatch, [0], [1], most=False, warm=5, session=6)
    assert {state: len(origins) for state, origins in found.items()} == {
        "warm": 5,
        "session": 6,
        "cold": FIRST,
    }
    found = repeats_of(disk, monkeypatch, [0], [1], warm=5, session=6)
    assert {state: len(origins) for state, origins in found.items()} == {
        "warm": 5,
        "session": 6,
        "cold": MOST,
    }


def test_in_memory_too(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = repeats_of(memory, monkeypatch, [0], [1], memory_resident=True, warm=5)
    assert {state: len(origins) for state, origins in found.items()} == {"warm": 5, "library-cold": MOST}


def test_the_first_ones_are_the_same_however_many_follow(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow layout answers the first of the questions that a fast one of its round answers."""
    fast = repeats_of(disk, monkeypatch, [0], [1])["cold"]
    slow = repeats_of(disk, monkeypatch, [0], [60])["cold"]
    assert fast[:FIRST] == slow


def test_a_throttled_site_goes_on_until_its_mean_says_enough(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Until(Limiter):
        def enough(self, direction: str, moved: int, repeats: int) -> bool:
            assert direction == "read"
            return repeats >= MOST + 3

    assert len(repeats_of(disk, monkeypatch, [0], [1], limiter=Until())["cold"]) == MOST + 3
    assert len(repeats_of(disk, monkeypatch, [0], [60], limiter=Until())["cold"]) == MOST + 3


# ---- what a study says of it


def content(**changes: Any) -> Content:
    base: Content = safe_load(BASE)
    return {key: value for key, value in {**base, **changes}.items() if value is not None}


@pytest.mark.parametrize(
    ("study", "case", "cold", "most"),
    [
        ({}, {}, 15, {"cold": 45}),
        ({"warm": 3}, {"session": 4}, 15, {"cold": 45}),
        ({"cold": 15}, {}, 15, None),
        ({"cold": 60}, {}, 60, None),
        ({}, {"cold": 2}, 2, None),
    ],
)
def test_a_study_that_names_a_number_gets_it(
    tmp_path: Path, study: dict[str, int], case: dict[str, int], cold: int, most: dict[str, int] | None
) -> None:
    cases = {"slices": {"read": {"z": 25}, "states": ["cold", "warm", "session"], "repeats": case}}
    found = load(tmp_path, content(repeats=study, cases=cases, recommendation=None))
    spec = specification.cell_specification(found, "auto", "slices", "r0")
    assert spec["repeats"]["cold"] == cold
    assert spec.get("most_repeats") == most


def test_what_is_not_read_cold_has_no_more(tmp_path: Path) -> None:
    cases = {
        "slices": {"read": {"z": 25}, "states": ["warm", "session"]},
        "write": {"write": "chunk"},
        "team": {"reduce": {"z": 25}, "processes": [2]},
    }
    found = load(tmp_path, content(repeats=None, cases=cases, recommendation=None))
    for case in found.cases:
        assert "most_repeats" not in specification.cell_specification(found, "auto", case, "r0")


def test_an_estimate_counts_them_where_a_selection_is_short(tmp_path: Path) -> None:
    def seconds(repeats: dict[str, int] | None, extent: int) -> float:
        dataset = {"axes": ["x", "y", "z"], "shape": [100, 100, 10000], "dtype": "uint16"}
        cases = {"slices": {"read": {"x": extent}, "states": ["cold"]}}
        given = content(dataset=dataset, repeats=repeats, cases=cases, recommendation=None, score=None)
        return estimated_seconds(load(tmp_path, given), "contiguous", "slices")

    # All 200 MB of the array, and 2 MB.
    assert seconds(None, 100) == pytest.approx(seconds({"cold": 15}, 100))
    one = (seconds({"cold": 45}, 1) - seconds({"cold": 15}, 1)) / 30
    short = one < SHORT_SECONDS
    assert seconds(None, 1) == pytest.approx(seconds({"cold": 45 if short else 15}, 1))
    assert short
