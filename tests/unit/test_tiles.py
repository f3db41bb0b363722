"""Arrays with turned axes become row-major, whatever their strides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.data import tiles
from hyperslab.data.tiles import in_chunk_order, row_major


@given(st.data())
def test_row_major_is_numpys_copy(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=5))
    order = data.draw(st.permutations(range(len(shape))))
    array = np.arange(np.prod(shape), dtype=data.draw(st.sampled_from(["u1", "f8"]))).reshape(shape)
    view = array.transpose(order)[tuple(slice(None, None, data.draw(st.sampled_from([1, 2]))) for _ in shape)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "CACHE_LINES", data.draw(st.integers(1, 50)))
        found = row_major(view)
    assert found.flags.c_contiguous
    assert found.dtype == view.dtype
    assert found.tolist() == view.tolist()


def test_no_element_is_missed_where_a_block_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    view = np.arange(3 * 700 * 2, dtype=np.uint16).reshape(3, 700, 2).transpose(2, 0, 1)
    assert np.array_equal(row_major(view), view)
    copied: list[Any] = []
    whole = np.empty_like

    class Counted(np.ndarray[Any, Any]):
        def __setitem__(self, index: Any, value: Any) -> None:
            copied.append(value.size // 2)
            super().__setitem__(index, value)

    monkeypatch.setattr(np, "empty", lambda shape, dtype: whole(view, shape=shape).view(Counted))
    assert np.array_equal(np.asarray(row_major(view)), view)
    # 3 x 700 lines of two elements, by so many that the cache holds them.
    assert sum(copied) == 2100
    assert max(copied) <= tiles.CACHE_LINES < 2100


@given(st.data())
def test_chunk_order_of_turned_and_padded_blocks(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    chunk = [data.draw(st.integers(1, extent)) for extent in shape]
    order = data.draw(st.permutations(range(len(shape))))
    array = np.arange(1, 1 + np.prod(shape), dtype=np.int32).reshape(shape)
    turned, turned_chunk = array.transpose(order), [chunk[axis] for axis in order]
    assert (
        in_chunk_order(turned, turned_chunk).tolist() == in_chunk_order(turned.copy(), turned_chunk).tolist()
    )
