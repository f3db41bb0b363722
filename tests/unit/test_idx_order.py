"""HZ order: the document's table, the formula against the lattices, levels and blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_environments import ROOT

import check_idx_order
from hyperslab.formats.idx.ordering import Ordering, by_formula
from hyperslab.layouts.idx_order import (
    Bitmask,
    Blocks,
    Integers,
    bit_lengths,
    bitmask_mistake,
    guessed_bitmask,
    hz_addresses,
    regular_bitmask,
    z_addresses,
)


@st.composite
def bitmasks(draw: st.DrawFn) -> Bitmask:
    """Bitmasks of 1 to 4 axes and up to 12 splits, in any order."""
    dims = draw(st.integers(1, 4))
    digits = draw(st.lists(st.integers(0, dims - 1), max_size=12))
    return Bitmask("V" + "".join(map(str, digits)), dims)


def addresses(bitmask: Bitmask) -> Integers:
    """HZ address of every sample of the bitmask's extents, by the formula."""
    return hz_addresses(bitmask, list(np.indices(bitmask.extents, np.int64)))


def test_the_table_of_the_document() -> None:
    """Table I, which holds for bitmask V210: x is axis 0 of the dataset, the fastest, and splits last."""
    bitmask = Bitmask("V210", 3)
    # The table's rows count x, y, z, which it also calls their Z order; an array has them turned round.
    x, y, z = np.indices((2, 2, 2), np.int64)
    grid = (z, y, x)
    assert z_addresses(bitmask, grid).reshape(-1).tolist() == [0, 4, 2, 6, 1, 5, 3, 7]
    found = hz_addresses(bitmask, grid).reshape(-1)
    assert found.tolist() == [0, 1, 2, 3, 4, 6, 5, 7]
    assert bit_lengths(found).tolist() == [0, 1, 2, 2, 3, 3, 3, 3]


def test_the_page_has_the_table_as_the_formula_makes_it() -> None:
    text = (ROOT / "docs" / "idx.md").read_text(encoding="utf-8")
    assert check_idx_order.table() in text
    published = [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (6, 3), (5, 3), (7, 3)]
    rows = [line.strip("| ").split(" | ") for line in check_idx_order.table().splitlines()[2:]]
    assert [(int(row[4]), int(row[5])) for row in rows] == published


@given(bitmasks())
def test_the_formula_is_a_bijection_and_levels_follow_from_it(bitmask: Bitmask) -> None:
    found = addresses(bitmask).reshape(-1)
    assert np.array_equal(np.sort(found), np.arange(2**bitmask.bits))
    above = found[found > 0]
    assert np.array_equal(bit_lengths(above), np.floor(np.log2(above)).astype(int) + 1)


@given(bitmasks())
def test_levels_are_lattices(bitmask: Bitmask) -> None:
    levels = bit_lengths(addresses(bitmask))
    for number in range(bitmask.bits + 1):
        lattice = bitmask.level(number)
        seen = np.zeros(bitmask.extents, int)
        everything = [slice(0, count) for count in lattice.counts]
        seen[lattice.indices(everything, (0,) * bitmask.dims, (1,) * bitmask.dims)] += 1
        assert np.array_equal(seen == 1, levels == number)
        coarse = tuple(slice(None, None, step) for step in bitmask.steps(number))
        assert (levels[coarse] <= number).all() and levels[coarse].size == 2**number
        assert bitmask.level_of_steps(bitmask.steps(number)) == number


@given(bitmasks(), st.integers(1, 6))
def test_blocks_are_lattices_in_hz_order(bitmask: Bitmask, bits: int) -> None:
    if bits > bitmask.bits:
        return
    blocks, found = Blocks(bitmask, bits), addresses(bitmask)
    for number in range(blocks.count):
        lattice, level = blocks.lattice(number), blocks.level_of(number)
        assert lattice.counts == blocks.counts(level)
        everything = [slice(0, count) for count in lattice.counts]
        inside = found[lattice.indices(everything, (0,) * bitmask.dims, (1,) * bitmask.dims)]
        ordered = inside.reshape(-1)[blocks.order(level)]
        assert np.array_equal(ordered, np.arange(number << bits, (number + 1) << bits))


