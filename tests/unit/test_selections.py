"""Seeded boxes: spread over the array, uniform, and the same for every layout, process and machine."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import file_specification, read_cell

import hyperslab
from hyperslab import cases, formats
from hyperslab.cases import context
from hyperslab.data.selections import Box, asked_boxes, generator, random_boxes
from hyperslab.data.values import open_values
from hyperslab.specifications import Specification

DRAW = """
from hyperslab.data.selections import generator, random_boxes
boxes = random_boxes((100, 100, 100000), (5, 5, 1000), 3, generator("s", 1, "box", "r0", "cold"))
print([box.origin for box in boxes])
"""


def starts(boxes: list[Box]) -> np.ndarray:
    return np.array([box.origin for box in boxes])


def origins(shape: tuple[int, ...], extent: tuple[int, ...], count: int, *parts: object) -> np.ndarray:
    return starts(random_boxes(shape, extent, count, generator(*parts)))


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 50)), min_size=1, max_size=4), st.integers(),
    st.integers(1, 3),
)  # fmt: skip
def test_boxes_lie_in_the_array(axes: list[tuple[int, int]], seed: int, slices: int) -> None:
    extent, beyond = zip(*axes, strict=True)
    shape = tuple(e + b for e, b in axes)
    boxes = random_boxes(shape, extent, 6, generator(seed), slices)
    assert len(boxes) == 6
    for box in boxes:
        assert box.extent == extent
        assert all(0 <= o <= b for o, b in zip(box.origin, beyond, strict=True))
        assert all(isinstance(number, int) for number in (*box.origin, *box.extent))


@given(st.integers(), st.sampled_from([(15, 1), (15, 3), (25, 1), (50, 1)]))
def test_every_part_of_every_axis_has_one_start(seed: int, drawn: tuple[int, int]) -> None:
    """Of 45 boxes each 45th of an axis has one; of the first, second and last 15 among them each 15th has."""
    size, slices = drawn
    count = size * slices
    # As many starts as parts, and a multiple of it: a part is a range of starts.
    shape, extent = (count, 7 * count + 2, 3), (1, 3, 3)
    found = starts(random_boxes(shape, extent, count, generator(seed), slices))
    for axis, each in ((0, 1), (1, 7)):
        assert sorted(found[:, axis] // each) == list(range(count))
        for of_slice in found[:, axis].reshape(slices, size):
            assert sorted(of_slice // (each * slices)) == list(range(size))
    assert set(found[:, 2]) == {0}


def test_axes_do_not_follow_each_other() -> None:
    rng = generator("axes")
    both = np.concatenate([starts(random_boxes((9, 14), (1, 5), 45, rng, 3)) for _ in range(1000)])
    assert abs(np.corrcoef(both[:, 0], both[:, 1])[0, 1]) < 0.03
    # Nor do those that come one after another go one way: where a session begins is anywhere.
    assert abs(np.corrcoef(both[:-1, 0], both[1:, 0])[0, 1]) < 0.1


@pytest.mark.parametrize("which", [0, 7, 44])
def test_each_start_is_uniform_with_both_ends(which: int) -> None:
    """A box by itself lies anywhere: only together they are spread."""
    rng = generator("uniform")
    drawn = np.array([random_boxes((14,), (5,), 45, rng, 3)[which].origin[0] for _ in range(2000)])
    counts = np.bincount(drawn, minlength=10)
    assert len(counts) == 10
    # 45 is beyond the 10^-5 quantile of chi-squared with 9 degrees of freedom; the seed is fixed.
    assert ((counts - 200) ** 2 / 200).sum() < 45


def test_means_of_rounds_differ_far_less_than_those_of_boxes_anywhere() -> None:
    """What they are for: 25 starts of a round stand for the array, so that rounds agree."""
    rng = generator("means")
    spread = [np.mean([box.origin[0] for box in random_boxes((10**6,), (1,), 25, rng)]) for _ in range(300)]
    anywhere = 10**6 / np.sqrt(12 * 25)
    assert np.std(spread) < anywhere / 10


# ---- those of a cell


def cell(**changes: Any) -> Specification:
    spec: Any = read_cell(file_specification((60, 60, 5000)), (5, 5, 7), {"cold": 15, "warm": 4})
    spec["case"] |= changes.pop("case", {})
    changed: Specification = spec | changes
    return changed


def first(count: int, spec: Specification, state: str = "cold") -> list[tuple[int, ...]]:
    return [box.origin for box in itertools.islice(asked_boxes(spec, state), count)]


def test_study_seed_case_round_and_state_have_boxes_of_their_own() -> None:
    specs = [cell(), cell(study="other"), cell(seed=2), cell(case={"name": "bo"}), cell(round="r1"),
             cell(round="c0"), cell(study="min", seed="e1")]  # fmt: skip
    drawn = [tuple(first(15, spec)) for spec in specs]
    drawn.append(tuple(first(15, cell(repeats={"cold": 15, "warm": 15}), "warm")))
    assert len(set(drawn)) == len(drawn)
    assert drawn[0] == tuple(first(15, cell()))


def test_cases_of_a_family_and_all_layouts_have_the_same_boxes() -> None:
    one, two = (cell(case={"name": f"box-{count}p", "family": "box"}) for count in (1, 2))
    assert first(15, one) == first(15, two) == first(15, cell())
    other = read_cell(
        file_specification((60, 60, 5000), (4, 4, 64), "zyx"), (5, 5, 7), {"cold": 15, "warm": 4}
    )
    assert first(15, other) == first(15, cell())


def test_a_cell_that_may_go_on_is_spread_over_the_array_before_and_after() -> None:
    spec = cell(most_repeats={"cold": 45})
    spec["dataset"]["shape"] = [45 + 4, 60, 5000]
    found = np.array(first(45, spec))[:, 0]
    assert sorted(found) == list(range(45))
    assert sorted(found[:15] // 3) == list(range(15))


def test_there_are_always_more_boxes() -> None:
    spec = cell()
    spec["dataset"]["shape"] = [15 + 4, 60, 5000]
    drawn = np.array(first(45, spec))[:, 0].reshape(3, 15)
    assert [sorted(part) for part in drawn] == [list(range(15))] * 3
    assert len({tuple(part) for part in drawn}) == 3


@pytest.mark.parametrize("hash_seed", ["0", "12345"])
def test_same_boxes_in_every_process_and_release(hash_seed: str) -> None:
    path = str(Path(hyperslab.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": hash_seed}
    run = subprocess.run(
        [sys.executable, "-c", DRAW], env=environment, capture_output=True, text=True, check=True
    )
    # Written down once: a change would make layouts of old and new results answer different questions.
    assert run.stdout.strip() == "[(10, 28, 64508), (45, 79, 90257), (77, 41, 5594)]"


def test_every_layout_gets_the_same_questions(tmp_path: Path) -> None:
    asked = []
    layouts = itertools.product((None, (2, 3, 4), (6, 7, 20)), ("xyz", "zyx"))
    for number, (chunk, order) in enumerate(layouts):
        repeats = {"cold": 4, "warm": 4, "session": 4}
        spec = read_cell(file_specification((6, 7, 20), chunk, order), (2, 7, 3), repeats)
        file, values = str(tmp_path / f"{number}.h5"), open_values(spec["dataset"])
        hdf5 = formats.load("hdf5")
        hdf5.generate(file, spec, values)
        outcome = cases.load("read")(context.Context(spec, hdf5, file, values, memory_resident=True))
        asked.append([(row["state"], row["repeat"], row["origin"]) for row in outcome.repeats])
    assert len(asked[0]) == 12
    assert len({tuple(origin) for _, _, origin in asked[0]}) > 8
    assert all(other == asked[0] for other in asked)


@given(st.permutations(range(4)))
def test_permuted_there_and_back(order: list[int]) -> None:
    box = Box((1, 2, 3, 4), (5, 6, 7, 8))
    there = box.permuted(order)
    assert there.origin == tuple(box.origin[axis] for axis in order)
    assert there.permuted([order.index(axis) for axis in range(4)]) == box


def test_slices_select_the_box() -> None:
    array = np.arange(60).reshape(3, 4, 5)
    assert array[Box((1, 0, 2), (2, 4, 3)).slices()].tolist() == array[1:3, :, 2:5].tolist()
