"""Zarr stores: equal to what zarr-python writes, read back right, counted exactly by both pipelines."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr
from zarr_cells import CODECS, cell, dataset_of

from hyperslab import formats
from hyperslab.data.selections import Box
from hyperslab.data.values import Values, open_values
from hyperslab.formats.zarr import generation, settings
from hyperslab.formats.zarr.array import FORMAT
from hyperslab.layouts import layout_of
from hyperslab.measuring.counters import Counters, between
from hyperslab.specifications import Specification

SHAPE = (21, 11, 214)
CHUNKS = [8, 8, 64]
# None: a file a chunk. The second covers the array's edge along all axes.
SHARDS: list[list[int] | None] = [None, [16, 8, 128], [24, 16, 256]]
SCRIPTS = Path(formats.__file__).parents[2]


class PartlyZero:
    """Values that are 0 in whole chunks: below 128 along z, and in the last plane along x."""

    def __init__(self, values: Values) -> None:
        self.shape, self.dtype, self._values = values.shape, values.dtype, values

    def block(self, origin: Sequence[int], extent: Sequence[int]) -> npt.NDArray[Any]:
        found = np.array(self._values.block(origin, extent))
        index = [np.arange(o, o + e) for o, e in zip(origin, extent, strict=True)]
        found[..., index[2] < 128] = 0
        found[index[0] >= 16] = 0
        return found


def content(path: Path) -> dict[str, bytes]:
    """Every file of a store by its name in it."""
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def without_time(files: dict[str, bytes], spec: Specification) -> dict[str, bytes]:
    """The files without the time of writing that gzip keeps behind the first four bytes of a chunk."""
    if [codec["name"] for codec in spec["layout"]["codecs"]] != ["gzip"]:
        return files
    cleaned = {}
    for name, found in files.items():
        parts = found.split(b"\x1f\x8b\x08\x00")
        cleaned[name] = b"\x1f\x8b\x08\x00".join([parts[0], *(part[4:] for part in parts[1:])])
    return cleaned


def written(path: Path, spec: Specification, partly_zero: bool = False) -> Values:
    """Generate a store anew; returns what it holds."""
    shutil.rmtree(path, ignore_errors=True)
    values = open_values(spec["dataset"])
    held: Values = PartlyZero(values) if partly_zero else values
    FORMAT.generate(str(path), spec, held)
    return held


# Each codec with every type and every kind of shards, and each of these with one another.
TYPES = [("uint16", "xyz"), ("float32", "zxy"), ("int8", "xzy")]
MADE = [
    (codecs, shards, *TYPES[(one + other) % len(TYPES)])
    for one, codecs in enumerate(CODECS)
    for other, shards in enumerate(SHARDS)
]


@pytest.mark.parametrize(("codecs", "shards", "dtype", "order"), MADE, ids=str)
def test_a_generated_store_is_the_plain_writers(
    tmp_path: Path, codecs: list[Any], shards: list[int] | None, dtype: str, order: str
) -> None:
    for zero, keep_empty in ((False, False), (True, False), (True, True)):
        spec = cell(
            SHAPE, dtype, "constant-per-spectrum", chunks=CHUNKS, shards=shards, codecs=codecs,
            order=list(order), settings={"write_empty_chunks": keep_empty},
        )  # fmt: skip
        made, plain = tmp_path / f"made{zero}{keep_empty}", tmp_path / f"plain{zero}{keep_empty}"
        values = written(made, spec, zero)
        FORMAT.write_plain(str(plain), spec, values)
        assert without_time(content(made), spec) == without_time(content(plain), spec)
        every = np.prod([-(-size // one) for size, one in zip(SHAPE, CHUNKS, strict=True)])
        assert (FORMAT.report(str(made), spec)["chunks"] < every) == (zero and not keep_empty)


def some_boxes(count: int, rng: random.Random) -> list[Box]:
    """Boxes of all kinds: whole axes, single planes, whole chunks, anything."""
    boxes = [Box((0, 0, 0), SHAPE), Box((16, 8, 192), (5, 3, 22))]
    while len(boxes) < count:
        extent = [min(size, rng.choice([1, size, rng.randint(1, size), 8, 64])) for size in SHAPE]
        origin = [rng.randint(0, size - width) for size, width in zip(SHAPE, extent, strict=True)]
        if rng.random() < 0.3:
            origin = [start // one * one for start, one in zip(origin, CHUNKS, strict=True)]
        boxes.append(Box(tuple(origin), tuple(extent)))
    return boxes


@pytest.mark.parametrize("codecs", CODECS[:5] + CODECS[6:], ids=str)
@pytest.mark.parametrize("shards", SHARDS, ids=str)
@pytest.mark.parametrize("pipeline", ["default", "zarrs"])
def test_counts_are_those_of_the_kernel(
    tmp_path: Path, codecs: list[Any], shards: list[int] | None, pipeline: str
) -> None:
    counters, rng = Counters(), random.Random(f"{codecs}{shards}{pipeline}")
    for order, zero, count in (("xyz", False, 5), ("zxy", True, 3)):
        spec = cell(
            SHAPE, "uint16", "counts", chunks=CHUNKS, shards=shards, codecs=codecs, order=list(order),
            settings={"pipeline": pipeline},
        )  # fmt: skip
        path = tmp_path / order
        values = written(path, spec, zero)
        FORMAT.prepare(spec)
        stored = FORMAT.stored_sizes(str(path), spec)
        for number, box in enumerate(some_boxes(count, rng)):
            opened = FORMAT.open(str(path), spec)
            predicted = FORMAT.predict(box, spec, stored)
            # Nothing is kept from one selection to the next: the second asks for as much as the first.
            for _ in range(1 if number else 2):
                read = opened.reader(box)
                before = counters.read()
                found = read()
                counted = between(before, counters.read())
                assert np.array_equal(found, values.block(box.origin, box.extent))
                assert found.shape == box.extent
                assert counted["requested_bytes"] == predicted["requested"], box
                assert counted["requested_reads"] == predicted["requested_reads"], box
            opened.close()


def test_a_checksum_is_verified(tmp_path: Path) -> None:
    for pipeline in ("default", "zarrs"):
        spec = cell((8, 64), chunks=[8, 64], codecs=["crc32c"], settings={"pipeline": pipeline})
        written(tmp_path / "a", spec)
        file = tmp_path / "a/c/0/0"
        damaged = bytearray(file.read_bytes())
        damaged[5] ^= 1
        file.write_bytes(damaged)
        opened = FORMAT.open(str(tmp_path / "a"), spec)
        with pytest.raises((ValueError, RuntimeError), match="(?i)checksum"):
            opened.read(Box((0, 0), (8, 64)))


@pytest.mark.parametrize("shards", SHARDS, ids=str)
@pytest.mark.parametrize("pipeline", ["default", "zarrs"])
@pytest.mark.parametrize("extent", [SHAPE, (8, 8, 64), (1, *SHAPE[1:]), (11, 7, 150)])
def test_what_is_written_in_boxes_is_read_back(
    tmp_path: Path, shards: list[int] | None, pipeline: str, extent: tuple[int, int, int]
) -> None:
    spec = cell(
        SHAPE, chunks=CHUNKS, shards=shards, codecs=["zstd"], order=["z", "x", "y"],
        settings={"pipeline": pipeline},
    )  # fmt: skip
    values = open_values(spec["dataset"])
    path = str(tmp_path / "a")
    opened = FORMAT.create(path, spec)
    for first in np.ndindex(*(-(-size // width) for size, width in zip(SHAPE, extent, strict=True))):
        origin = tuple(f * w for f, w in zip(first, extent, strict=True))
        cut = tuple(min(w, s - o) for w, s, o in zip(extent, SHAPE, origin, strict=True))
        opened.write(Box(origin, cut), values.block(origin, cut))
    opened.flush()
    opened.close()
    found = FORMAT.open(path, spec).read(Box((0, 0, 0), SHAPE))
    assert np.array_equal(found, values.block((0, 0, 0), SHAPE))


@pytest.mark.parametrize("codecs", [[], ["zstd"]], ids=str)
@pytest.mark.parametrize("shards", SHARDS, ids=str)
@pytest.mark.parametrize("order", ["xyz", "zyx"])
def test_a_store_is_reported_to_the_byte(
    tmp_path: Path, codecs: list[Any], shards: list[int] | None, order: str
) -> None:
    spec = cell(SHAPE, chunks=CHUNKS, shards=shards, codecs=codecs, order=list(order))
    written(tmp_path / "a", spec)
    found = FORMAT.report(str(tmp_path / "a"), spec)
    files = content(tmp_path / "a")
    folders = [name for name, _, _ in os.walk(tmp_path / "a")]
    assert found["file_bytes"] == sum(map(len, files.values()))
    assert (found["files"], found["folders"]) == (len(files), len(folders))
    assert found["files_predicted"] == len(files) + len(folders)
    assert found["chunks"] == found["chunks_predicted"] == 3 * 2 * 4
    assert found["index_bytes"] == found["index_predicted_bytes"]
    assert bool(found["index_bytes"]) == bool(shards)
    assert found["metadata_bytes"] == found["remainder_bytes"] == len(files["zarr.json"])
    assert found["stored_bytes"] + found["index_bytes"] + found["metadata_bytes"] == found["file_bytes"]
    assert found["padding_bytes"] == found["padding_predicted_bytes"]
    assert found["data_bytes"] == (found["stored_bytes"] if codecs else np.prod(SHAPE) * 2)
    largest = layout_of(spec["layout"]).largest_bytes(dataset_of(SHAPE))
    # Folders take a block each, and files are filled up to whole blocks.
    assert sum(-(-len(file) // 4096) * 4096 for file in files.values()) + 4096 * len(folders) <= largest
    in_force = found["settings"]
    assert in_force["dimension_names"] == list(order)
    assert in_force["chunks"] == [CHUNKS["xyz".index(axis)] for axis in order]
    assert in_force["codec_pipeline.path"].endswith("BatchedCodecPipeline")


@pytest.mark.parametrize("shards", SHARDS[:2], ids=str)
@pytest.mark.parametrize("keep_empty", [False, True])
@pytest.mark.parametrize("pyramid", [{}, {"pyramid": {"levels": 1}}], ids=["array", "pyramid"])
def test_what_is_left_out_because_it_holds_nothing_is_not_counted_beforehand(
    tmp_path: Path, shards: list[int] | None, keep_empty: bool, pyramid: dict[str, Any]
) -> None:
    spec = cell(SHAPE, chunks=CHUNKS, shards=shards, settings={"write_empty_chunks": keep_empty}, **pyramid)
    written(tmp_path / "a", spec, partly_zero=True)
    found = FORMAT.report(str(tmp_path / "a"), spec)
    assert found["chunks_predicted"] == (found["chunks"] if keep_empty else None)
    # Of files that hold one chunk each there is no index.
    known = keep_empty or not shards
    assert found["index_predicted_bytes"] == (found["index_bytes"] if known else None)


def test_zarr_python_sees_a_usual_array(tmp_path: Path) -> None:
    spec = cell(SHAPE, chunks=CHUNKS, shards=[16, 8, 128], codecs=[{"zstd": 3}], order=["z", "x", "y"])
    values = written(tmp_path / "a.zarr", spec)
    array = zarr.open_array(tmp_path / "a.zarr", mode="r")
    assert array.metadata.zarr_format == 3
    assert array.metadata.dimension_names == ("z", "x", "y")
    assert np.array_equal(np.asarray(array[:]).transpose(1, 2, 0), values.block((0, 0, 0), SHAPE))


def test_settings_are_in_force_and_those_left_out_are_the_librarys(tmp_path: Path) -> None:
    spec = cell((8, 64), chunks=[8, 64], settings={"concurrency": 3, "threads": 2})
    FORMAT.prepare(spec)
    found = settings.effective()
    assert (found["async.concurrency"], found["threading.max_workers"]) == (3, 2)
    assert found["codec_pipeline.chunk_concurrent_maximum"] is None
    spec = cell((8, 64), chunks=[8, 64], settings={"concurrency": 3, "pipeline": "zarrs"})
    FORMAT.prepare(spec)
    found = settings.effective()
    assert found["codec_pipeline.path"] == "zarrs.ZarrsCodecPipeline"
    assert found["codec_pipeline.chunk_concurrent_maximum"] == 3
    assert (found["async.concurrency"], found["threading.max_workers"]) == (10, None)


def test_a_pipeline_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    FORMAT.prepare(cell((8, 64), chunks=[8, 64]))
    monkeypatch.setattr(settings, "find_spec", lambda name: None)
    with pytest.raises(formats.Unavailable, match="zarrs is not installed here"):
        FORMAT.prepare(cell((8, 64), chunks=[8, 64], settings={"pipeline": "zarrs"}))


IMPORTED = f"""
import json, os, sys
import zarr
defaults = {{name: zarr.config.get(name) for name in json.loads(sys.argv[1])}}
from hyperslab.formats.zarr.array import FORMAT
import zarrs
from hyperslab.data.selections import Box
threads, ends = len(os.listdir("/proc/self/task")), {{}}
for pipeline, (path, spec) in json.loads(sys.argv[2]).items():
    for _ in range(2):
        child = os.fork()
        if not child:
            FORMAT.prepare(spec)
            found = FORMAT.open(path, spec).read(Box((0, 0, 0), {SHAPE}))
            os._exit(0 if found.any() and len(os.listdir("/proc/self/task")) > 1 else 3)
        ends.setdefault(pipeline, []).append(os.waitpid(child, 0)[1])
