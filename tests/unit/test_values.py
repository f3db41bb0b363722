"""What fills the test files: one array however it is cut, in which nothing passes for anything else."""

from __future__ import annotations

import math
import pickle
import warnings
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hyperslab.data.selections import Box
from hyperslab.data.values import (
    ConstantPerSpectrum,
    Counts,
    Donor,
    MixedIndices,
    Values,
    donor_runs,
    open_values,
)

DTYPES = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64"]


@st.composite
def boxes(draw: st.DrawFn) -> tuple[tuple[int, ...], Box]:
    """Shape of a small array and a box in it."""
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=5)))
    extent = tuple(draw(st.integers(1, size)) for size in shape)
    origin = tuple(draw(st.integers(0, size - width)) for size, width in zip(shape, extent, strict=True))
    return shape, Box(origin, extent)


def whole(values: Values) -> np.ndarray:
    return values.block([0] * len(values.shape), values.shape)


def distinct_rows(table: np.ndarray) -> int:
    """Number of different rows of a two-dimensional array."""
    rows = np.ascontiguousarray(table)
    return len(np.unique(rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))))


# ---- synthetic values


@pytest.mark.parametrize("fill", [MixedIndices, ConstantPerSpectrum])
@given(drawn=boxes(), dtype=st.sampled_from(DTYPES))
def test_a_block_is_that_part_of_the_whole(fill: Any, drawn: tuple[tuple[int, ...], Box], dtype: str) -> None:
    shape, box = drawn
    values = fill(shape, dtype)
    block = values.block(box.origin, box.extent)
    assert block.dtype == np.dtype(dtype) == values.dtype
    assert block.shape == box.extent
    assert block.tolist() == whole(values)[box.slices()].tolist()


def test_blocks_longer_than_the_cached_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    values = MixedIndices((7, 11, 13), "uint16")
    expected = whole(values).tolist()
    monkeypatch.setattr("hyperslab.data.values.CACHED_BYTES", 3 * 13 * 2)
    assert whole(values).tolist() == expected


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_two_planes_or_spectra_are_alike(dtype: str) -> None:
    table = whole(MixedIndices((15, 20, 400), dtype)).reshape(300, 400)
    assert distinct_rows(table) == 300
    assert distinct_rows(table.T) == 400


@pytest.mark.parametrize("dtype", ["uint16", "float32"])
def test_no_two_planes_or_spectra_are_alike_at_full_size(dtype: str) -> None:
    # A few spectra tell all planes apart and the other way round.
    values = MixedIndices((100, 100, 100_000), dtype)
    assert distinct_rows(values.block((0, 0, 0), (1, 8, 100_000))[0].T) == 100_000
    assert distinct_rows(values.block((0, 0, 0), (100, 100, 8)).reshape(10_000, 8)) == 10_000


def test_planes_of_bytes_differ_as_far_as_their_factors_and_addends_can() -> None:
    assert distinct_rows(MixedIndices((64, 2**15), "uint8").block((0, 0), (64, 2**15)).T) == 2**15


@pytest.mark.parametrize("shift", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, -1), (0, 3, 128)])
@pytest.mark.parametrize("dtype", ["uint16", "int32", "float64"])
def test_a_shifted_selection_agrees_nearly_nowhere(dtype: str, shift: Sequence[int]) -> None:
    values = MixedIndices((20, 20, 300), dtype)
    there = [2 + step for step in shift]
    here, elsewhere = values.block((2, 2, 2), (10, 10, 100)), values.block(there, (10, 10, 100))
    assert (here == elsewhere).mean() < 0.01


def test_values_spread_over_the_whole_range() -> None:
    shares = np.bincount(whole(MixedIndices((50, 2000), "uint16")).ravel() >> 12, minlength=16) / 100_000
    assert abs(shares - 1 / 16).max() < 0.005


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_hold_whole_numbers_that_they_hold_exactly(dtype: str) -> None:
    block = whole(MixedIndices((5, 300), dtype))
    word = np.dtype(f"u{block.dtype.itemsize // 2}")
    assert block.astype(word).astype(dtype).tolist() == block.tolist()
    assert block.max() > np.iinfo(word).max * 0.9