@given(bitmasks(), st.integers(1, 6), st.data())
def test_the_blocks_that_a_box_touches(bitmask: Bitmask, bits: int, data: st.DataObject) -> None:
    if bits > bitmask.bits:
        return
    blocks, found = Blocks(bitmask, bits), addresses(bitmask)
    origin = [data.draw(st.integers(0, size - 1)) for size in bitmask.extents]
    extent = [data.draw(st.integers(1, size - at)) for size, at in zip(bitmask.extents, origin, strict=True)]
    finest = data.draw(st.integers(bits, bitmask.bits))
    box = found[tuple(slice(o, o + e) for o, e in zip(origin, extent, strict=True))]
    box = box[bit_lengths(box) <= finest]
    assert np.array_equal(blocks.touched(origin, extent, finest), np.unique(box >> bits))
    assert blocks.count_touched(origin, extent, finest) == len(blocks.touched(origin, extent, finest))
    assert blocks.count_touched(origin, extent) == len(blocks.touched(origin, extent))


def test_blocks_are_counted_however_many_there_are() -> None:
    blocks = Blocks(Bitmask("V" + "012" * 20, 3), 15)
    assert blocks.count_touched((0, 0, 0), (2**20,) * 3) == blocks.count == 2**45
    assert blocks.count_touched((1, 0, 0), (1, 1, 1)) == 1


@given(bitmasks(), st.integers(1, 6))
def test_fast_order_is_that_of_the_formula(bitmask: Bitmask, bits: int) -> None:
    if bits > bitmask.bits:
        return
    values = np.random.default_rng(1).integers(0, 2**16, bitmask.extents).astype(np.uint16)
    order = Ordering(Blocks(bitmask, bits), row_major=False)
    truth = dict(by_formula(bitmask, bits, values))
    origin = (0,) * bitmask.dims
    seen = 0
    for level in order.blocks.levels(bitmask.bits):
        found = order.covered(level, origin, values.shape)
        assert found.whole.all()
        out = np.empty((len(found.numbers), order.blocks.samples), np.uint16)
        order.cut(found, list(range(len(found.numbers))), origin, values, out)
        for number, row in zip(found.numbers.tolist(), out, strict=True):
            assert np.array_equal(row, truth[number])
            grid = order.grid(level, row, row_major=False)
            assert np.array_equal(order.stored(level, grid), row)
            seen += 1
    assert seen == len(truth) == order.blocks.count


@pytest.mark.parametrize(
    ("shape", "guessed", "regular"),
    [
        ((8, 8, 8), "V012012012", "V012012012"),
        # IDX counts axes from the fastest one.
        ((4, 4, 16), "V01201200", "V00012012"),
        ((5, 3), "V01011", "V10101"),
        ((2, 1, 2), "V02", "V02"),
    ],
)
def test_guessed_and_regular_bitmasks(shape: tuple[int, ...], guessed: str, regular: str) -> None:
    assert (guessed_bitmask(shape), regular_bitmask(shape)) == (guessed, regular)
    assert bitmask_mistake(guessed, shape) is bitmask_mistake(regular, shape) is None


@pytest.mark.parametrize(
    ("bitmask", "shape", "says"),
    [
        ("012", (2, 2, 2), "should be V and the number"),
        ("V013", (2, 2, 2), "names axis 3, and there are 3"),
        ("V00", (2, 2), "covers 1 along its axis 1, and the array has 2"),
        ("V" + "01" * 32, (2, 2), "has 64 splits"),
    ],
)
def test_a_bitmask_that_does_not_fit(bitmask: str, shape: tuple[int, ...], says: str) -> None:
    assert says in str(bitmask_mistake(bitmask, shape))
