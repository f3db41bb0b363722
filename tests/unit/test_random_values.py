"""Random integers below 256, as HDF5's benchmark of 2002 wrote them: each from its index, as hard to pack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import file_specification
from studies import changed, mistake

from hyperslab.data.values import RandomBelow256, open_values
from hyperslab.formats.hdf5.array import FORMAT


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=4))
def test_any_box_is_part_of_the_whole(axes: list[tuple[int, int, int]]) -> None:
    origin, extent, rest = zip(*axes, strict=True)
    shape = [sum(parts) for parts in zip(origin, extent, rest, strict=True)]
    values = RandomBelow256(shape, "int32")
    whole = values.block([0] * len(shape), shape)
    part = whole[tuple(slice(o, o + e) for o, e in zip(origin, extent, strict=True))]
    assert np.array_equal(values.block(origin, extent), part)
    assert whole.dtype == np.int32


def test_values_look_random() -> None:
    block = RandomBelow256((64, 64, 256), "int32").block((0, 0, 0), (64, 64, 256))
    counts = np.bincount(block.reshape(-1), minlength=256)
    assert len(counts) == 256
    # Chi-square of 255 degrees of freedom: below 330 with probability 0.999.
    expected = block.size / 256
    assert ((counts - expected) ** 2 / expected).sum() < 330
    # Neighbours along any axis have nothing in common.
    for axis in range(3):
        first, second = (np.take(block, range(*part), axis).reshape(-1) for part in ((0, 63), (1, 64)))
        assert abs(np.corrcoef(first, second)[0, 1]) < 0.01
    assert len(np.unique(block.reshape(64, -1), axis=0)) == 64


@pytest.mark.parametrize(
    ("filters", "share"),
    [
        # The published sizes of the whole file, MB of 10^6, over the array's 268.44.
        ([{"name": "gzip", "level": 6}], 102.94 / 268.44),
        ([{"name": "shuffle"}, {"name": "gzip", "level": 6}], 67.34 / 268.44),
    ],
)
def test_they_pack_as_the_published_ones(tmp_path: Path, filters: list[dict[str, Any]], share: float) -> None:
    shape = (4, 64, 1024)
    spec = file_specification(shape, (4, 16, 1024), filters=filters, dtype="int32")
    spec["dataset"]["fill"] = "random-below-256"
    path = str(tmp_path / "a.h5")
    FORMAT.generate(path, spec, open_values(spec["dataset"]))
    assert FORMAT.report(path, spec)["stored_bytes"] / (4 * np.prod(shape)) == pytest.approx(share, rel=0.002)


def test_a_type_that_does_not_hold_them_is_one_line(tmp_path: Path) -> None:
    content = changed("dataset.fill", "random-below-256")
    content["dataset"]["dtype"] = "int8"
    said = mistake(tmp_path, content)
    assert said == "dataset: fill random-below-256 needs a dtype that holds 255, not int8"
