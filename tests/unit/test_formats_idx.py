"""IDX datasets: what is written is read back, at every level, and counted exactly; damage is one line."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import sys
import threading
import time
import tracemalloc
import types
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, get_args

import numpy as np
import psutil
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from idx_cells import cell

from hyperslab.data.selections import Box, coarse, disk_order, steps_of
from hyperslab.data.tiles import selected
from hyperslab.data.values import open_values
from hyperslab.formats.idx import description, files, openvisus
from hyperslab.formats.idx.array import FORMAT
from hyperslab.formats.idx.joining import Joining
from hyperslab.formats.idx.ordering import by_formula
from hyperslab.formats.idx.places import files_of
from hyperslab.formats.idx.writing import Writer
from hyperslab.layouts import idx_order, layout_of
from hyperslab.layouts.idx_files import Place, name_of
from hyperslab.layouts.idx_order import hz_addresses
from hyperslab.measuring.counters import Counters, between
from hyperslab.measuring.machine import versions_of
from hyperslab.specifications import Specification
from hyperslab.studies.dataset_schema import DType

Spec = Specification
# Extents, type, and what a study says of the layout: powers of two and others, 2 to 5 axes, fields and times.
CELLS: dict[str, tuple[tuple[int, ...], str, dict[str, Any]]] = {
    "cube": ((32, 32, 32), "uint16", {"bits_per_block": 9, "blocks_per_file": 16}),
    "edges": ((21, 19, 50), "uint16", {"bits_per_block": 8, "blocks_per_file": 7}),
    "row-major": ((21, 19, 50), "float32", {"bits_per_block": 8, "within_block": "row-major"}),
    "regular": ((5, 6, 200), "int32", {"bits_per_block": 6, "bitmask": "regular"}),
    "given": ((20, 20, 20), "uint8", {"bits_per_block": 7, "bitmask": "V222221111100000"}),
    "plane": ((70, 33), "float64", {"bits_per_block": 5, "blocks_per_file": 3}),
    "zip": ((21, 19, 50), "uint16", {"bits_per_block": 8, "codec": "zip"}),
    "lz4": ((21, 19, 50), "uint16", {"bits_per_block": 8, "codec": "lz4", "within_block": "row-major"}),
    "one-block": ((4, 4, 5), "uint16", {}),
    "four-axes": ((5, 6, 7, 8), "int16", {"bits_per_block": 6}),
    "five-axes": ((3, 4, 5, 6, 7), "uint32", {"bits_per_block": 6}),
    "signed-bytes": ((9, 10, 33), "int8", {"bits_per_block": 6}),
    "long": ((9, 10, 33), "uint64", {"bits_per_block": 6, "codec": "zip"}),
    "signed-long": ((9, 10), "int64", {"bits_per_block": 4}),
    "times": ((3, 10, 12, 9), "uint16", {"bits_per_block": 6, "times": "w"}),
    "fields": (
        (3, 2, 10, 12, 9), "uint16", {"bits_per_block": 6, "times": "f", "fields": "w", "codec": "zip"}
    ),
    "turned": ((9, 10, 33), "uint16", {"bits_per_block": 6, "order": ["z", "x", "y"]}),
    # More splits than the array needs: 20 bits of a block's number, most of which are 0.
    "directories": ((6, 7, 9), "uint8", {"bits_per_block": 4, "bitmask": "V" + "012" * 7 + "012"}),
}  # fmt: skip


def spec_of(name: str, **more: Any) -> Spec:
    shape, dtype, layout = CELLS[name]
    return cell(shape, dtype, **{**layout, **more})


def generated(path: Path, spec: Spec) -> Any:
    shutil.rmtree(path, ignore_errors=True)
    values = open_values(spec["dataset"])
    assert FORMAT.generate(str(path), spec, values) == "plain"
    return values


Made = Callable[[str], tuple[Path, Spec, Any]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """`made(name)`: where a cell's dataset lies, which is only read, its specification and its values."""
    place = tmp_path_factory.mktemp("made")

    @cache
    def once(name: str) -> tuple[Path, Spec, Any]:
        spec = spec_of(name)
        return place / name, spec, generated(place / name, spec)

    return once