print(json.dumps([defaults, threads, ends]))
"""
DEFAULTS = (
    "array.write_empty_chunks", "async.concurrency", "threading.max_workers", "codec_pipeline.batch_size",
)  # fmt: skip
PIPELINES = ("default", "zarrs")


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Defaults and threads of an interpreter that has imported zarr, and how its forks ended that read."""
    stores = {}
    for pipeline in PIPELINES:
        spec = cell(SHAPE, chunks=CHUNKS, codecs=["zstd"], settings={"pipeline": pipeline})
        path = tmp_path_factory.mktemp("imported") / "a"
        written(path, spec)
        stores[pipeline] = (str(path), spec)
    command = [sys.executable, "-c", IMPORTED, json.dumps(DEFAULTS), json.dumps(stores)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(SCRIPTS)}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, timeout=120)
    return json.loads(done.stdout)


def test_defaults_named_here_are_zarr_pythons(imported: Any) -> None:
    assert imported[0] == {name: settings.OWN[name] for name in DEFAULTS}


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_importing_starts_no_thread_and_a_fork_reads(imported: Any, pipeline: str) -> None:
    _, threads, ends = imported
    assert threads == 1 and ends[pipeline] == [0, 0]


def test_a_store_with_large_shards_takes_little_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As many are made at once as memory allows, one at least."""
    threads: list[int] = []

    class Counted(ThreadPoolExecutor):
        def __init__(self, count: int) -> None:
            threads.append(count)
            super().__init__(count)

    monkeypatch.setattr(generation, "ThreadPoolExecutor", Counted)
    monkeypatch.setattr(generation, "MEMORY_BYTES", 3 * 4 * 2 * 24 * 16 * 256)
    monkeypatch.setattr(generation, "TILE_BYTES", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64))
    written(tmp_path / "a", cell(SHAPE, chunks=CHUNKS, shards=[24, 16, 256]))
    monkeypatch.setattr(generation, "MEMORY_BYTES", 1)
    written(tmp_path / "a", cell(SHAPE, chunks=CHUNKS, shards=[24, 16, 256]))
    assert threads == [3, 1]