def mixed(index: int, bits: int, salt: int) -> int:
    """The mix of one index, in Python's own integers."""
    z = (index + salt * 0x9E3779B97F4A7C15) % (1 << bits)
    for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
        z = (z ^ (z >> bits // 2)) * factor % (1 << bits)
    return z ^ (z >> bits // 2)


def mixed_value(spectrum: int, plane: int, bits: int) -> int:
    """a[z] b[s] + c[z] + d[s] modulo 2^bits."""
    z, s = mixed(plane, min(64, 2 * bits - 1), 1), mixed(spectrum, min(64, 2 * bits), 3)
    # Words of 64 bits take their factors from a second mix.
    high_z, high_s = (mixed(plane, 64, 2), mixed(spectrum, 64, 4)) if bits == 64 else (z >> bits, s >> bits)
    return ((2 * high_z + 1) * high_s + z + s) % (1 << bits)


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_are_those_of_every_machine_and_release(dtype: str) -> None:
    values = MixedIndices((40, 50, 1000), dtype)
    bits = 8 * values.dtype.itemsize // (2 if values.dtype.kind == "f" else 1)
    box = Box((37, 41, 990), (2, 3, 4))
    numbers = [
        mixed_value(x * 50 + y, z, bits) for x in (37, 38) for y in (41, 42, 43) for z in (990, 991, 992, 993)
    ]
    signed = [n - (1 << bits) if values.dtype.kind == "i" and n >> (bits - 1) else n for n in numbers]
    assert values.block(box.origin, box.extent).ravel().tolist() == signed


# 2^15 planes of 8-bit words have factors and addends of their own, more have further leading indices.
SEGMENT = 2**15


@pytest.mark.parametrize("dtype", ["uint8", "int8", "float16"])
def test_a_long_array_of_bytes_repeats_nowhere(dtype: str) -> None:
    pieces = whole(MixedIndices((40 * SEGMENT,), dtype)).reshape(40, SEGMENT)
    assert distinct_rows(pieces) == 40


def test_planes_of_bytes_differ_where_leading_indices_fill_all_their_numbers() -> None:
    values = MixedIndices((256, 256, 2 * SEGMENT), "uint8")
    here, beyond = (values.block((0, 0, z), (256, 256, 1)) for z in (3, 3 + SEGMENT))
    assert (here == beyond).mean() < 0.02


@pytest.mark.parametrize("shape", [(3 * SEGMENT + 9,), (3, 3 * SEGMENT + 9)])
def test_a_block_of_a_long_array_is_that_part_of_the_whole(shape: tuple[int, ...]) -> None:
    values = MixedIndices(shape, "uint8")
    expected, leading = whole(values), [slice(1, size) for size in shape[:-1]]
    for first, stop in ((0, SEGMENT), (SEGMENT - 3, SEGMENT + 4), (5, 3 * SEGMENT + 8)):
        origin = [1] * len(leading) + [first]
        extent = [size - 1 for size in shape[:-1]] + [stop - first]
        assert np.array_equal(values.block(origin, extent), expected[(*leading, slice(first, stop))])


@pytest.mark.parametrize(("dtype", "z"), [("uint8", SEGMENT - 2), ("uint16", 2**31 - 2)])
def test_values_of_the_first_planes_are_those_of_the_formula_alone(dtype: str, z: int) -> None:
    values, bits = MixedIndices((5, z + 4), dtype), 8 * np.dtype(dtype).itemsize
    found = values.block((3, z), (2, 4))
    assert found[:, :2].tolist() == [[mixed_value(s, z + k, bits) for k in (0, 1)] for s in (3, 4)]
    assert found[:, 2:].tolist() == [[mixed_value(s + 5, k, bits) for k in (0, 1)] for s in (3, 4)]


def test_values_are_made_without_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for shape in ((9,), (2, 9), (1, 1, 1)):
            for dtype in DTYPES:
                whole(MixedIndices(shape, dtype))
                whole(ConstantPerSpectrum(shape, dtype))


def test_constant_per_spectrum_is_the_documents_fill() -> None:
    block = whole(ConstantPerSpectrum((4, 5, 6), "uint16"))
    assert all((block[x, y] == x * 5 + y).all() for x in range(4) for y in range(5))


# ---- donors


def donor_index(index: int, size: int, held: int, window: int) -> int:
    """The fill rule for one index: the same, or its place in the donor's last window of equal length."""
    number = index // window
    length = min(window, size - number * window)
    fits = number * window + length <= held
    return index if fits else held - length + index % window


def spread(size: int, held: int, window: int) -> list[int]:
    """Donor index of every array index along one axis."""
    return [d + i for _, d, n in donor_runs(0, size, size, held, window) for i in range(n)]


@pytest.mark.parametrize(
    ("size", "held", "window", "expected"),
    [
        # The donor is longer than the array, or as long: the same indices.
        (5, 9, 3, [0, 1, 2, 3, 4]),
        (6, 6, 6, [0, 1, 2, 3, 4, 5]),
        # Past the donor's end: its last window, again and again.
        (9, 3, 3, [0, 1, 2, 0, 1, 2, 0, 1, 2]),
        (9, 6, 3, [0, 1, 2, 3, 4, 5, 3, 4, 5]),
        # A window that begins inside the donor and ends outside is taken from its end as a whole.
        (9, 5, 3, [0, 1, 2, 2, 3, 4, 2, 3, 4]),
        # The last window is shorter, and so is the donor's window that fills it.
        (8, 3, 3, [0, 1, 2, 0, 1, 2, 1, 2]),
        (7, 4, 4, [0, 1, 2, 3, 1, 2, 3]),
        # The last window is short enough to lie in the donor at the same indices.
        (7, 7, 4, [0, 1, 2, 3, 4, 5, 6]),
        (4, 1, 1, [0, 0, 0, 0]),
    ],
)
def test_fill_rule_by_hand(size: int, held: int, window: int, expected: list[int]) -> None:
    assert spread(size, held, window) == expected


@given(st.integers(1, 60), st.integers(1, 40), st.integers(1, 40), st.data())
def test_fill_rule_for_each_index_however_it_is_cut(
    size: int, held: int, window: int, data: st.DataObject
) -> None:
    assume(window <= held)
    start = data.draw(st.integers(0, size - 1))
    stop = data.draw(st.integers(start + 1, size))
    runs = list(donor_runs(start, stop, size, held, window))
    indices = [(i + k, d + k) for i, d, n in runs for k in range(n)]
    assert indices == [(i, donor_index(i, size, held, window)) for i in range(start, stop)]
    assert all(0 <= d < held for _, d in indices)


@pytest.mark.parametrize("held", [(4, 5, 6), (2, 3, 4), (9, 2, 6), (1, 1, 1), (4, 9, 3)])
@pytest.mark.parametrize("window", [None, (1, 1, 1), (2, 1, 3)])
def test_donor_fills_each_axis_by_the_rule(
    tmp_path: Path, held: tuple[int, ...], window: tuple[int, ...] | None
) -> None:
    shape = (4, 5, 6)
    if window and any(w > h for w, h in zip(window, held, strict=True)):
        window = (1, 1, 1)
    donor = np.arange(math.prod(held), dtype=np.int32).reshape(held)
    np.save(tmp_path / "donor.npy", donor)
    axes = zip(shape, held, window or held, strict=True)
    indices = [[donor_index(i, size, h, w) for i in range(size)] for size, h, w in axes]
    dataset = {"shape": shape, "dtype": "int32", "donor": {"path": "elsewhere", "window": window}}
    values = open_values(dataset, str(tmp_path / "donor.npy"))
    assert values.dtype == np.int32
    assert whole(values).tolist() == donor[np.ix_(*indices)].tolist()
    box = Box((1, 2, 1), (2, 3, 5))
    assert values.block(box.origin, box.extent).tolist() == whole(values)[box.slices()].tolist()


def test_donor_is_mapped_and_not_read_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "donor.npy", np.zeros((3, 3), np.uint8))
    loaded: list[np.ndarray] = []
    load = np.load

    def noted(*args: Any, **options: Any) -> np.ndarray:
        loaded.append(load(*args, **options))
        return loaded[-1]

    monkeypatch.setattr(np, "load", noted)
    Donor((5, 5), str(tmp_path / "donor.npy"))
    assert [type(array) for array in loaded] == [np.memmap]


def test_a_donor_goes_to_another_process_as_a_path(tmp_path: Path) -> None:
    donor = np.random.default_rng(1).integers(0, 9, (50, 60, 70), dtype=np.uint16)
    np.save(tmp_path / "donor.npy", donor)
    values = Donor((60, 60, 80), str(tmp_path / "donor.npy"), (5, 6, 7))
    sent = pickle.dumps(values)
    assert len(sent) < 1000
    assert np.array_equal(whole(pickle.loads(sent)), whole(values))


# ---- counts


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int32", "float32", "float64"])
def test_counts_are_the_same_small_whole_numbers_in_every_type(dtype: str) -> None:
    found = whole(Counts((6, 7, 500), dtype))
    assert found.dtype == np.dtype(dtype)
    assert found.tolist() == whole(Counts((6, 7, 500), "uint16")).tolist()
    assert (found.min(), found.max() < 127) == (0, True)
    assert found.mean() == pytest.approx(Counts.MEAN - 0.5, abs=0.2)


def test_gzip_makes_a_third_of_counts_whatever_the_chunk() -> None:
    values = Counts((20, 20, 4096), "uint16")
    ratios = []
    for extent in ((1, 1, 2048), (4, 4, 2048), (10, 10, 128)):
        block = values.block((3, 2, 100), extent)
        ratios.append(block.nbytes / len(zlib.compress(block.tobytes(), 4)))
    assert all(2.5 < ratio < 3.5 for ratio in ratios)


def test_no_plane_and_no_spectrum_of_counts_passes_for_another() -> None:
    found = whole(Counts((10, 10, 400), "uint16"))
    planes = {found[:, :, z].tobytes() for z in range(400)}
    spectra = {found[x, y].tobytes() for x in range(10) for y in range(10)}
    assert (len(planes), len(spectra)) == (400, 100)
    assert whole(Counts((10, 10, 400), "uint16")).tolist() == found.tolist()
    box = Box((2, 3, 17), (5, 6, 99))
    assert (
        Counts((10, 10, 400), "uint16").block(box.origin, box.extent).tolist() == found[box.slices()].tolist()
    )


# ---- by name


def test_open_values_by_name() -> None:
    for name, fill in (("mixed", MixedIndices), ("constant-per-spectrum", ConstantPerSpectrum)):
        values = open_values({"shape": [2, 3], "dtype": "uint8", "fill": name})
        assert isinstance(values, fill)
        assert (values.shape, values.dtype) == ((2, 3), np.dtype("uint8"))
    with pytest.raises(ValueError, match="no prepared donor"):
        open_values({"shape": [2, 3], "dtype": "uint8", "fill": "mixed", "donor": {"path": "x.npy"}})