def content(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def some_boxes(shape: Sequence[int], count: int, seed: str) -> list[Box]:
    rng = random.Random(seed)
    boxes = [Box((0,) * len(shape), tuple(shape))]
    while len(boxes) < count:
        extent = tuple(min(size, rng.choice([1, size, rng.randint(1, size)])) for size in shape)
        boxes.append(Box(tuple(rng.randint(0, s - e) for s, e in zip(shape, extent, strict=True)), extent))
    return boxes


def read_of(path: Path, spec: Specification, box: Box) -> np.ndarray:
    with contextlib.closing(FORMAT.open(str(path), spec)) as opened:
        return opened.read(box)


def test_cells_have_every_type_and_as_many_axes_as_there_may_be() -> None:
    assert {dtype for _, dtype, _ in CELLS.values()} == set(get_args(DType))
    axes = [len(shape) - len(layout.keys() & {"times", "fields"}) for shape, _, layout in CELLS.values()]
    assert (min(axes), max(axes)) == (2, idx_order.MOST_AXES)


@pytest.mark.parametrize("name", CELLS)
def test_what_is_generated_is_read_back_at_every_level(made: Made, name: str) -> None:
    path, spec, values = made(name)
    opened = FORMAT.open(str(path), spec)
    for box in some_boxes(spec["dataset"]["shape"], 8, name):
        for level in range(4):
            asked = coarse(box, [1 << level] * len(box.origin))
            found = opened.read(asked)
            assert found.dtype == values.dtype
            assert np.array_equal(found, selected(values, asked)), (box, level)
    opened.close()


def test_tables_of_hz_order_are_made_before_the_first_selection(tmp_path: Path) -> None:
    spec = spec_of("edges")
    generated(tmp_path / "a", spec)
    for table in (idx_order._order, idx_order._inverse):
        table.cache_clear()
    FORMAT.prepare(spec)
    made = idx_order._inverse.cache_info().misses
    opened = FORMAT.open(str(tmp_path / "a"), spec)
    opened.read(Box((0, 0, 0), tuple(spec["dataset"]["shape"])))
    opened.close()
    assert idx_order._inverse.cache_info().misses == made > 0


def test_threads_write_what_comes_later_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shape, first = (32, 32, 32), list[int]()
    spec = cell(shape, "uint16", bits_per_block=14)
    plain = files.BinaryFile.write

    def slow_at_first(self: files.BinaryFile, offset: int, content: memoryview) -> None:
        if not first and threading.current_thread() is not threading.main_thread():
            first.append(offset)
            time.sleep(0.3)
        plain(self, offset, content)

    monkeypatch.setattr(files.BinaryFile, "write", slow_at_first)
    opened, box = FORMAT.create(str(tmp_path / "a"), spec), Box((0, 0, 0), shape)
    # Two boxes wait, and are written one after the other.
    for value in (1, 2):
        opened.write(box, np.full(shape, value, np.uint16))
    opened.close()
    assert first
    assert (read_of(tmp_path / "a", spec, box) == 2).all()


def test_nobody_waits_for_threads_where_no_file_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited, settle = list[int](), Writer._settle

    def counted(self: Writer) -> None:
        waited.append(1)
        settle(self)

    monkeypatch.setattr(files, "OPEN_FILES", 4)
    monkeypatch.setattr(Writer, "_settle", counted)
    # Four files, which both fields share.
    shape = (2, 32, 32, 32)
    spec = cell(shape, "uint16", bits_per_block=9, blocks_per_file=16, fields="w")
    box, values = Box((0,) * 4, shape), open_values(spec["dataset"])
    opened = FORMAT.create(str(tmp_path / "a"), spec)
    opened.write(box, values.block(box.origin, shape))
    # Once after each field.
    assert len(waited) == 2
    opened.close()
    assert np.array_equal(read_of(tmp_path / "a", spec, box), values.block(box.origin, shape))


@pytest.mark.parametrize("name", CELLS)
def test_counts_are_those_of_the_kernel(made: Made, name: str) -> None:
    (path, spec, _), counters = made(name), Counters()
    stored = FORMAT.stored_sizes(str(path), spec)
    for box, level in itertools.product(some_boxes(spec["dataset"]["shape"], 4, name), range(3)):
        asked = coarse(box, [1 << level] * len(box.origin))
        predicted = FORMAT.predict(asked, spec, stored)
        opened = FORMAT.open(str(path), spec)
        read = opened.reader(asked)
        before = counters.read()
        read()
        counted = between(before, counters.read())
        assert counted["requested_bytes"] == predicted["requested"], asked
        assert counted["requested_reads"] == predicted["requested_reads"], asked
        opened.close()
        if level == 0:
            touched = layout_of(spec["layout"]).touched(box.origin, box.extent)
            assert touched == predicted["chunks_touched"]


@pytest.mark.parametrize("name", CELLS)
def test_levels_and_files_are_those_of_all_samples(made: Made, name: str) -> None:
    path, spec, _ = made(name)
    stored = FORMAT.stored_sizes(str(path), spec)
    held, disk = files_of(spec), disk_order(spec)
    shape = spec["dataset"]["shape"]
    for level in range(4):
        asked = coarse(Box((0,) * len(shape), tuple(shape)), [1 << level] * len(shape))
        steps = [steps_of(asked)[axis] for axis in disk]
        grid = [np.arange(0, size, by) for size, by in zip(held.shape, steps[held.leading :], strict=True)]
        addresses = hz_addresses(held.bitmask, np.meshgrid(*grid, indexing="ij"))
        predicted = FORMAT.predict(asked, spec, stored)
        assert predicted["levels_touched"] >= int(addresses.max()).bit_length() + 1
        times = -(-held.times // steps[0]) if held.has_times else 1
        firsts = np.unique((addresses >> held.blocks.bits) // held.blocks_per_file)
        # Of a level that is finer along some axes than what is asked for all blocks are read.
        exact = held.bitmask.steps(int(predicted["levels_touched"]) - 1) == tuple(steps[held.leading :])
        assert predicted["files_touched"] >= times * len(firsts)
        assert not exact or predicted["files_touched"] == times * len(firsts)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("levels", [(3, 2, 1, 0), (2, 0), (5, 1)])
def test_a_view_that_becomes_finer_reads_nothing_twice(
    made: Made, name: str, levels: tuple[int, ...]
) -> None:
    (path, spec, values), counters = made(name), Counters()
    stored = FORMAT.stored_sizes(str(path), spec)
    for box in some_boxes(spec["dataset"]["shape"], 4, name):
        origin = tuple(start >> levels[0] << levels[0] for start in box.origin)
        boxes = [coarse(Box(origin, box.extent), [1 << level] * len(origin)) for level in levels]
        opened = FORMAT.open(str(path), spec)
        view, whole = FORMAT.refinement.begin(opened), 0.0
        for asked, predicted in zip(boxes, FORMAT.refinement.predict(boxes, spec, stored), strict=True):
            read = view.reader(asked)
            before = counters.read()
            found = read()
            counted = between(before, counters.read())
            assert np.array_equal(found, selected(values, asked)), (box, asked)
            assert counted["requested_bytes"] == predicted["requested"], asked
            assert counted["requested_reads"] == predicted["requested_reads"], asked
            whole += predicted["chunks_touched"]
        # No more blocks than the finest level has by itself, and just as many.
        assert whole == FORMAT.predict(boxes[-1], spec, stored)["chunks_touched"]
        opened.close()


@pytest.mark.parametrize("name", CELLS)
def test_a_dataset_is_reported_to_the_byte(made: Made, name: str) -> None:
    path, spec, _ = made(name)
    found, files, layout = FORMAT.report(str(path), spec), files_of(spec), layout_of(spec["layout"])
    there = content(path)
    assert found["file_bytes"] == sum(map(len, there.values()))
    assert found["chunks"] == found["chunks_predicted"]
    assert found["files"] == len(there) == found["files_predicted"] - found["folders"]
    assert found["index_bytes"] == found["index_predicted_bytes"]
    assert found["padding_bytes"] == found["padding_predicted_bytes"]
    raw = int(np.prod(spec["dataset"]["shape"])) * files.itemsize
    if files.codec == "raw":
        assert found["data_bytes"] == raw
        binary = files.times * sum(files.file_bytes(int(first)) for first in files.files)
        assert found["file_bytes"] == binary + found["metadata_bytes"]
        shape = spec["dataset"]["shape"]
        assert layout.stored_bytes(shape, files.itemsize) == found["stored_bytes"]
    sizes = sum(-(-len(one) // 4096) * 4096 for one in there.values()) + 4096 * found["folders"]
    assert sizes <= files.largest_bytes()
    assert found["files"] + found["folders"] <= files.largest_files()


@pytest.mark.parametrize(
    ("name", "extent"),
    # What is small has more than one box, and what is large not hundreds.
    [
        *(
            (name, extent)
            for name, (shape, *_) in CELLS.items()
            for extent in (7 if np.prod(shape) > 2**14 else 5, 8, 16)
        ),
        ("one-block", 3),
        ("directories", 3),
    ],
)
def test_boxes_in_any_order_make_the_same_blocks(
    tmp_path: Path, made: Made, name: str, extent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, spec, values = made(name)
    shape = spec["dataset"]["shape"]
    # Few blocks wait, so that some are written and read again.
    monkeypatch.setattr("hyperslab.formats.idx.writing.WAITING_BYTES", 4096 if extent == 8 else 2**26)
    opened = FORMAT.create(str(tmp_path / "parts"), spec)
    corners = list(itertools.product(*(range(0, size, extent) for size in shape)))
    random.Random(name).shuffle(corners)
    for origin in corners:
        cut = tuple(min(extent, size - start) for start, size in zip(origin, shape, strict=True))
        opened.write(Box(origin, cut), values.block(origin, cut))
    opened.flush()
    opened.close()
    if spec["layout"]["codec"] == "raw":
        assert content(tmp_path / "parts") == content(whole)
    found = read_of(tmp_path / "parts", spec, Box((0,) * len(shape), tuple(shape)))
    assert np.array_equal(found, values.block((0,) * len(shape), shape))


def test_what_is_written_twice_is_what_was_written_last(tmp_path: Path) -> None:
    spec = spec_of("zip")
    values = generated(tmp_path / "unused", spec)
    opened, shape = FORMAT.create(str(tmp_path / "a"), spec), spec["dataset"]["shape"]
    truth = np.zeros(shape, np.uint16)
    for number, box in enumerate(some_boxes(shape, 8, "twice")):
        part = values.block(box.origin, box.extent) + np.uint16(number)
        opened.write(box, part)
        truth[box.slices()] = part
        opened.flush()
    opened.close()
    found = read_of(tmp_path / "a", spec, Box((0, 0, 0), tuple(shape)))
    assert np.array_equal(found, truth)


def test_blocks_are_those_of_the_formula(tmp_path: Path) -> None:
    spec = spec_of("cube")
    values = generated(tmp_path / "a", spec)
    files = files_of(spec)
    whole = values.block((0, 0, 0), (32, 32, 32))
    for block, samples in by_formula(files.bitmask, files.blocks.bits, whole):
        first = files.first_of_file(block)
        file = tmp_path / "a" / name_of(files.template, "", 0, first)
        at = files.offsets(first, 0)[block - first]
        assert np.array_equal(np.fromfile(file, np.uint16, len(samples), offset=at), samples)


@pytest.mark.parametrize(
    ("template", "block", "name"),
    [
        ("./a/%04x.bin", 8, "./a/0008.bin"),
        ("./a/%04x.bin", 0x12345, "./a/0001/2345.bin"),
        ("./a/%02x/%04x.bin", 0x12345, "./a/01/2345.bin"),
        ("./a/%03x/%02x/%01x.bin", 0xABCDE, "./a/0ab/cd/e.bin"),
        ("./whole.bin", 0, "./whole.bin"),
    ],
)
def test_names_of_files(template: str, block: int, name: str) -> None:
    assert os.path.normpath(name_of(template, "", 0, block)) == os.path.normpath(name)


def test_a_time_step_stands_before_the_blocks_number() -> None:
    assert name_of("./a/%02x/%04x.bin", "time%04d/", 7, 0x12345) == "./a/time0007/01/2345.bin"


# ---- damage, each named in one line


def damaged(tmp_path: Path, key: str, value: str | None) -> str:
    """What opening and reading says of a dataset whose description has another value, or lacks it."""
    spec = spec_of("edges")
    generated(tmp_path / "a", spec)
    file = tmp_path / "a" / "array.idx"
    lines = file.read_text().splitlines()
    at = lines.index(f"({key})") if f"({key})" in lines else len(lines)
    lines[at : at + 2] = [] if value is None else [f"({key})", value]
    file.write_text("\n".join(lines) + "\n")
    with pytest.raises(OSError) as raised:
        read_of(tmp_path / "a", spec, Box((0, 0, 0), (21, 19, 50)))
    said = str(raised.value)
    assert said.startswith(str(tmp_path / "a")) and "\n" not in said
    return said


@pytest.mark.parametrize(
    "key", ["version", "box", "fields", "bits", "bitsperblock", "blocksperfile", "filename_template"]
)
def test_a_missing_key_is_named(tmp_path: Path, key: str) -> None:
    assert f"({key}) is missing" in damaged(tmp_path, key, None)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("version", "5", "(version) is 5; 6 and 6.1 can be read"),
        ("box", "0 49 0", "(box) 0 49 0: should be the first and last index of each axis"),
        ("box", "0 49 0 18 -1 20", "each axis should begin with 0"),
        ("box", f"0 49 0 18 0 {2**63}", "an axis ends beyond 2^63"),
        ("box", "0 49 0 18 0 40", "(bits): 'V0120120120120120' covers 32 along its axis 2"),
        ("bits", "V012", "covers 2 along its axis 2, and the array has 21"),
        ("bits", "V01x", "should be V and the number of an axis"),
        ("bits", "V" + "012" * 21, "has 63 splits; at most 62 are addressed"),
        ("fields", "field0 uint16[3]", "should be a name and a type of one number"),
        ("fields", "field0 float32", "holds (shape, fields, time steps, type)"),
        ("bitsperblock", "0", "(bitsperblock) is 0; should be a whole number from 1"),
        ("bitsperblock", "9", "a block of codec raw holds 512 bytes instead of 1024"),
        ("blocksperfile", "many", "(blocksperfile) is many"),
        ("blocksperfile", f"{2**31}", f"is {2**31}; should be a whole number from 1 to {2**20}"),
        ("blocksperfile", f"{2**20}", "0000.bin: ends at"),
        ("fields", "field0 uint16 default_value(70000)", "the default_value of field0 is no uint16"),
        ("fields", "field0 uint16 default_value(0.5)", "the default_value of field0 is no uint16"),
        ("fields", "field0 uint64 default_value(18446744073709551616)", "of field0 is no uint64"),
        ("filename_template", "./array/0000.bin", "names one file, and the blocks need several"),
        ("time", "0 0 ../time%09d/", "(time): ../time%09d/ leaves the directory"),
        ("time", "0 0 /time%09d/", "(time): /time%09d/ leaves the directory"),
        ("filename_template", "../other/%04x.bin", "../other/%04x.bin leaves the directory"),
        ("filename_template", "/etc/%04x.bin", "/etc/%04x.bin leaves the directory"),
        ("filename_template", "./a/%s.bin", "should have parts such as %04x, and no others"),
        ("interleave block", "4", "(interleave block) is 4"),
    ],
)
def test_a_damaged_description_is_named(tmp_path: Path, key: str, value: str, says: str) -> None:
    assert says in damaged(tmp_path, key, value)


def test_templates_that_leave_the_directory_together_are_named() -> None:
    spec = spec_of("edges")
    text = description.written(files_of(spec), "uint16").replace("./array/%04x.bin", "./array/.%04x.bin")
    with pytest.raises(ValueError, match=r"^\(time\): ./other%d/ in ./array/.%04x.bin leaves the directory$"):
        description.parsed(f"{text}(time)\n0 0 ./other%d/\n")


def header_of(path: Path, spec: Spec, block: int, word: int, value: int) -> Path:
    """Put a number into a block's header; returns its file."""
    held = files_of(spec)
    file = path / name_of(held.template, "", 0, held.first_of_file(block))
    with file.open("r+b") as opened:
        opened.seek(40 * (1 + held.slot(block, 0)) + 4 * word)
        opened.write(value.to_bytes(4, "big"))
    return file


@pytest.mark.parametrize("word", [files.LOW, files.HIGH, files.SIZE])
def test_a_header_that_points_beyond_the_file_takes_no_memory(tmp_path: Path, word: int) -> None:
    spec = spec_of("edges")
    generated(tmp_path / "a", spec)
    file = header_of(tmp_path / "a", spec, 1, word, 2**32 - 1)
    tracemalloc.start()
    try:
        with pytest.raises(OSError, match=f"^{file}: ends at [0-9,]+ bytes, and [0-9,]+ are needed$"):
            read_of(tmp_path / "a", spec, Box((0, 0, 0), (21, 19, 50)))
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("word", [files.LOW, files.SIZE])
def test_an_absent_block_holds_the_default_value(tmp_path: Path, word: int) -> None:
    spec = spec_of("edges")
    truth = generated(tmp_path / "a", spec).block((0, 0, 0), (21, 19, 50)).copy()
    text = (tmp_path / "a" / "array.idx").read_text()
    (tmp_path / "a" / "array.idx").write_text(text.replace("default_value(0)", "default_value(7)"))
    header_of(tmp_path / "a", spec, 1, word, 0)
    lattice = files_of(spec).blocks.lattice(1)
    inside = lattice.within((0, 0, 0), (21, 19, 50))
    assert inside is not None
    truth[lattice.indices(inside, (0, 0, 0), (1, 1, 1))] = 7
    assert np.array_equal(read_of(tmp_path / "a", spec, Box((0, 0, 0), (21, 19, 50))), truth)


@pytest.mark.parametrize("name", ["cube", "times"])
def test_what_was_not_finished_is_no_dataset(tmp_path: Path, name: str) -> None:
    spec = spec_of(name)
    shape = spec["dataset"]["shape"]
    opened = FORMAT.create(str(tmp_path / "a"), spec)
    opened.write(
        Box((0,) * len(shape), tuple(shape)), open_values(spec["dataset"]).block([0] * len(shape), shape)
    )
    opened.flush()
    assert any((tmp_path / "a").rglob("*.bin"))
    with pytest.raises(FileNotFoundError, match="array.idx"):
        FORMAT.open(str(tmp_path / "a"), spec)
    opened.close()
    FORMAT.open(str(tmp_path / "a"), spec).close()


def test_what_cannot_be_written_keeps_no_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    shape = (32, 32, 32)
    spec = cell(shape, "uint16", bits_per_block=14)
    opened = FORMAT.create(str(tmp_path / "a"), spec)
    monkeypatch.setattr(files.BinaryFile, "write", full)
    with pytest.raises(OSError, match="No space left"), contextlib.closing(opened):
        opened.write(Box((0, 0, 0), shape), np.zeros(shape, np.uint16))
    there = [Path(one.path) for one in psutil.Process().open_files()]
    assert not any(file.is_relative_to(tmp_path.resolve()) for file in there)


@pytest.mark.parametrize("name", ["edges", "zip", "lz4"])
def test_a_file_that_is_cut_short_is_named(tmp_path: Path, name: str) -> None:
    spec = spec_of(name)
    generated(tmp_path / "a", spec)
    file = max((tmp_path / "a").rglob("*.bin"), key=lambda one: one.stat().st_size)
    for size in (100, file.stat().st_size - 1):
        os.truncate(file, size)
        with pytest.raises(OSError, match=f"^{file}: ends at {size:,} bytes, and [0-9,]+ are needed$"):
            read_of(tmp_path / "a", spec, Box((0, 0, 0), (21, 19, 50)))
        assert os.path.realpath(file) not in {one.path for one in psutil.Process().open_files()}
        generated(tmp_path / "a", spec)


def test_damaged_blocks_of_a_codec_are_named(tmp_path: Path) -> None:
    spec = spec_of("zip")
    generated(tmp_path / "a", spec)
    file = next((tmp_path / "a").rglob("0000.bin"))
    with file.open("r+b") as opened:
        opened.seek(files_of(spec).data_start)
        opened.write(bytes(20))
    with pytest.raises(OSError, match="a block of codec zip is damaged"):
        read_of(tmp_path / "a", spec, Box((0, 0, 0), (21, 19, 50)))


def test_absent_files_and_blocks_hold_the_default_value(tmp_path: Path) -> None:
    spec = spec_of("edges")
    values = generated(tmp_path / "a", spec)
    text = (tmp_path / "a" / "array.idx").read_text()
    (tmp_path / "a" / "array.idx").write_text(text.replace("default_value(0)", "default_value(7)"))
    files = files_of(spec)
    last = int(files.files[-1])
    (tmp_path / "a" / name_of(files.template, "", 0, last)).unlink()
    found = read_of(tmp_path / "a", spec, Box((0, 0, 0), (21, 19, 50)))
    truth = values.block((0, 0, 0), (21, 19, 50)).copy()
    for block in files.in_file(last).tolist():
        lattice = files.blocks.lattice(block)
        inside = lattice.within((0, 0, 0), (21, 19, 50))
        assert inside is not None
        truth[lattice.indices(inside, (0, 0, 0), (1, 1, 1))] = 7
    assert np.array_equal(found, truth)


# ---- boxes that continue each other


def joined(extent: tuple[int, ...], shape: tuple[int, ...], order: list[int]) -> list[tuple[Any, Any]]:
    """What is written of the boxes of an array, given in turn along axes in this order, slowest first."""
    content, seen = np.arange(np.prod(shape)).reshape(shape), []
    joining = Joining(lambda place, origin, values: seen.append((tuple(origin), values)), shape)
    for corner in itertools.product(*(range(0, shape[axis], extent[axis]) for axis in order)):
        first = [corner[order.index(axis)] for axis in range(len(shape))]
        here = tuple(slice(o, o + e) for o, e in zip(first, extent, strict=True))
        joining.add(Place(0, 0), first, content[here])
    joining.flush()
    for origin, values in seen:
        box = tuple(slice(o, o + e) for o, e in zip(origin, values.shape, strict=True))
        assert np.array_equal(values, content[box])
    assert sum(values.size for _, values in seen) == content.size
    return seen


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]])
def test_boxes_in_turn_are_written_as_one(order: list[int]) -> None:
    assert len(joined((4, 3, 5), (8, 9, 10), order)) == 1


def test_no_more_waits_than_may(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two rows of boxes at most.
    monkeypatch.setattr("hyperslab.formats.idx.joining.SLAB_BYTES", 2 * 4 * 3 * 10 * 8)
    shapes = [values.shape for _, values in joined((4, 3, 5), (8, 9, 10), [0, 1, 2])]
    assert shapes == [(4, 6, 10), (4, 3, 10), (4, 6, 10), (4, 3, 10)]
    monkeypatch.setattr("hyperslab.formats.idx.joining.LARGE_BYTES", 1)
    assert len(joined((4, 3, 5), (8, 9, 10), [0, 1, 2])) == 12


def test_a_box_that_is_written_again_is_written_after() -> None:
    seen: list[Any] = []
    joining = Joining(lambda place, origin, values: seen.append((tuple(origin), values.tolist())), [4])
    values = np.zeros(2, int)
    for number, origin in enumerate([0, 2, 2, 0]):
        values[:] = number
        joining.add(Place(0, 0), [origin], values)
    joining.flush()
    assert seen == [((0,), [0, 0, 1, 1]), ((2,), [2, 2]), ((0,), [3, 3])]


def test_boxes_of_many_time_steps_wait_in_no_more_memory_than_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyperslab.formats.idx.joining.WAITING_BYTES", 400)
    seen: list[Place] = []
    joining = Joining(lambda place, origin, values: seen.append(place), [4, 10])
    for step in range(50):
        # One of two boxes of a field, which waits for the other.
        joining.add(Place(step, 0), (0, 0), np.zeros((2, 10), np.int8))
        assert sum(slab.values.nbytes for slab in joining._slabs.values()) <= 400
    # What is a whole field waits for nothing.
    joining.add(Place(99, 0), (0, 0), np.zeros((4, 10), np.int8))
    assert seen[-1] == Place(99, 0)
    joining.flush()
    assert len(seen) == 51


@pytest.mark.parametrize("value", [2**64 - 1, 2**53 + 1])
def test_default_values_of_64_bits_are_exact(value: int) -> None:
    assert description._field(f"a uint64 default_value({value})").default == value


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 11)), max_size=30), st.integers(1, 40))
def test_what_is_written_last_stays_whatever_the_order(boxes: list[tuple[int, int]], largest: int) -> None:
    """Boxes of three fields at any places, often again and with gaps: each element has its last value."""
    shape, extent = (6, 8), (2, 2)
    corners = list(itertools.product(range(0, 6, 2), range(0, 8, 2)))
    truth, found = np.zeros((3, *shape), int), np.zeros((3, *shape), int)

    def write(place: Place, origin: Any, values: Any) -> None:
        here = tuple(slice(o, o + e) for o, e in zip(origin, values.shape, strict=True))
        found[place.field][here] = values

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("hyperslab.formats.idx.joining.SLAB_BYTES", largest * 8)
        patched.setattr("hyperslab.formats.idx.joining.WAITING_BYTES", 2 * largest * 8)
        joining = Joining(write, shape)
        for number, (field, corner) in enumerate(boxes, 1):
            (y, x), values = corners[corner], np.full(extent, number)
            truth[field, y : y + 2, x : x + 2] = number
            joining.add(Place(0, field), (y, x), values)
            values[:] = -1
        joining.flush()
    assert np.array_equal(found, truth)


