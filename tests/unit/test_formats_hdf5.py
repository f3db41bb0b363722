"""HDF5 files: the shortcut writes the plain writer's file, and files hold and cost what arithmetic says."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from h5py import h5z
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import AXES, file_specification, values_of

from hyperslab.data.selections import Box, generator, random_boxes
from hyperslab.data.tiles import in_chunk_order, tiles
from hyperslab.formats import load
from hyperslab.formats.hdf5 import direct_write as tiles_module
from hyperslab.formats.hdf5.array import FORMAT, Hdf5
from hyperslab.specifications import Specification

Spec = Specification

# shape, chunks, order on disk; every family is tried with both formats of a file that have version-1 B-trees.
FAMILIES: list[tuple[tuple[int, ...], tuple[int, ...] | None, str | None]] = [
    ((7,), None, None),
    ((7,), (3,), None),
    ((1,), (1,), None),
    ((500,), (1,), None),
    ((60, 70), None, None),
    ((60, 70), None, "zy"),
    ((60, 70), (7, 11), None),
    ((60, 70), (7, 11), "zy"),
    ((10, 11, 1000), None, None),
    ((10, 11, 1000), None, "zxy"),
    ((8, 12, 1000), (4, 4, 250), None),
    ((10, 11, 1000), (3, 5, 77), None),
    ((10, 11, 1000), (3, 5, 77), "zxy"),
    ((10, 11, 1000), (1, 1, 128), None),
    ((10, 11, 1000), (10, 11, 1000), None),
    ((5, 6, 7, 8), (2, 4, 3, 5), "zwyx"),
    ((3, 4, 5, 6, 7), (2, 2, 2, 2, 2), None),
    ((3, 4, 5, 6, 7), (2, 3, 2, 4, 7), "xzvyw"),
    ((3, 4, 5, 6, 7), None, "xzvyw"),
]
FILTERS = [
    [{"name": "gzip", "level": 6}],
    [{"name": "shuffle"}, {"name": "gzip"}],
    [{"name": "fletcher32"}],
    [{"name": "lzf"}],
    [{"name": "szip"}],
    [{"name": "szip", "block": 8}, {"name": "fletcher32"}],
    [{"name": "shuffle"}, {"name": "lzf"}, {"name": "fletcher32"}],
]


def stored(path: Path) -> list[tuple[tuple[int, ...], int, int, int]]:
    """Coordinates, address, size and filter mask of every chunk (or of the whole, where contiguous)."""
    found: list[tuple[tuple[int, ...], int, int, int]] = []
    with h5py.File(path) as file:
        dataset = file["data"]
        if dataset.chunks is None:
            return [((), dataset.id.get_offset(), dataset.id.get_storage_size(), 0)]
        dataset.id.chunk_iter(lambda c: found.append((c.chunk_offset, c.byte_offset, c.size, c.filter_mask)))
    return found


def on_disk(path: Path) -> np.ndarray:
    """The array as h5py's own high-level interface reads it."""
    with h5py.File(path) as file:
        return np.asarray(file["data"][...])


def in_disk_order(spec: Spec) -> np.ndarray:
    """What the dataset must hold."""
    names = spec["dataset"]["axes"]
    whole = values_of(spec).block([0] * len(names), spec["dataset"]["shape"])
    return whole.transpose([names.index(name) for name in spec["layout"]["order"]])


def differing(one: Path, other: Path) -> list[int]:
    """Positions of the bytes that differ between two files of equal size."""
    a, b = np.fromfile(one, np.uint8), np.fromfile(other, np.uint8)
    assert len(a) == len(b)
    return [int(position) for position in np.flatnonzero(a != b)]


def both_ways(spec: Spec, directory: Path) -> tuple[Path, Path]:
    """The same test file by the shortcut and by the plain writer."""
    short, plain = directory / "short.h5", directory / "plain.h5"
    assert FORMAT.generate(str(short), spec, values_of(spec)) == "allocated"
    FORMAT.write_plain(str(plain), spec, values_of(spec))
    return short, plain


