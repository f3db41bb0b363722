"""Chunks compressed by several processes make the plain writer's file, whatever the filter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import file_specification, values_of

from hyperslab.data.values import FILLS, Donor, open_values
from hyperslab.formats.hdf5 import parallel_compression
from hyperslab.formats.hdf5.array import FORMAT
from hyperslab.layouts.hdf5_filters import FILTERS, refusal
from hyperslab.specifications import Specification

Spec = Specification
Options = dict[str, Any]

# Every filter at least once, in each of its modes; those of lossy ones too.
FAMILIES: list[tuple[list[Options], str]] = [
    ([{"name": "gzip", "level": 6}], "uint16"),
    ([{"name": "gzip", "level": 0}], "uint16"),
    ([{"name": "shuffle"}, {"name": "gzip", "level": 1}, {"name": "fletcher32"}], "int32"),
    ([{"name": "fletcher32"}], "uint8"),
    ([{"name": "lzf"}], "uint16"),
    ([{"name": "szip"}], "uint16"),
    ([{"name": "szip", "block": 8, "coding": "entropy"}], "float64"),
    ([{"name": "nbit", "bits": 11}], "uint16"),
    ([{"name": "scaleoffset"}], "int16"),
    ([{"name": "scaleoffset", "bits": 7}], "uint16"),
    ([{"name": "scaleoffset", "digits": 2}], "float32"),
    *(
        ([{"name": "blosc", "codec": codec}], "uint16")
        for codec in FILTERS["blosc"].parameters["codec"].words
    ),
    *(
        ([{"name": "blosc2", "codec": codec}], "int32")
        for codec in FILTERS["blosc2"].parameters["codec"].words
    ),
    ([{"name": "blosc2", "shuffle": "delta"}], "uint16"),
    ([{"name": "zstd", "level": -5}, {"name": "fletcher32"}], "uint16"),
    ([{"name": "lz4"}], "uint16"),
    ([{"name": "bitshuffle", "codec": "zstd"}], "uint16"),
    ([{"name": "bitshuffle"}], "uint16"),
    ([{"name": "bzip2"}], "uint16"),
    ([{"name": "fcidecomp"}], "uint16"),
    ([{"name": "htj2k"}], "uint16"),
    ([{"name": "zfp", "accuracy": 0.01}], "float32"),
    ([{"name": "zfp", "precision": 11}], "float64"),
    ([{"name": "zfp", "rate": 7.5}], "float32"),
    ([{"name": "zfp", "reversible": True}], "float64"),
    ([{"name": "sz3", "absolute": 0.01}], "float32"),
    ([{"name": "sperr", "absolute": 0.01}], "float64"),
    ([{"name": "sperr", "rate": 9}], "float32"),
    ([{"name": "sperr", "psnr": 80}], "float32"),
]
# LZF looks matches up in a table on the stack that it does not clear first, so what lay there decides which
# of several right outputs it gives; the plain writer itself does not make the same file twice.
REPEATS_NOT = {"lzf"}
SHAPE, CHUNKS = (9, 10, 300), (4, 3, 64)
OTHER_CHUNKS = {"htj2k": (1, 5, 64), "sperr": (9, 1, 50)}


def named(family: Any) -> str:
    return (
        "+".join("-".join(map(str, one.values())) for one in family) if isinstance(family, list) else family
    )


class InProcess:
    """Stands for the pool of processes where only what it makes of chunks is looked at."""

    def __init__(self, count: int, context: Any, begin: Any, arguments: Sequence[Any]) -> None:
        parallel_compression._given = tuple(arguments[1:])

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(work(*arguments))
        return done

    def shutdown(self, cancel_futures: bool) -> None:
        pass


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_compression, "processors", lambda: 2)
    monkeypatch.setattr(parallel_compression, "LEAST_BYTES", 0)
    # The first run is made here, and all others by processes.
    monkeypatch.setattr(parallel_compression, "START_SECONDS", -1.0)


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch, two_cores: None) -> None:
    monkeypatch.setattr(parallel_compression, "ProcessPoolExecutor", InProcess)
    monkeypatch.setattr(parallel_compression, "TILE_BYTES", 2 * 4 * 3 * 64 * 8)


def spec_of(filters: list[Options], dtype: str, order: str = "xyz", libver: str = "earliest") -> Spec:
    chunks = OTHER_CHUNKS.get(filters[0]["name"], CHUNKS)
    spec = file_specification(SHAPE, chunks, order, filters, dtype, libver=libver)
    spec["dataset"]["fill"] = "counts"
    return spec


def both_ways(spec: Spec, directory: Path) -> tuple[Path, Path]:
    """The same file by the shortcut and by the plain writer."""
    short, plain = directory / "short.h5", directory / "plain.h5"
    values = open_values(spec["dataset"])
    assert FORMAT.generate(str(short), spec, values) == "compressed"
    FORMAT.write_plain(str(plain), spec, values)
    return short, plain


def chunks_of(path: Path) -> list[tuple[Any, ...]]:
    """Coordinates, address, size and filter mask of every chunk."""
    found: list[tuple[Any, ...]] = []
    with h5py.File(path) as file:
        file["data"].id.chunk_iter(
            lambda c: found.append((c.chunk_offset, c.byte_offset, c.size, c.filter_mask))
        )
    return found


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(("filters", "dtype"), FAMILIES, ids=named)
def test_the_file_is_the_plain_writers_byte_by_byte(
    tmp_path: Path, filters: list[Options], dtype: str
) -> None:
    spec = spec_of(filters, dtype)
    assert refusal(filters, dtype, spec["layout"]["chunks"] or []) is None
    short, plain = both_ways(spec, tmp_path)
    if filters[0]["name"] in REPEATS_NOT:
        assert_same_chunks(short, plain)
        return
    assert chunks_of(short) == chunks_of(plain)
    assert FORMAT.report(str(short), spec) == FORMAT.report(str(plain), spec)
    assert short.read_bytes() == plain.read_bytes()


def assert_same_chunks(short: Path, plain: Path) -> None:
    """The same chunks in the same order with the same values, though not always of quite the same size."""
    (places, _, sizes, masks), (plain_places, _, plain_sizes, plain_masks) = (
        zip(*chunks_of(path), strict=True) for path in (short, plain)
    )
    assert (places, masks) == (plain_places, plain_masks)
    np.testing.assert_allclose(sizes, plain_sizes, rtol=0.02)
    with h5py.File(short) as one, h5py.File(plain) as other:
        np.testing.assert_array_equal(one["data"][...], other["data"][...])


def test_no_filter_is_left_out() -> None:
    assert {one["name"] for filters, _ in FAMILIES for one in filters} == set(FILTERS)


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("order", ["xyz", "zxy", "yzx"])
@pytest.mark.parametrize("libver", ["earliest", "v110", "latest"])
def test_every_order_and_index(tmp_path: Path, order: str, libver: str) -> None:
    short, plain = both_ways(spec_of([{"name": "gzip"}], "uint16", order, libver), tmp_path)
    assert short.read_bytes() == plain.read_bytes()


@settings(max_examples=25)
@given(data=st.data())
def test_any_shape(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=4))
    chunks = [data.draw(st.integers(1, extent)) for extent in shape]
    filters = data.draw(st.sampled_from([[{"name": "gzip"}], [{"name": "zstd"}], [{"name": "blosc"}]]))
    spec = file_specification(shape, chunks, filters=filters)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel_compression, "processors", lambda: 2)
        patch.setattr(parallel_compression, "LEAST_BYTES", 0)
        patch.setattr(parallel_compression, "START_SECONDS", data.draw(st.sampled_from([-1.0, 1e9])))
        patch.setattr(parallel_compression, "ProcessPoolExecutor", InProcess)
        patch.setattr(
            parallel_compression, "TILE_BYTES", data.draw(st.integers(2 * int(np.prod(chunks)), 50_000))
        )
        short, plain = both_ways(spec, tmp_path_factory.mktemp("any"))
    assert short.read_bytes() == plain.read_bytes()


@pytest.mark.usefixtures("two_cores")
def test_processes_are_started_only_where_they_spare_more_than_that_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel_compression, "TILE_BYTES", 20_000)
    begun = []

    def executor(*given: Any) -> InProcess:
        begun.append(given)
        return InProcess(*given)

    monkeypatch.setattr(parallel_compression, "ProcessPoolExecutor", executor)
    for start, expected in ((1e9, 0), (-1.0, 1)):
        monkeypatch.setattr(parallel_compression, "START_SECONDS", start)
        short, plain = both_ways(spec_of([{"name": "zstd"}], "uint16"), tmp_path)
        assert short.read_bytes() == plain.read_bytes() and len(begun) == expected


# ---- with real processes


@pytest.mark.usefixtures("two_cores")
def test_processes_make_the_same_file_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_compression, "TILE_BYTES", 20_000)
    filters: list[Options] = [{"name": "shuffle"}, {"name": "zstd"}]
    spec = spec_of(filters, "uint16")
    short, plain = both_ways(spec, tmp_path)
    first = short.read_bytes()
    assert first == plain.read_bytes()
    FORMAT.generate(str(short), spec, values_of_fill(spec))
    assert short.read_bytes() == first
    # Two interpreters with numpy and h5py, one where the other came too late for work; far from the bound.
    assert 30 * 2**20 < FORMAT.workers_memory_bytes() < 400 * 2**20


def values_of_fill(spec: Spec) -> Any:
    return FILLS[spec["dataset"]["fill"]](spec["dataset"]["shape"], spec["dataset"]["dtype"])


@pytest.mark.usefixtures("two_cores")
def test_a_donor_reaches_the_workers_as_a_map_of_its_file(tmp_path: Path) -> None:
    donor = np.random.default_rng(1).integers(0, 50, (5, 4, 200), dtype=np.uint16)
    np.save(tmp_path / "donor.npy", donor)
    values = Donor(SHAPE, str(tmp_path / "donor.npy"), [2, 2, 100])
    spec = spec_of([{"name": "gzip"}], "uint16")
    short, plain = tmp_path / "short.h5", tmp_path / "plain.h5"
    assert FORMAT.generate(str(short), spec, values) == "compressed"
    FORMAT.write_plain(str(plain), spec, values)
    assert short.read_bytes() == plain.read_bytes()


@pytest.mark.parametrize(
    ("name", "value"), [("processors", lambda: 1), ("TILE_BYTES", 31), ("LEAST_BYTES", 65)]
)
def test_what_processes_do_not_serve_is_written_plainly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, two_cores: None, name: str, value: Any
) -> None:
    spec = file_specification((4, 8), (2, 8), filters=[{"name": "gzip"}])
    monkeypatch.setattr(parallel_compression, "ProcessPoolExecutor", InProcess)
    assert FORMAT.generate(str(tmp_path / "a.h5"), spec, values_of(spec)) == "compressed"
    monkeypatch.setattr(parallel_compression, name, value)
    assert FORMAT.generate(str(tmp_path / "a.h5"), spec, values_of(spec)) == "plain"


DYING = """
import os
from hyperslab.data.values import MixedIndices
from hyperslab.formats.hdf5 import parallel_compression
from hyperslab.formats.hdf5.array import FORMAT
from samples import file_specification

