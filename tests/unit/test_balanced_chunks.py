"""Unidata's chunk shapes: the published ones, their balance, and how a study asks for them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from studies import changed, load, mistake

from hyperslab.layouts.chunks import automatic_chunk, balanced_chunk, chunks_touched


def test_published_shapes() -> None:
    # "HDF Performance on OpenStack": 22 x 46 of its grids; h5py's are 45 x 180.
    assert balanced_chunk((7850, 720, 1440), 4, 32768) == (8, 22, 46)
    assert automatic_chunk((720, 1440), 4) == (45, 180)
    assert automatic_chunk((7850, 720, 1440), 4) == (123, 23, 45)
    # Rew, "Chunking Data: Choosing Shapes": 33 years of reanalysis every three hours, at most 4 MiB.
    assert balanced_chunk((98128, 277, 349), 4, 4 * 2**20) == (1032, 29, 35)


def published(shape: tuple[int, ...], itemsize: int, most: int) -> tuple[int, ...]:
    """The formula as its description has it, step by step, without a look at ours."""
    across = (math.prod(shape) * itemsize / most) ** 0.25
    floor = [1.0, 1.0, 1.0]
    if shape[0] / across**2 < 1:
        across /= math.sqrt(shape[0] / across**2)
    else:
        floor[0] = shape[0] // across**2
    scale = 1.0
    for extent in shape[1:]:
        if extent / across < 1:
            scale *= across / extent
    for axis in (1, 2):
        if shape[axis] / across >= 1:
            floor[axis] = scale * shape[axis] // across
    best, size = floor, 0.0
    for number in range(8):
        more = [extent + (number >> bit & 1) for extent, bit in zip(floor, (2, 1, 0), strict=True)]
        if size < itemsize * math.prod(more) <= most:
            best, size = more, itemsize * math.prod(more)
    return tuple(min(int(extent), whole) for extent, whole in zip(best, shape, strict=True))


@given(
    st.tuples(*[st.integers(1, 5000)] * 3),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([4096, 32768, 2**20]),
)
def test_every_shape_is_that_of_the_description(shape: tuple[int, ...], itemsize: int, most: int) -> None:
    assert balanced_chunk(shape, itemsize, most) == published(shape, itemsize, most)


def test_a_series_and_a_map_touch_about_as_many_chunks() -> None:
    shape = (7850, 720, 1440)
    chunk = balanced_chunk(shape, 4, 32768)
    series = chunks_touched((0, 0, 0), (7850, 1, 1), chunk)
    grid = chunks_touched((0, 0, 0), (1, 720, 1440), chunk)
    assert math.prod(chunk) * 4 <= 32768
    assert grid / series == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    ("asked", "order"),
    [
        ("unidata", None),
        ({"unidata": 4096}, None),
        ("unidata", ["z", "x", "y"]),
    ],
)
def test_a_study_asks_for_them(tmp_path: Path, asked: Any, order: Any) -> None:
    layout = {"chunks": asked, **({"order": order} if order else {})}
    found = load(tmp_path, changed("layouts.auto", layout)).layouts["auto"]["chunks"]
    most = asked["unidata"] if isinstance(asked, dict) else 32768
    # The study's array is 20 x 30 x 400 of two bytes; what is slowest on disk stands for time.
    disk = {"x": 20, "y": 30, "z": 400}
    names = order or ["x", "y", "z"]
    by_name = dict(zip(names, balanced_chunk([disk[name] for name in names], 2, most), strict=True))
    assert found == [by_name[name] for name in "xyz"]


def test_zarr_has_them_too(tmp_path: Path) -> None:
    layout = {"format": "zarr", "chunks": "unidata"}
    found = load(tmp_path, changed("layouts.auto", layout)).layouts["auto"]["chunks"]
    assert found == list(balanced_chunk((20, 30, 400), 2, 32768))


@pytest.mark.parametrize(
    ("asked", "said"), [({"unidata": 0}, "unidata"), ({"h5py": 9}, "'unidata'"), ("even", "'auto'")]
)
def test_anything_else_is_a_mistake(tmp_path: Path, asked: Any, said: str) -> None:
    assert said in mistake(tmp_path, changed("layouts.auto", {"chunks": asked}))


def test_they_are_of_three_axes(tmp_path: Path) -> None:
    content = {
        "title": "a study",
        "dataset": {"axes": ["y", "x"], "shape": [20, 30], "dtype": "uint16"},
        "layouts": {"flat": {"chunks": "unidata"}},
        "cases": {"row": {"read": {"y": 1}}},
    }
    assert mistake(tmp_path, content) == (
        "layouts.flat.chunks: Unidata's formula is one of three axes: time and two of space"
    )
