"""Arithmetic of chunked storage, against brute force, real HDF5 files and the published numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import h5py
import numpy as np
import pytest
from h5py import h5d, h5f, h5o, h5p, h5s, h5t
from h5py._hl.filters import guess_chunk
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab.layouts import chunks, hdf5_index
from hyperslab.layouts.hdf5_index import BTREE_CHILDREN, BTREE_KEPT

Arrays = tuple[tuple[int, ...], tuple[int, ...]]
Boxes = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]

FULL = (100, 100, 100_000)
GRID = list(itertools.product((1, 2, 4, 8, 16, 32), (128, 256, 512, 1024, 2048, 4096, 8192)))
MIB = 2**20


@st.composite
def arrays(draw: st.DrawFn) -> Arrays:
    """Shape of a small array and a chunk shape that fits it."""
    shape = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    return tuple(shape), tuple(draw(st.integers(1, extent)) for extent in shape)


@st.composite
def boxes(draw: st.DrawFn) -> Boxes:
    """Origin and extent of a box, with the shape and the chunk shape of its array."""
    shape, chunk = draw(arrays())
    extent = tuple(draw(st.integers(1, size)) for size in shape)
    origin = tuple(draw(st.integers(0, size - width)) for size, width in zip(shape, extent, strict=True))
    return origin, extent, shape, chunk


def chunk_of_each_element(
    origin: Sequence[int], extent: Sequence[int], chunk: Sequence[int]
) -> set[tuple[int, ...]]:
    """Chunk coordinates of every element of a box, one by one."""
    elements = itertools.product(*(range(o, o + e) for o, e in zip(origin, extent, strict=True)))
    return {tuple(i // c for i, c in zip(element, chunk, strict=True)) for element in elements}


def index_bytes(
    shape: Sequence[int],
    chunk: Sequence[int],
    libver: int = h5f.LIBVER_EARLIEST,
    filtered: bool = False,
    written: bool = False,
) -> int:
    """Index size that HDF5 reports for a uint8 dataset in memory, all of whose chunks are allocated."""
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_libver_bounds(libver, h5f.LIBVER_LATEST)
    access.set_fapl_core(backing_store=False)
    file = h5f.create(b"in memory", h5f.ACC_TRUNC, fapl=access)
    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_chunk(tuple(chunk))
    if filtered:
        creation.set_fletcher32()
    if not written:
        creation.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    space = h5s.create_simple(tuple(shape))
    dataset = h5d.create(file, b"data", h5t.STD_U8LE, space, creation)
    if written:
        dataset.write(h5s.ALL, h5s.ALL, np.ones(shape, np.uint8))
    h5f.flush(file)
    assert dataset.get_num_chunks() == chunks.chunk_count(shape, chunk)
    return int(h5o.get_info(dataset).meta_size.obj.index_size)


# ---- counts, padding, chunks touched


@given(arrays())
def test_counts_and_padding_by_brute_force(array: Arrays) -> None:
    shape, chunk = array
    present = chunk_of_each_element([0] * len(shape), shape, chunk)
    assert chunks.chunk_count(shape, chunk) == len(present)
    assert chunks.chunks_per_axis(shape, chunk) == tuple(max(axis) + 1 for axis in zip(*present, strict=True))
    elements_of_chunks = len(present) * math.prod(chunk)
    assert chunks.padding_bytes(shape, chunk, 8) == 8 * (elements_of_chunks - math.prod(shape))


@given(boxes())
def test_touched_chunks_by_brute_force(box: Boxes) -> None:
    origin, extent, shape, chunk = box
    touched = chunk_of_each_element(origin, extent, chunk)
    assert set(itertools.product(*chunks.touched_per_axis(origin, extent, chunk))) == touched
    assert chunks.chunks_touched(origin, extent, chunk) == len(touched)
    counts = chunks.chunks_per_axis(shape, chunk)
    numbers = [int(np.ravel_multi_index(coordinates, counts)) for coordinates in sorted(touched)]
    assert list(chunks.linear_chunk_indices(origin, extent, shape, chunk)) == numbers == sorted(numbers)


# ---- version-1 B-tree


def full_levels(levels: int) -> int:
    """The largest number of chunks, inserted in ascending order, that needs so many levels of nodes."""
    return BTREE_CHILDREN if levels == 1 else BTREE_CHILDREN + BTREE_KEPT * (full_levels(levels - 1) - 1)


def test_btree_of_up_to_three_nodes_by_hand() -> None:
    assert [hdf5_index.btree_nodes(n) for n in (1, 64, 65, 121, 122)] == [1, 1, 3, 3, 4]
    # Header 24, 65 keys of 8 + 8 (d + 1) bytes, 64 addresses of 8.
    assert hdf5_index.btree_node_bytes(3) == 24 + 65 * 40 + 64 * 8 == 3136


BOUNDARIES = [full_levels(level) + more for level in (1, 2, 3) for more in (-1, 0, 1)]


@pytest.mark.parametrize("count", [*range(1, 66), 120, 121, 122, 178, 179, 1000, 2048, *BOUNDARIES, 30_625])
def test_btree_nodes_against_hdf5(count: int) -> None:
    assert index_bytes([count], [1]) == hdf5_index.btree_nodes(count) * hdf5_index.btree_node_bytes(1)


@pytest.mark.parametrize("count", [1, 64, 65, 122, 500])
def test_btree_nodes_against_hdf5_when_written_in_order(count: int) -> None:
    predicted = hdf5_index.btree_nodes(count) * hdf5_index.btree_node_bytes(1)
    assert index_bytes([count * 3], [3], written=True) == predicted
    assert index_bytes([count * 3], [3], written=True, filtered=True) == predicted


@pytest.mark.parametrize("shape", [(400,), (20, 20), (8, 7, 9), (3, 5, 4, 7), (3, 2, 5, 3, 6)])
def test_btree_node_bytes_against_hdf5_in_every_dimension(shape: tuple[int, ...]) -> None:
    count = math.prod(shape)
    predicted = hdf5_index.btree_nodes(count) * hdf5_index.btree_node_bytes(len(shape))
    assert index_bytes(shape, [1] * len(shape)) == predicted


def test_btree_nodes_visited_by_hand() -> None:
    # 122 chunks: leaves with 57, 57 and 8 children below one root.
    for linear, nodes in (([0], 2), ([56], 2), ([56, 57], 3), ([0, 57, 114], 4), ([114, 121], 2), ([], 0)):
        assert hdf5_index.btree_nodes_visited(linear, 122) == nodes, linear
    # The last leaf keeps up to 64 children: 121 chunks fill two leaves.
    assert hdf5_index.btree_nodes_visited([57, 114, 120], 121) == 2


@given(st.integers(1, 20_000), st.data())
def test_btree_nodes_visited_lie_between_one_path_and_all_nodes(count: int, data: st.DataObject) -> None:
    every = range(count)
    assert hdf5_index.btree_nodes_visited(every, count) == hdf5_index.btree_nodes(count)
    depth = next(level for level in itertools.count(1) if count <= full_levels(level))
    some = data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=20))
    visited = hdf5_index.btree_nodes_visited(some, count)
    assert hdf5_index.btree_nodes_visited(some[:1], count) == depth
    assert depth <= visited <= min(1 + len(some) * (depth - 1), hdf5_index.btree_nodes(count))


# ---- fixed array

FIXED_ARRAY = {"v110": h5f.LIBVER_V110, "v112": h5f.LIBVER_V112, "v114": h5f.LIBVER_V114}


@pytest.mark.parametrize("libver", FIXED_ARRAY)
@pytest.mark.parametrize(
    "count", [1, 2, 3, 64, 1000, 1023, 1024, 1025, 2048, 2049, 8 * 1024, 8 * 1024 + 1, 9999]
)
def test_fixed_array_against_hdf5(libver: str, count: int) -> None:
    assert index_bytes([count], [1], FIXED_ARRAY[libver], written=True) == hdf5_index.fixed_array_bytes(count)


@pytest.mark.parametrize("count", [1, 2, 41, 1025])
@pytest.mark.parametrize("size", [1, 2, 127, 128, 200, 255, 256, 257, 1000])
def test_fixed_array_of_filtered_chunks_against_hdf5(count: int, size: int) -> None:
    found = index_bytes([count * size], [size], h5f.LIBVER_V110, filtered=True, written=True)
    assert found == hdf5_index.fixed_array_bytes(count, filtered=True, chunk_bytes=size)


@pytest.mark.parametrize("size", [32_767, 32_768, 65_535, 65_536])
def test_fixed_array_of_large_filtered_chunks_against_hdf5(size: int) -> None:
    found = index_bytes([3 * size], [size], h5f.LIBVER_V110, filtered=True, written=True)
    assert found == hdf5_index.fixed_array_bytes(3, filtered=True, chunk_bytes=size)


@pytest.mark.skipif(h5f.LIBVER_LATEST == h5f.LIBVER_V114, reason="only HDF5 2 has a format after v114")
@pytest.mark.parametrize("size", [2, 128, 1000])
def test_fixed_array_of_filtered_chunks_in_the_latest_format_against_hdf5(size: int) -> None:
    found = index_bytes([40 * size], [size], h5f.LIBVER_LATEST, filtered=True, written=True)
    assert found == hdf5_index.fixed_array_bytes(40, filtered=True, chunk_bytes=size, size_bytes=8)


# ---- automatic chunks


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=5), st.sampled_from([1, 2, 4, 8]))
def test_automatic_chunk_is_that_of_h5py(shape: list[int], itemsize: int) -> None:
    assert chunks.automatic_chunk(shape, itemsize) == guess_chunk(tuple(shape), None, itemsize)


def test_automatic_chunk_of_an_array_created_with_h5py() -> None:
    with h5py.File("in memory", "w", driver="core", backing_store=False) as file:
        created = file.create_dataset("data", FULL, "uint16", chunks=True)
        assert chunks.automatic_chunk(FULL, 2) == created.chunks


# ---- contiguous storage


@given(boxes())
def test_contiguous_runs_are_the_maximal_ones(box: Boxes) -> None:
    origin, extent, shape, _ = box
    inside = tuple(slice(o, o + e) for o, e in zip(origin, extent, strict=True))
    positions = np.arange(math.prod(shape)).reshape(shape)[inside].ravel()
    pieces = np.split(positions, np.flatnonzero(np.diff(positions) != 1) + 1)
    expected = [(int(piece[0]), len(piece)) for piece in pieces]
    assert list(chunks.contiguous_runs(origin, extent, shape)) == expected


@pytest.mark.parametrize(
    ("runs", "sieve", "requested"),
    [
        # One run fills the buffer, from its start.
        ([(0, 10)], 100, 100),
        # The second run lies in it, the third ends past it.
        ([(0, 10), (40, 10), (45, 10)], 100, 200),
        # The buffer ends with the dataset.
        ([(480, 10)], 100, 40),
        ([(0, 10), (480, 10)], 100, 140),
        # Longer than the buffer: read directly, and the buffer keeps what it has.
        ([(0, 51)], 100, 102),
        ([(0, 10), (100, 51), (20, 10)], 100, 202),
        # As long as the buffer: through it.
        ([(10, 50), (20, 10)], 100, 100),
    ],
)
def test_sieve_by_hand(runs: list[tuple[int, int]], sieve: int, requested: int) -> None:
    assert hdf5_index.sieve_requested_bytes(runs, itemsize=2, total_bytes=1000, sieve=sieve) == requested


@settings(max_examples=40)
@given(boxes(), st.integers(1, 4), st.integers(1, 200))
def test_runs_that_lie_in_the_sieve_are_passed_over(box: Boxes, itemsize: int, sieve: int) -> None:
    origin, extent, shape, _ = box
    runs = list(chunks.contiguous_runs(origin, extent, shape))
    total = math.prod(shape) * itemsize
    requests = hdf5_index.sieve_requests(origin, extent, shape, itemsize, sieve)
    asked = sum(length for _, length in requests)
    assert asked == hdf5_index.sieve_requested_bytes(runs, itemsize, total, sieve)
    for least in range(math.prod(shape) + 1):
        following = [start for start, _ in runs if start >= least]
        assert chunks.first_run(least, origin, extent, shape) == (following[0] if following else None)


def test_a_column_of_millions_of_rows_takes_no_time() -> None:
    # 4,688 fills of a buffer of 64 KiB, of 2,400,000 runs.
    requests = list(hdf5_index.sieve_requests((0, 20), (2_400_000, 1), (2_400_000, 64), 2, 65536))
    assert (len(requests), sum(length for _, length in requests)) == (4688, 307_199_960)


# ---- the published numbers (OpenMSI, 100 x 100 x 100,000 uint16; MB of a size are 10^6, of a transfer MiB)


def test_claim_000_4_small_chunks_pad_little_and_need_many() -> None:
    assert chunks.chunk_count(FULL, (1, 1, 128)) == 7_820_000
    assert chunks.padding_bytes(FULL, (1, 1, 128), 2) == 1_920_000
    nodes = {n: hdf5_index.btree_nodes(chunks.chunk_count(FULL, (m, m, n))) for m, n in GRID if m == 1}
    assert max(nodes, key=lambda n: nodes[n]) == 128
    assert nodes[128] * hdf5_index.btree_node_bytes(3) > 400e6


def test_claim_000_5_padding_of_1x1x2048() -> None:
    assert chunks.padding_bytes(FULL, (1, 1, 2048), 2) == 7_040_000


def test_claim_000_6_padding_grows_from_8x8_up() -> None:
    least = {m: min(chunks.padding_bytes(FULL, (m, m, n), 2) for _, n in GRID) for m in (1, 2, 4, 8, 16, 32)}
    assert max(least[m] for m in (1, 2, 4)) < 2e6
    assert least[8] > 160e6
    assert least[8] < least[16] < least[32]


def test_claim_000_7_padding_of_32x32() -> None:
    padding = [chunks.padding_bytes(FULL, (32, 32, n), 2) for m, n in GRID if m == 32]
    assert len(padding) == 7
    assert min(padding) >= 1_276_800_000
    # The least there can be: all of it in the image plane, none along z.
    assert chunks.padding_bytes(FULL, (32, 32, 100_000), 2) == 1_276_800_000


@pytest.mark.parametrize("x", [0, 1, 2, 3, 94, 95])
@pytest.mark.parametrize("y", [0, 1, 2, 3, 95])
def test_claim_000_15_spectra_touch_196_chunks(x: int, y: int) -> None:
    touched = chunks.chunks_touched((x, y, 0), (5, 5, 100_000), (4, 4, 2048))
    assert touched == 2 * 2 * 49 == 196
    assert touched * 4 * 4 * 2048 * 2 / MIB == 12.25


def test_claim_000_15_slices_touch_625_chunks() -> None:
    # Wherever the slices begin, but for those that lie across two chunks.
    for z in (0, 1, 2023, 2048, 99_975):
        touched = chunks.chunks_touched((0, 0, z), (100, 100, 25), (4, 4, 2048))
        assert touched == 25 * 25 == 625
        assert round(touched * 4 * 4 * 2048 * 2 / MIB, 2) == 39.06
    assert chunks.chunks_touched((0, 0, 2024), (100, 100, 25), (4, 4, 2048)) == 1250