def assert_same_file(spec: Spec, short: Path, plain: Path) -> None:
    assert stored(short) == stored(plain)
    assert on_disk(short).tobytes() == on_disk(plain).tobytes() == in_disk_order(spec).tobytes()
    reports = [FORMAT.report(str(path), spec) for path in (short, plain)]
    settings_of = [report.pop("settings") for report in reports]
    assert reports[0] == reports[1]
    assert [one.pop("alloc_time") for one in settings_of] == [
        "early",
        "incremental" if spec["layout"]["chunks"] else "late",
    ]
    assert [one.pop("fill_time") for one in settings_of] == ["never", "ifset"]
    assert settings_of[0] == settings_of[1]


# ---- the shortcut


@pytest.mark.parametrize("libver", ["earliest", "v108"])
@pytest.mark.parametrize(("shape", "chunks", "order"), FAMILIES)
def test_shortcut_writes_the_plain_writers_file(
    tmp_path: Path, shape: tuple[int, ...], chunks: tuple[int, ...] | None, order: str | None, libver: str
) -> None:
    spec = file_specification(shape, chunks, order, libver=libver)
    short, plain = both_ways(spec, tmp_path)
    assert_same_file(spec, short, plain)
    different = differing(short, plain)
    first = min(address for _, address, _, _ in stored(short))
    assert all(position < first for position in different), "no byte of the data differs"
    if libver == "earliest":
        # The messages of layout and fill value state when chunks are allocated (twice) and when filled.
        header = short.read_bytes()
        assert [header[position] for position in different] == [1, 1, 1]
        later = plain.read_bytes()
        assert [later[position] for position in different] == [3 if chunks else 2, 2, 0]
    else:
        # The newer object header holds the two times in flags of one byte each, and a checksum of 4 bytes.
        assert 3 <= len(different) <= 6
        assert different[1] - different[0] == 4
        assert different[-1] - different[2] < 4


@settings(max_examples=40)
@given(data=st.data())
def test_shortcut_writes_the_plain_writers_file_for_any_layout(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    shape = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=4))
    chunks = data.draw(st.one_of(st.none(), st.tuples(*(st.integers(1, extent) for extent in shape))))
    order = "".join(data.draw(st.permutations(AXES[-len(shape) :])))
    dtype = data.draw(st.sampled_from(["uint8", "int16", "uint32", "float32", "float64"]))
    spec = file_specification(shape, chunks, order, dtype=dtype)
    short, plain = both_ways(spec, tmp_path_factory.mktemp("any"))
    assert_same_file(spec, short, plain)
    assert len(differing(short, plain)) == 3


@pytest.mark.parametrize("pieces", [3, 40])
@pytest.mark.parametrize(
    ("shape", "chunks", "order"), [family for family in FAMILIES if math.prod(family[0]) > 100]
)
def test_shortcut_in_several_tiles(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    shape: tuple[int, ...],
    chunks: tuple[int, ...] | None,
    order: str | None,
    pieces: int,
) -> None:
    spec = file_specification(shape, chunks, order)
    limit = math.prod(shape) * 2 // pieces
    FORMAT.write_plain(str(tmp_path / "one.h5"), spec, values_of(spec))

    def bounded(*arguments: Any) -> Any:
        # Whoever names a limit of its own keeps it.
        return tiles(*arguments) if len(arguments) > 3 else partial(tiles, limit=limit)(*arguments)

    for module in ("direct_write", "array"):
        monkeypatch.setattr(f"hyperslab.formats.hdf5.{module}.tiles", bounded)
    short, plain = both_ways(spec, tmp_path)
    assert_same_file(spec, short, plain)
    assert differing(plain, tmp_path / "one.h5") == []


