"""Reductions: merging moments against numpy, how an axis is split, pieces, and chunks read twice."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

from hyperslab.cases.reduce import moments
from hyperslab.cases.reduce.division import Division
from hyperslab.cases.reduce.moments import Moments
from hyperslab.data.selections import Box
from hyperslab.data.tiles import split

OFFSETS = (0.0, -3e4, 1e9, 1e12)


def moments_of(block: npt.NDArray[Any], axis: int) -> Moments:
    """Moments of a block by the code under test."""
    found = Moments.zeros(block.shape[axis])
    found.add(block, axis)
    return found


def exact(block: npt.NDArray[Any], axis: int) -> Moments:
    """The same by numpy in extended precision, about the first value of each plane."""
    planes = np.moveaxis(block, axis, -1).reshape(-1, block.shape[axis])
    first = planes[:1].astype(np.longdouble)
    shifted = planes.astype(np.longdouble) - first
    mean = shifted.mean(axis=0)
    m2 = ((shifted - mean) ** 2).sum(axis=0)
    count = np.full(len(mean), float(len(planes)))
    return Moments(count, (mean + first[0]).astype(float), m2.astype(float))


def assert_equal(found: Moments, right: Moments) -> None:
    assert not len(found.differing(right)), (found, right)


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_moments_of_a_block_are_numpys(offset: float, axis: int) -> None:
    block = np.random.default_rng(1).normal(offset, 1.0, (7, 30, 11))
    found = moments_of(block, axis)
    assert_equal(found, exact(block, axis))
    others = tuple(number for number in range(3) if number != axis)
    # numpy's own variance loses digits where the offset is large; there the extended one is the judge.
    if abs(offset) < 1e6:
        np.testing.assert_allclose(found.variance, block.var(axis=others), rtol=1e-9)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int64", "float32"])
def test_whole_numbers_of_any_type(dtype: str) -> None:
    rng = np.random.default_rng(2)
    block = rng.integers(0, 100, (40, 50, 6)).astype(dtype)
    found = moments_of(block, 2)
    np.testing.assert_allclose(found.mean, block.mean(axis=(0, 1), dtype=float), rtol=1e-13)
    np.testing.assert_allclose(found.variance, block.var(axis=(0, 1), dtype=float), rtol=1e-12)
    count, mean, m2 = moments.whole(found)
    assert count == block.size
    assert mean == pytest.approx(block.mean(dtype=float), rel=1e-13)
    assert m2 / count == pytest.approx(block.var(dtype=float), rel=1e-12)


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    planes=st.integers(1, 5),
    offset=st.sampled_from(OFFSETS),
    scale=st.sampled_from([1e-6, 1.0, 1e5]),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_parts_merged_are_the_whole(
    sizes: list[int], planes: int, offset: float, scale: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    # Parts of unlike means, as those of real data are.
    parts = [rng.normal(offset + scale * rng.normal() * 10, scale, (size, planes)) for size in sizes]
    merged, variance = moments.merged([moments_of(part, 1) for part in parts], planes)
    block = np.concatenate(parts)
    assert_equal(merged, exact(block, 1))
    right = exact(block.reshape(-1, 1), 1)
    slack = 1e-11 * (offset * scale + scale**2) + (1e-11 * offset) ** 2
    assert abs(variance - right.variance[0]) <= 1e-11 * right.variance[0] + abs(slack)


def test_the_order_of_merging_does_not_matter() -> None:
    rng = np.random.default_rng(3)
    parts = [moments_of(rng.normal(1e6, 3.0, (size, 4)), 1) for size in (1, 50, 7, 900)]
    first, _ = moments.merged(parts, 4)
    for order in itertools.permutations(parts):
        assert_equal(moments.merged(order, 4)[0], first)


def test_nothing_merged_with_nothing_is_nothing() -> None:
    total = Moments.zeros(3)
    total.merge(Moments.zeros(3))
    assert not total.count.any() and not total.mean.any() and not total.m2.any()


@pytest.mark.parametrize("change", ["one unit", "another plane", "count", "nan"])
def test_a_small_difference_is_told_from_rounding(change: str) -> None:
    block = np.random.default_rng(4).integers(0, 2**16, (100, 100, 5)).astype(np.uint16)
    right, other = exact(block, 2), block.astype(float)
    if change == "one unit":
        other[50, 50, 3] += 1
    elif change == "another plane":
        other[:, :, 3] = other[:, :, 2]
    elif change == "nan":
        other[0, 0, 3] = np.nan
    found = moments_of(other[:-1] if change == "count" else other, 2)
    assert list(found.differing(right)) == ([0, 1, 2, 3, 4] if change == "count" else [3])


def test_the_variance_of_the_whole_is_the_truth_within_the_same_rounding() -> None:
    count = np.full(3, 100.0)
    # The means of equal values may differ in their last digit, and so has their variance one.
    equal, rising = Moments(count, np.full(3, 1e8), np.zeros(3)), Moments(count, np.arange(3.0), np.zeros(3))
    assert not moments.whole_differs(1e-17, equal) and moments.whole_differs(1e-7, equal)
    assert not moments.whole_differs(2 / 3 * (1 + 1e-14), rising)
    assert moments.whole_differs(2 / 3 * (1 + 1e-10), rising)
    assert not moments.whole_differs(np.nan, Moments.zeros(3)) and moments.whole_differs(np.nan, equal)


def test_not_a_number_is_equal_to_itself() -> None:
    block = np.ones((4, 3))
    block[2, 1] = np.nan
    assert_equal(moments_of(block, 1), moments_of(block, 1))


# ---- how it is shared


@given(extent=st.integers(1, 1000), parts=st.integers(1, 64))
def test_an_axis_is_split_whole_in_order_and_evenly(extent: int, parts: int) -> None:
    found = split(extent, parts)
    assert [start for start, _ in found] == [0, *np.cumsum([length for _, length in found])[:-1]]
    assert sum(length for _, length in found) == extent
    lengths = {length for _, length in found}
    assert max(lengths) - min(lengths) <= 1


def test_hundred_spectra_among_three_as_in_the_document() -> None:
    assert split(100, 3) == [(0, 33), (33, 33), (66, 34)]
    part = moments.part_of(Box((10, 0, 5), (100, 7, 25)), 0, 1, 3)
    assert part == Box((43, 0, 5), (33, 7, 25))


@st.composite
def cuts(draw: st.DrawFn) -> tuple[Box, tuple[int, ...] | None, list[int], int]:
    shape = draw(array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=30))
    origin = [draw(st.integers(0, side - 1)) for side in shape]
    extent = [draw(st.integers(1, side - start)) for side, start in zip(shape, origin, strict=True)]
    chunk = tuple(draw(st.integers(1, side)) for side in shape)
    order = draw(st.permutations(range(len(shape))))
    chosen = chunk if draw(st.booleans()) else None
    return Box(tuple(origin), tuple(extent)), chosen, list(order), draw(st.integers(1, 4000))


@given(cuts())
def test_pieces_cover_the_box_once_on_chunk_boundaries(
    cut: tuple[Box, tuple[int, ...] | None, list[int], int],
) -> None:
    box, chunk, order, limit = cut
    found = moments.pieces(box, chunk, order, 2, limit)
    covered = np.zeros([o + e for o, e in zip(box.origin, box.extent, strict=True)], int)
    owners: dict[tuple[int, ...], int] = {}
    for number, piece in enumerate(found):
        covered[piece.slices()] += 1
        grid = chunk or (1,) * len(box.extent)
        spans = zip(piece.origin, piece.extent, grid, strict=True)
        touched = [range(start // size, (start + width - 1) // size + 1) for start, width, size in spans]
        for coordinate in itertools.product(*touched):
            assert owners.setdefault(coordinate, number) == number, "a chunk belongs to two pieces"
        least = 2 * math.prod(min(size, width) for size, width in zip(grid, box.extent, strict=True))
        assert 2 * math.prod(piece.extent) <= max(limit, least)
    assert covered[box.slices()].min() == covered.max() == 1
    assert covered.sum() == math.prod(box.extent)
    on_disk = [tuple(piece.origin[axis] for axis in order) for piece in found]
    assert on_disk == sorted(on_disk)


def test_pieces_of_the_document_are_whole_rows_of_chunks() -> None:
    box = Box((0, 0, 12345), (100, 100, 20000))
    found = moments.pieces(box, (4, 4, 2048), [0, 1, 2], 2)
    assert [piece.extent for piece in found] == [(4, 100, 20000)] * 25
    contiguous = moments.pieces(box, None, [0, 1, 2], 2)
    assert [piece.extent for piece in contiguous] == [(4, 100, 20000)] * 25


@pytest.mark.parametrize(
    ("parts", "shared"),
    [
        # 25 rows of chunks along x: at 50 lies the middle of one; at 33 and 66, too; 25, 50 and 75 cut two.
        (1, 0),
        (2, 25),
        (3, 50),
        (4, 75),
        (5, 0),
        (25, 0),
        (50, 25 * 25),
    ],
)
def test_chunks_that_two_workers_read(parts: int, shared: int) -> None:
    box = Box((0, 0, 0), (100, 100, 25))
    assert moments.chunks_shared(box, (4, 4, 2048), 0, parts) == shared
    assert moments.chunks_shared(box, None, 0, parts) == 0


BORDERS = st.tuples(st.integers(0, 1), st.lists(st.integers(1, 50), unique=True, max_size=4).map(sorted))


def chunk_of(x: int, z: int, chunk: tuple[int, int], borders: tuple[int, list[int]]) -> tuple[int, ...]:
    """The file of an element, and its chunk in that."""
    axis, starts = borders
    place = [x, z]
    file = sum(start <= place[axis] for start in starts)
    place[axis] -= starts[file - 1] if file else 0
    return file, place[0] // chunk[0], place[1] // chunk[1]


@given(
    parts=st.integers(1, 30), chunk=st.integers(1, 30), start=st.integers(0, 20), planes=st.integers(1, 9),
    borders=BORDERS,
)  # fmt: skip
def test_shared_chunks_counted_one_by_one(
    parts: int, chunk: int, start: int, planes: int, borders: tuple[int, list[int]]
) -> None:
    box = Box((start, 3), (30, planes))
    readers: dict[tuple[int, ...], set[int]] = {}
    for index in range(parts):
        part = moments.part_of(box, 0, index, parts)
        for x, z in itertools.product(*(range(s.start, s.stop) for s in part.slices())):
            readers.setdefault(chunk_of(x, z, (chunk, 4), borders), set()).add(index)
    counted = sum(len(found) > 1 for found in readers.values())
    assert moments.chunks_shared(box, (chunk, 4), 0, parts, borders) == counted


@given(chunk=st.integers(1, 30), start=st.integers(0, 20), borders=BORDERS)
def test_no_piece_cuts_a_chunk_of_any_file(chunk: int, start: int, borders: tuple[int, list[int]]) -> None:
    nothing = moments.Moments.zeros(1)
    division = Division(0, 1, 1, 30, [chunk, 4], [0, 1], 2**19, borders, nothing, False)
    owners: dict[tuple[int, ...], int] = {}
    elements = 0
    for number, piece in enumerate(division.cut(Box((start, 3), (30, 9)))):
        for x, z in itertools.product(*(range(s.start, s.stop) for s in piece.slices())):
            elements += 1
            assert owners.setdefault(chunk_of(x, z, (chunk, 4), borders), number) == number
    assert elements == 30 * 9


@given(st.integers(0, 30), st.integers(1, 30), st.lists(st.integers(1, 60), unique=True))
def test_a_box_is_cut_where_files_begin(start: int, width: int, borders: list[int]) -> None:
    box = Box((3, start), (2, width))
    parts = moments.cut_at(box, 1, sorted(borders))
    inside = [border for border in sorted(borders) if start < border < start + width]
    assert [part.origin for part in parts] == [(3, first) for first in [start, *inside]]
    assert sum(part.extent[1] for part in parts) == width and {part.extent[0] for part in parts} == {2}