def test_space_that_grown_blocks_left_is_no_index(tmp_path: Path) -> None:
    """With a codec a block that was stored in part is stored again, behind the others."""
    shape, path = (40, 40, 40), str(tmp_path / "a")
    spec = cell(shape, "uint16", bits_per_block=10, codec="zip")
    values = np.random.default_rng(0).integers(0, 2**16, shape, np.uint16)
    opened = FORMAT.create(path, spec)
    for x in range(40):
        opened.write(Box((x, 0, 0), (1, 40, 40)), values[x : x + 1])
        opened.flush()
    opened.close()
    found = FORMAT.report(path, spec)
    assert found["index_bytes"] == found["index_predicted_bytes"]
    assert found["remainder_bytes"] > found["metadata_bytes"]
    parts = ("stored_bytes", "index_bytes", "remainder_bytes")
    assert sum(found[name] for name in parts) == found["file_bytes"]


def test_what_openvisus_says_is_one_line_with_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its errors have no type of their own."""

    def failing(_: str) -> None:
        raise Exception("invalid\n  version")

    monkeypatch.setitem(sys.modules, "OpenVisus", types.SimpleNamespace(LoadDataset=failing))
    with pytest.raises(OSError, match="^/data/a.idx/array.idx: OpenVisus: invalid version$"):
        openvisus.OpenVisusArray("/data/a.idx", spec_of("edges"))


def test_opening_through_openvisus_makes_what_it_reads_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would be made between the stopwatch of opening and that of the first selection."""
    made = list[str]()
    dataset = types.SimpleNamespace(getFields=lambda: ["field0"], createAccess=lambda: made.append("access"))
    monkeypatch.setitem(sys.modules, "OpenVisus", types.SimpleNamespace(LoadDataset=lambda _: dataset))
    FORMAT.open("/data/a.idx", spec_of("edges", settings={"library": "openvisus"}))
    assert made == ["access"]


def test_versions_are_those_of_packages_whatever_their_modules_are_called() -> None:
    assert versions_of(("PyYAML", "no-such-package")) == {"PyYAML": yaml.__version__}