def test_chunks_lie_in_row_major_order_without_gaps(tmp_path: Path) -> None:
    spec = file_specification((10, 11, 1000), (4, 4, 256))
    for path in both_ways(spec, tmp_path):
        chunks = stored(path)
        assert chunks == sorted(chunks)
        assert [b[1] - a[1] for a, b in zip(chunks, chunks[1:], strict=False)].count(8192) > 0.9 * len(chunks)
        assert FORMAT.report(str(path), spec)["adjacent_share"] > 0.9


def test_chunk_cache_of_a_study_does_not_change_the_order_of_generated_chunks(tmp_path: Path) -> None:
    plain = file_specification((10, 11, 1000), (3, 5, 77), libver="v110")
    small = file_specification((10, 11, 1000), (3, 5, 77), libver="v110", chunk_cache_slots=3)
    found = []
    for number, spec in enumerate((plain, small)):
        path = tmp_path / f"{number}.h5"
        assert FORMAT.generate(str(path), spec, values_of(spec)) == "plain"
        found.append(stored(path))
    assert found[0] == found[1]
    assert [address for _, address, _, _ in found[0]] == sorted(address for _, address, _, _ in found[0])


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(1, 400), st.data())
def test_tiles_are_runs_of_whole_chunks_in_order(shape: list[int], limit: int, data: st.DataObject) -> None:
    chunk = [data.draw(st.integers(1, extent)) for extent in shape]
    array = np.arange(math.prod(shape)).reshape(shape)
    pieces = [in_chunk_order(array[tile.slices()], chunk) for tile in tiles(shape, chunk, 2, limit)]
    whole = [-(-extent // size) * size for extent, size in zip(shape, chunk, strict=True)]
    padded = np.zeros(whole, array.dtype)
    padded[tuple(slice(0, extent) for extent in shape)] = array
    # Chunk after chunk, row-major, and row-major inside each.
    steps = [range(0, extent, size) for extent, size in zip(whole, chunk, strict=True)]
    corners = np.stack(np.meshgrid(*steps, indexing="ij"), axis=-1).reshape(-1, len(shape))
    blocks = [
        padded[tuple(slice(a, a + n) for a, n in zip(corner, chunk, strict=True))] for corner in corners
    ]
    assert np.concatenate(pieces).tolist() == np.concatenate([block.ravel() for block in blocks]).tolist()
    one = math.prod(chunk) * 2
    assert all(len(piece) * 2 <= max(limit, one) for piece in pieces)


def test_neighbours_are_written_in_one_call_and_others_where_they_belong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    monkeypatch.setattr(
        tiles_module, "_write_all", lambda _, view, offset: calls.append((offset, bytes(view)))
    )
    offsets = np.array([100, 102, 104, 200, 50, 52], np.int64)
    tiles_module._write_runs(-1, np.arange(12, dtype=np.uint8), offsets, 2)
    assert calls == [(100, bytes(range(6))), (200, bytes([6, 7])), (50, bytes([8, 9, 10, 11]))]


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, view, offset: pwrite(file, view[:100], offset))
    spec = file_specification((10, 40), (3, 40))
    FORMAT.generate(str(tmp_path / "a.h5"), spec, values_of(spec))
    assert on_disk(tmp_path / "a.h5").tobytes() == in_disk_order(spec).tobytes()


# ---- reading and writing through the seam


@pytest.mark.parametrize("filters", FILTERS, ids=lambda chosen: "+".join(one["name"] for one in chosen))
@pytest.mark.parametrize("order", ["xyz", "zxy"])
def test_filters_read_back(
    tmp_path: Path, filters: list[dict[str, Any]], order: str, require: Callable[[str | None], None]
) -> None:
    path = tmp_path / "a.h5"
    spec = file_specification((10, 11, 200), (4, 4, 64), order, filters)
    szip = {"szip"} & {one["name"] for one in filters}
    require("this HDF5 has no szip" if szip and not h5z.filter_avail(h5z.FILTER_SZIP) else None)
    assert FORMAT.generate(str(path), spec, values_of(spec)) == "plain"
    assert on_disk(path).tobytes() == in_disk_order(spec).tobytes()
    names = {"gzip": "deflate"}
    described = FORMAT.report(str(path), spec)["settings"]["filters"]
    assert [text.split()[0] for text in described] == [names.get(f["name"], f["name"]) for f in filters]
    opened = FORMAT.open(str(path), spec)
    box = Box((1, 2, 3), (5, 6, 70))
    assert opened.read(box).tolist() == values_of(spec).block(box.origin, box.extent).tolist()
    opened.close()


def test_filter_parameters_reach_the_file(tmp_path: Path) -> None:
    filters = [{"name": "gzip", "level": 7}, {"name": "szip", "block": 4}]
    spec = file_specification((10, 11, 200), (4, 4, 64), filters=filters)
    FORMAT.generate(str(tmp_path / "a.h5"), spec, values_of(spec))
    gzip, szip = FORMAT.report(str(tmp_path / "a.h5"), spec)["settings"]["filters"]
    assert gzip == "deflate [7]"
    # H5Z_SZIP_PARM_PPB, the second of szip's parameters, is the block in pixels.
    assert szip.split("[")[1].split(",")[1].strip() == "4"


@pytest.mark.parametrize("order", ["xyz", "zyx", "yzx"])
@pytest.mark.parametrize("chunks", [None, (2, 3, 4)])
def test_boxes_are_in_array_terms_whatever_lies_on_disk(
    tmp_path: Path, chunks: tuple[int, ...] | None, order: str
) -> None:
    path = str(tmp_path / "a.h5")
    spec = file_specification((5, 7, 11), chunks, order)
    values = values_of(spec)
    opened = FORMAT.create(path, spec)
    boxes = [Box((x, y, 0), (1, 7 - y if y else 3, 11)) for x in range(5) for y in (0, 3)]
    for box in boxes:
        opened.write(box, values.block(box.origin, box.extent))
    opened.flush()
    opened.close()
    assert on_disk(tmp_path / "a.h5").tobytes() == in_disk_order(spec).tobytes()
    with h5py.File(path) as file:
        lengths = dict(zip("xyz", (5, 7, 11), strict=True))
        assert file["data"].shape == tuple(lengths[axis] for axis in order)
        if chunks:
            sizes = dict(zip("xyz", chunks, strict=True))
            assert file["data"].chunks == tuple(sizes[axis] for axis in order)
    opened = FORMAT.open(path, spec)
    for box in random_boxes((5, 7, 11), (2, 3, 4), 5, generator(1)):
        read = opened.read(box)
        assert read.tolist() == values.block(box.origin, box.extent).tolist()
    opened.close()


def test_open_is_for_reading_alone(tmp_path: Path) -> None:
    spec = file_specification((5, 7))
    FORMAT.generate(str(tmp_path / "a.h5"), spec, values_of(spec))
    before = (tmp_path / "a.h5").read_bytes()
    opened = FORMAT.open(str(tmp_path / "a.h5"), spec)
    with pytest.raises((OSError, ValueError)):
        opened.write(Box((0, 0), (1, 7)), np.zeros((1, 7), np.uint16))
    opened.close()
    assert (tmp_path / "a.h5").read_bytes() == before


def test_seam_knows_hdf5_and_nothing_unknown() -> None:
    assert isinstance(load("hdf5"), Hdf5)
    with pytest.raises(KeyError):
        load("netcdf")


# ---- what a file says of itself


@pytest.mark.parametrize("libver", ["earliest", "v108", "v110", "v112", "v114", "latest"])
@pytest.mark.parametrize(
    ("shape", "chunks", "filtered"),
    [
        ((300, 9), None, False),
        ((30, 31, 200), (4, 4, 64), False),
        ((30, 31, 200), (4, 4, 64), True),
        ((30, 31, 200), (1, 1, 200), False),
        ((30, 31, 200), (1, 1, 100), True),
        ((30, 31, 20), (30, 31, 20), False),
        ((30, 31, 20), (30, 31, 20), True),
    ],
)
def test_sizes_add_up_and_equal_arithmetic(
    tmp_path: Path, shape: tuple[int, ...], chunks: tuple[int, ...] | None, libver: str, filtered: bool
) -> None:
    filters = [{"name": "gzip", "level": 1}] if filtered else []
    spec = file_specification(shape, chunks, filters=filters, libver=libver)
    path = tmp_path / "a.h5"
    FORMAT.generate(str(path), spec, values_of(spec))
    report = FORMAT.report(str(path), spec)
    assert report["file_bytes"] == path.stat().st_size
    parts = ("data_bytes", "padding_bytes", "index_bytes", "remainder_bytes")
    assert sum(report[part] for part in parts) == report["file_bytes"]
    # Superblock, groups and headers; from v110 on, metadata are allocated in blocks of 2 KiB.
    assert 0 < report["remainder_bytes"] < 8192
    assert report["chunks"] == report["chunks_predicted"]
    assert report["index_bytes"] == report["index_predicted_bytes"]
    assert report["padding_bytes"] == report["padding_predicted_bytes"]
    if not filtered:
        assert report["data_bytes"] == math.prod(shape) * 2
        counts = [-(-extent // size) for extent, size in zip(shape, chunks or shape, strict=True)]
        stored_elements = math.prod(c * s for c, s in zip(counts, chunks or shape, strict=True))
        assert report["padding_bytes"] == (stored_elements - math.prod(shape)) * 2
    found = report["settings"]["libver"]
    assert found[0] == libver or (libver, found[0]) == ("v114", "latest")


def test_settings_are_those_in_force(tmp_path: Path) -> None:
    chosen: dict[str, Any] = {
        "chunk_cache_bytes": 12345,
        "chunk_cache_slots": 67,
        "chunk_cache_w0": 0.25,
        "sieve_bytes": 4321,
    }
    spec = file_specification((5, 7), (2, 3), "zy", dtype="float32", **chosen)
    FORMAT.generate(str(tmp_path / "a.h5"), spec, values_of(spec))
    found = FORMAT.report(str(tmp_path / "a.h5"), spec)["settings"]
    assert {name: found[name] for name in chosen} == chosen
    assert (found["dataset_layout"], found["chunks"], found["maximum_shape"]) == ("chunked", [3, 2], [7, 5])
    assert (found["dtype"], found["filters"]) == ("float32", [])


def test_files_do_not_depend_on_the_moment(tmp_path: Path) -> None:
    layouts = [(chunks, libver) for chunks in (None, (2, 3, 4)) for libver in ("earliest", "v108", "latest")]
    specs = [file_specification((5, 7, 9), chunks, libver=libver) for chunks, libver in layouts]
    for moment in ("now", "later"):
        # HDF5's clock has whole seconds.
        second = int(time.time())
        while moment == "later" and int(time.time()) == second:
            time.sleep(0.01)
        for number, spec in enumerate(specs):
            FORMAT.generate(str(tmp_path / f"{number}.{moment}.h5"), spec, values_of(spec))
    for number, (chunks, libver) in enumerate(layouts):
        pair = (tmp_path / f"{number}.{moment}.h5" for moment in ("now", "later"))
        assert differing(*pair) == [], (chunks, libver)


@pytest.mark.parametrize("shape", [(30, 31, 200), (4, 4, 64)])
@pytest.mark.parametrize("libver", ["earliest", "v110", "latest"])
def test_chunks_that_have_room_from_the_beginning_need_no_new_index(
    tmp_path: Path, shape: tuple[int, ...], libver: str
) -> None:
    spec = file_specification(shape, (4, 4, 64), libver=libver, alloc_time="early")
    FORMAT.generate(str(tmp_path / "a.h5"), spec, values_of(spec))
    report = FORMAT.report(str(tmp_path / "a.h5"), spec)
    assert report["index_bytes"] == report["index_predicted_bytes"]
    assert (report["index_bytes"] == 0) == (libver != "earliest")