class Values(MixedIndices):
    def block(self, origin, extent):
        if origin[0] == 4:
            {what}
        return super().block(origin, extent)

if __name__ == "__main__":
    parallel_compression.processors = lambda: 2
    parallel_compression.TILE_BYTES, parallel_compression.LEAST_BYTES = 100, 0
    parallel_compression.START_SECONDS = -1.0
    spec = file_specification((8, 50), (1, 50), filters=[{{"name": "gzip"}}])
    FORMAT.generate("a.h5", spec, Values((8, 50), "uint16"))
"""


def started(directory: Path, what: str) -> subprocess.Popen[str]:
    """A writer whose workers do `what` in the middle."""
    (directory / "dying.py").write_text(DYING.format(what=what), encoding="utf-8")
    here = Path(__file__).parents[2]
    path = os.pathsep.join(str(here / part) for part in ("workflow/scripts", "tests"))
    return subprocess.Popen(
        [sys.executable, "dying.py"], cwd=directory, env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_worker_that_ends_is_said_in_one_line(tmp_path: Path) -> None:
    writer = started(tmp_path, "os.kill(os.getpid(), 9)")
    _, said = writer.communicate(timeout=120)
    last = said.strip().splitlines()[-1]
    assert last == "ChildProcessError: a process that compressed chunks (gzip) ended before its work was done"


def test_workers_end_with_their_killed_parent(tmp_path: Path) -> None:
    writer = started(tmp_path, "open(f'worker.{os.getpid()}', 'w'); import time; time.sleep(600)")
    deadline = time.monotonic() + 120
    while not (found := list(tmp_path.glob("worker.*"))):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    pids = [int(path.suffix[1:]) for path in found]
    assert all(Path(f"/proc/{pid}").exists() for pid in pids)
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline, "a worker outlived its parent"
        time.sleep(0.05)
