"""Which bytes a rank moves in which call: every byte of a dataset belongs to one rank and one call."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.cases.parallel.pattern import Pattern
from hyperslab.specifications import CaseSpecification


@st.composite
def patterns(draw: st.DrawFn) -> tuple[int, int, int, int]:
    """Ranks, bytes, transfer and block, as a study may give them; elements of two bytes."""
    block = 2 * draw(st.integers(1, 6))
    transfer = block * draw(st.integers(1, 5))
    return draw(st.integers(1, 5)), transfer * draw(st.integers(1, 5)), transfer, block


def case(size: int, transfer: int, block: int, interleaved: bool, ranks: int) -> CaseSpecification:
    asked = {"datasets": 1, "bytes": size, "transfer": transfer, "block": block, "interleaved": interleaved}
    return {"name": "a", "kind": "parallel", "states": [], "parallel": asked, "workers": ranks}


@given(given=patterns(), interleaved=st.booleans())
def test_all_ranks_together_move_every_byte_once(given: tuple[int, int, int, int], interleaved: bool) -> None:
    ranks, size, transfer, block = given
    dataset = np.arange(ranks * size // 2, dtype=np.uint16)
    raw = dataset.view(np.uint8)
    moved = np.zeros(len(raw), int)
    for rank in range(ranks):
        pattern = Pattern.of(case(size, transfer, block, interleaved, ranks), rank)
        mine = pattern.mine(dataset).view(np.uint8)
        assert len(mine) == size and pattern.calls == size // transfer
        position = 0
        for call in range(pattern.calls):
            for offset, length in pattern.segments(call):
                assert (raw[offset : offset + length] == mine[position : position + length]).all()
                moved[offset : offset + length] += 1
                position += length
            start, stride, count, width = pattern.hyperslab(call)
            slab = [(start + number * stride, width) for number in range(count)]
            assert slab == pattern.segments(call)
        assert position == size
    assert (moved == 1).all()


@given(given=patterns(), interleaved=st.booleans(), most=st.integers(1, 40))
def test_a_share_is_put_together_from_pieces(
    given: tuple[int, int, int, int], interleaved: bool, most: int
) -> None:
    ranks, size, transfer, block = given
    dataset = np.arange(ranks * size // 2, dtype=np.uint16)
    for rank in range(ranks):
        pattern = Pattern.of(case(size, transfer, block, interleaved, ranks), rank)
        found = []
        for first, length in pattern.pieces(2 * most):
            assert 0 < length <= 2 * most
            piece = dataset[first // 2 : (first + length) // 2]
            found.append(piece if length <= pattern.block else pattern.mine(piece))
        assert np.array_equal(np.concatenate(found), pattern.mine(dataset))


@pytest.mark.parametrize(
    ("interleaved", "expected"),
    [(False, [[(8, 4)], [(12, 4)]]), (True, [[(2, 2), (6, 2)], [(10, 2), (14, 2)]])],
)
def test_the_second_of_two_ranks(interleaved: bool, expected: list[list[tuple[int, int]]]) -> None:
    pattern = Pattern.of(case(8, 4, 2, interleaved, 2), 1)
    assert [pattern.segments(call) for call in range(pattern.calls)] == expected
    assert pattern.dataset_bytes == pattern.total_bytes == 16
