"""Coarser levels of values: means against exact arithmetic, every box and level against the whole level."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.data import levels
from hyperslab.data.levels import halved, truth
from hyperslab.data.selections import Box, Pattern, at_level, of_stored_level
from hyperslab.layouts.pyramids import level_shape


class Held:
    """Values that lie in memory."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def block(self, origin: Sequence[int], extent: Sequence[int]) -> np.ndarray[Any, Any]:
        assert all(o + e <= s for o, e, s in zip(origin, extent, self.shape, strict=True))
        return self.array[tuple(slice(o, o + e) for o, e in zip(origin, extent, strict=True))]


def exact(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The means of up to 2 elements along each axis, by fractions; halves go to the even number."""
    found = np.empty([-(-size // 2) for size in array.shape], array.dtype)
    for place in np.ndindex(found.shape):
        there = [range(2 * p, min(2 * p + 2, size)) for p, size in zip(place, array.shape, strict=True)]
        held = [Fraction(array[index].item()) for index in itertools.product(*there)]
        mean = sum(held) / len(held)
        found[place] = round(mean) if array.dtype.kind in "iu" else float(mean)
    return found


def some(shape: Sequence[int], dtype: str, seed: int = 1) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return (1000 * rng.standard_normal(shape)).astype(dtype)
    bounds = np.iinfo(dtype)
    return rng.integers(bounds.min, bounds.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "uint32", "int32", "float32"])
@pytest.mark.parametrize("shape", [(7,), (4, 5), (3, 5, 4), (2, 3, 3, 2)], ids=str)
def test_a_mean_is_that_of_exact_arithmetic(shape: tuple[int, ...], dtype: str) -> None:
    array = some(shape, dtype)
    assert np.array_equal(halved(array, averaging=True), exact(array))
    assert halved(array, averaging=True).dtype == array.dtype


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint32", "int32"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_the_largest_and_smallest_numbers_keep_their_mean(dtype: str, axes: int) -> None:
    for value in (np.iinfo(dtype).max, np.iinfo(dtype).min):
        array = np.full((3,) * axes, value, dtype)
        assert np.array_equal(halved(array, averaging=True), np.full((2,) * axes, value, dtype))


def test_halves_go_to_the_even_neighbour_and_what_is_no_number_stays_none() -> None:
    assert halved(np.array([0, 1, 1, 2, -1, -2, -1, 0], "int16"), averaging=True).tolist() == [0, 2, -2, 0]
    found = halved(np.array([1, np.nan, 2, 4, np.inf, 1], "float32"), averaging=True)
    assert np.isnan(found[0]) and found[1:].tolist() == [3, np.inf]


def test_sums_that_no_integer_holds_are_refused() -> None:
    with pytest.raises(ValueError, match="sums of int64 along 1 axes may overflow"):
        halved(np.zeros(2, "int64"), averaging=True)


@given(st.data())
def test_every_box_at_every_level_is_a_part_of_the_whole_level(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 20), min_size=1, max_size=3)))
    array, stored = (
        some(shape, data.draw(st.sampled_from(["uint16", "float32"]))),
        data.draw(st.integers(1, 4)),
    )
    level = data.draw(st.integers(0, 5))
    origin = [data.draw(st.integers(0, size - 1)) >> level << level for size in shape]
    extent = [data.draw(st.integers(1, size - start)) for start, size in zip(origin, shape, strict=True)]
    box = at_level(Box(tuple(origin), tuple(extent)), level)
    means = array
    for _ in range(min(level, stored)):
        means = halved(means, averaging=True)
    number, own = of_stored_level(box, stored)
    assert number == min(level, stored)
    expected = own.of(means[tuple(slice(o, o + e) for o, e in zip(own.origin, own.extent, strict=True))])
    assert np.array_equal(truth(Held(array), box, stored), expected)
    # Without means a level is every so many elements, whichever level is stored.
    thinned = array[(slice(None, None, 1 << number),) * len(shape)]
    part = own.of(thinned[tuple(slice(o, o + e) for o, e in zip(own.origin, own.extent, strict=True))])
    assert np.array_equal(truth(Held(array), box), part)
    assert list(part.shape) == [-(-width // 2**level) for width in extent]


def test_a_level_is_made_in_pieces_that_fit_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    array = some((33, 20, 50), "uint16")
    box = at_level(Box((0, 0, 0), array.shape), 2)
    whole = truth(Held(array), box, 2)
    monkeypatch.setattr(levels, "TILE_BYTES", 4000)
    asked: list[int] = []
    held = Held(array)
    read = held.block

    def watched(origin: Sequence[int], extent: Sequence[int]) -> Any:
        asked.append(2 * math.prod(extent))
        return read(origin, extent)

    monkeypatch.setattr(held, "block", watched)
    assert np.array_equal(truth(held, box, 2), whole)
    assert len(asked) > 4 and max(asked) <= 4000


def test_strides_that_are_no_level_are_of_the_array() -> None:
    strides = Pattern((0, 0), (8, 8), (2, 2), (1, 1))
    assert of_stored_level(strides, 3) == (0, strides)
    assert of_stored_level(Box((0,), (8,)), 3) == (0, Box((0,), (8,)))
    assert level_shape([5, 8, 1], 2) == [2, 2, 1]
