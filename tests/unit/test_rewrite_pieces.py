"""Boxes in which values are copied: they cover everything once, hold whole chunks, and fit the memory."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab.rewriting.pieces import COPIES, Pieces, decoded, plan, shared

EXTENTS = st.lists(st.tuples(*[st.integers(1, 12)] * 3), min_size=1, max_size=3)


@given(EXTENTS, st.integers(1, 600))
def test_boxes_cover_each_element_once_and_hold_whole_chunks(axes: list[tuple[int, ...]], limit: int) -> None:
    shape, unit, chunk = (tuple(axis[part] for axis in axes) for part in range(3))
    pieces = plan(shape, unit, chunk, 1, limit)
    seen = np.zeros(shape, int)
    for box in pieces.boxes(shape):
        seen[box.slices()] += 1
        assert all(origin % size == 0 for origin, size in zip(box.origin, unit, strict=True))
        assert math.prod(box.extent) <= max(limit, math.prod(unit))
    assert (seen == 1).all()
    assert all(extent % size == 0 for extent, size in zip(pieces.extent, unit, strict=True))


@settings(max_examples=50)
@given(EXTENTS)
def test_how_often_a_chunk_is_decoded_is_counted(axes: list[tuple[int, ...]]) -> None:
    shape, extent, chunk = (tuple(axis[part] for axis in axes) for part in range(3))
    touched = 0
    for box in Pieces(extent, 1.0).boxes(shape):
        ranges = zip(box.origin, box.extent, chunk, strict=True)
        touched += math.prod((o + e - 1) // c - o // c + 1 for o, e, c in ranges)
    chunks = math.prod(-(-n // c) for n, c in zip(shape, chunk, strict=True))
    assert math.isclose(decoded(extent, chunk, shape), touched / chunks)


def test_with_room_no_chunk_is_decoded_twice() -> None:
    shape, unit, chunk = (64, 64, 64), (6, 6, 6), (4, 16, 8)
    assert plan(shape, unit, chunk, 4, math.prod(shape) * 4).decoded == 1


def test_the_fewest_reads_of_the_source_are_found_where_not_everything_fits() -> None:
    # Spectra in, planes out: every chunk that is read belongs to all boxes along the last axis.
    pieces = plan((20, 20, 1000), (20, 20, 1), (1, 1, 1000), 2, 20 * 20 * 100 * 2)
    assert pieces.extent == (20, 20, 100)
    assert pieces.decoded == 10


def test_storage_without_chunks_is_read_in_long_runs() -> None:
    assert plan((10, 10, 100), None, None, 1, 1000).extent == (1, 10, 100)


def test_one_chunk_may_be_larger_than_the_memory() -> None:
    assert plan((100, 100), (50, 50), (10, 10), 8, 100).extent == (50, 50)


def test_many_tiny_chunks_do_not_meet_in_one_box() -> None:
    pieces = plan((10**6, 100), (1, 1), (1, 1), 1, 2**30)
    assert math.prod(min(e, n) for e, n in zip(pieces.extent, (10**6, 100), strict=True)) <= 32768


def test_an_array_without_elements_has_no_boxes() -> None:
    assert not list(plan((0, 5), (1, 5), None, 4, 100).boxes((0, 5)))


MIB = 2**20


def test_boxes_that_cut_no_chunk_are_shared_by_all_processors() -> None:
    pieces = shared((256, 256, 2048), (4, 4, 2048), (16, 16, 2048), 1, 256 * MIB, 128 * MIB, 2)
    # Rows of chunks, so that the new file has them in their order.
    assert pieces == Pieces((16, 256, 2048), 1, 2)


@given(EXTENTS, st.integers(1, 2000), st.integers(1, 4))
def test_what_processes_hold_together_fits_the_budget(
    axes: list[tuple[int, ...]], budget: int, processors: int
) -> None:
    shape, unit, chunk = (tuple(axis[part] for axis in axes) for part in range(3))
    pieces = shared(shape, unit, chunk, 1, budget, 128 * MIB, processors)
    assert 1 <= pieces.processes <= processors
    if pieces.processes > 1:
        box = max(math.prod(box.extent) for box in pieces.boxes(shape))
        assert COPIES * box * (pieces.processes + 1) <= budget


def test_where_small_boxes_cut_chunks_often_one_process_has_large_ones() -> None:
    # Each box of spectra needs all planes, and there is memory for few spectra.
    planes, spectra, shape = (1, 512, 128), (512, 4, 128), (512, 512, 128)
    alone = shared(shape, spectra, planes, 1, 32 * MIB, math.prod(shape), 1)
    together = shared(shape, spectra, planes, 1, 32 * MIB, math.prod(shape), 2)
    assert together == alone and together.decoded == 2


def test_little_is_not_worth_a_process() -> None:
    assert shared((64, 64, 64), (4, 4, 64), (4, 4, 64), 1, 256 * MIB, 2**18, 4).processes == 1
    # Of a large array only what is stored counts.
    assert shared((10**5, 10**5), (100, 100), (100, 100), 4, 256 * MIB, 10**5, 4).processes == 1


def test_a_large_array_has_not_too_many_boxes() -> None:
    shape, chunk = (10**5, 10**5), (100, 100)
    pieces = shared(shape, chunk, chunk, 4, 2**30, math.prod(shape) * 4, 2)
    assert pieces.processes == 2 and len(list(pieces.boxes(shape))) <= 2048
