"""Processes that share a rewrite make the chunks that one alone makes, and end with it whatever happens."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from process_tree import children
from rich_files import TARGET, write_rich_file
from test_workers import wait_until

from hyperslab import rewrite
from hyperslab.rewriting import RewriteError, comparing, filling, pieces
from hyperslab.rewriting.differences import differences
from hyperslab.rewriting.forks import beside, in_order
from hyperslab.rewriting.progress import Progress

SCRIPTS = Path(__file__).parents[2] / "workflow" / "scripts"
BUDGET = 2**18
SHAPE = (15, 20, 200)
GZIP: dict[str, Any] = {"name": "gzip", "level": 6}
LAYOUTS: dict[str, dict[str, Any]] = {
    "gzip": {"filters": [GZIP]},
    "gzip that cannot shrink": {"filters": [{"name": "gzip", "level": 0}]},
    "shuffle, gzip and checksums": {"filters": [{"name": "shuffle"}, GZIP, {"name": "fletcher32"}]},
    "checksums": {"filters": [{"name": "fletcher32"}]},
    "szip": {"filters": [{"name": "szip"}]},
    "zstd": {"filters": [{"name": "zstd", "level": 3}]},
    "blosc2": {"filters": [{"name": "blosc2"}]},
    "scale and offset": {"filters": [{"name": "scaleoffset"}]},
    "chunks alone": {},
    "contiguous": {"chunks": None},
    "newest format": {"filters": [GZIP], "settings": {"libver": "latest"}},
    "allocated early": {"filters": [GZIP], "settings": {"alloc_time": "early"}},
    "never filled": {"filters": [GZIP], "settings": {"fill_time": "never"}},
}
# The layout says how a chunk is written, the original whether it is: each layout with values everywhere, and
# those that store, fill or leave out chunks in ways of their own with other originals.
COPIES = [
    *(("whole", name) for name in LAYOUTS),
    *(("in part", name) for name in ("gzip", "blosc2", "contiguous", "allocated early")),
    *(("nowhere", name) for name in ("gzip", "contiguous", "allocated early")),
    *(("contiguous", name) for name in ("gzip", "chunks alone", "contiguous", "never filled")),
]


def layout(**asked: Any) -> dict[str, Any]:
    """A layout as a study asks for it."""
    return {"chunks": [4, 3, 64], "filters": [], "compact": False, "settings": {}, **asked}


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small arrays are shared, too, by two processes: each is a fork of all that tests have imported."""
    for module in (filling, comparing):
        monkeypatch.setattr(module, "processors", lambda: 2)
    monkeypatch.setattr(pieces, "LEAST_BYTES", 0)
    monkeypatch.setattr(pieces, "BOX_BYTES", 2**14)


@pytest.fixture
def original(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    path = tmp_path / f"{request.param}.h5"
    data = np.random.default_rng(7).poisson(2, SHAPE).astype("u2")
    with h5py.File(path, "w") as file:
        chunks = None if request.param == "contiguous" else (8, 6, 50)
        made = file.create_dataset(
            "counts", SHAPE, "u2", chunks=chunks, compression="gzip" if chunks else None, fillvalue=9
        )
        if request.param in ("whole", "contiguous"):
            made[...] = data
        elif request.param == "in part":
            made[2:7, 5:12, :120] = data[2:7, 5:12, :120]
    return path


def chunks_of(path: Path, name: str) -> dict[tuple[int, ...], tuple[int, bytes]] | bytes:
    """Filter mask and bytes of every stored chunk; the values of a dataset without chunks."""
    with h5py.File(path) as file:
        dataset = file[name]
        if dataset.chunks is None:
            return bytes(dataset[...].tobytes())
        places: list[tuple[int, ...]] = []
        dataset.id.chunk_iter(lambda chunk: places.append(chunk.chunk_offset))
        return {place: dataset.id.read_direct_chunk(place) for place in places}


@pytest.mark.parametrize(("original", "name"), COPIES, indirect=["original"])
def test_chunks_are_those_of_one_process(
    original: Path,
    tmp_path: Path,
    name: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alone, together = tmp_path / "alone.h5", tmp_path / "together.h5"
    asked = layout(**LAYOUTS[name])
    rewrite.rewrite(original, alone, "counts", asked, BUDGET, Progress())
    request.getfixturevalue("shared")
    forked = counted(monkeypatch)
    rewrite.rewrite(original, together, "counts", asked, BUDGET, Progress())
    # Some to copy, as many to compare.
    assert len(forked) > 3 or original.name == "nowhere.h5"
    # What they made this process looks at alone.
    monkeypatch.undo()
    assert chunks_of(alone, "counts") == chunks_of(together, "counts")
    assert not list(differences(alone, together))
    with h5py.File(original) as source, h5py.File(together) as file:
        assert (file["counts"][...] == source["counts"][...]).all()


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that gets the number of every process that this one forks."""
    found: list[int] = []
    fork = os.fork

    def noted() -> int:
        found.append(child := fork())
        return child

    monkeypatch.setattr(os, "fork", noted)
    return found


@pytest.mark.usefixtures("shared")
def test_everything_else_is_kept(tmp_path: Path) -> None:
    original, new = tmp_path / "rich.h5", tmp_path / "new.h5"
    write_rich_file(original)
    rewrite.rewrite(original, new, TARGET, layout(chunks=[3, 11, 40], filters=[GZIP]), BUDGET, Progress())
    assert not list(differences(original, new, [TARGET]))


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("original", ["whole"], indirect=True)
def test_a_wrong_copy_is_not_accepted(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_user_block = rewrite._copy_user_block

    def spoil(source: Path, new: Path) -> None:
        copy_user_block(source, new)
        with h5py.File(new, "r+") as file:
            file["counts"][14, 19, 199] += 1

    monkeypatch.setattr(rewrite, "_copy_user_block", spoil)
    with pytest.raises(RewriteError, match="the new file is not the same: /counts: values differ"):
        rewrite.rewrite(original, tmp_path / "new.h5", "counts", layout(filters=[GZIP]), BUDGET, Progress())
    assert not own_children()


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("original", ["whole"], indirect=True)
def test_a_chunk_that_cannot_be_decoded_ends_all(original: Path, tmp_path: Path) -> None:
    with h5py.File(original, "r+") as file:
        file["counts"].id.write_direct_chunk((8, 6, 50), b"no gzip")
    with pytest.raises(ChildProcessError) as error:
        rewrite.rewrite(original, tmp_path / "new.h5", "counts", layout(filters=[GZIP]), BUDGET, Progress())
    assert "filter returned failure" in str(error.value) and "\n" not in str(error.value)
    assert not own_children()


# Processes that tests of other modules, in this process too, have left to their fixtures.
_others: set[int] = set()


@pytest.fixture(autouse=True)
def others() -> None:
    """Note which processes are there before a test."""
    _others.clear()
    _others.update(children(os.getpid()))


def own_children() -> set[int]:
    """The processes that a test has started and that are still there."""
    return {*children(os.getpid())} - _others


def test_results_come_in_order_however_long_they_take(tmp_path: Path) -> None:
    def meet(number: int) -> tuple[int, int]:
        """Wait for the two other processes, which each have a piece, too."""
        (tmp_path / str(os.getpid())).touch()
        assert wait_until(lambda: len(list(tmp_path.iterdir())) == 3)
        return number, os.getpid()

    found = list(in_order(meet, 10, 3))
    assert [number for number, _ in found] == list(range(10))
    assert len({process for _, process in found}) == 3
    here = list(in_order(lambda number: (number, os.getpid()), 3, 1))
    assert here == [(number, os.getpid()) for number in range(3)]
    assert not own_children()


def test_work_goes_to_whoever_is_free(tmp_path: Path) -> None:
    """The first piece waits for the third: dealt out in turns, both would be for one process."""

    def uneven(number: int) -> int:
        assert number or wait_until((tmp_path / "2").exists)
        (tmp_path / str(number)).touch()
        return os.getpid()

    found = list(in_order(uneven, 12, 2))
    assert found[0] != found[2]


def test_work_beside() -> None:
    wait = beside(lambda: (os.getpid(), "done"))
    process, said = wait()
    assert process != os.getpid() and said == "done" and not own_children()
    with pytest.raises(ChildProcessError, match="two lines"):
        beside(lambda: failing(3))()


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_no_more_is_done_than_is_asked_for(count: int) -> None:
    assert list(in_order([10, 11, 12][:count].__getitem__, count, 2)) == [10, 11, 12][:count]


def test_large_results_arrive_whole() -> None:
    found = list(in_order(lambda number: np.full(2**18 + number, number), 5, 2))
    assert [len(one) - 2**18 for one in found] == list(range(5))
    assert all((one == number).all() for number, one in enumerate(found))


def test_any_number_of_files_may_be_open() -> None:
    """select() takes none of those from 1,024 on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with contextlib.ExitStack() as files:
        files.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        while files.enter_context(open(os.devnull, "rb")).fileno() < 1024:
            pass
        assert list(in_order(lambda number: number, 5, 2)) == list(range(5))


def failing(number: int) -> int:
    if number == 3:
        raise OSError("two\nlines")
    return number


def ending(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.parametrize(
    ("work", "said"),
    [(failing, "two lines"), (ending, "a process that shared the work was ended by signal 9")],
    ids=["failing", "ending"],
)
def test_a_failure_is_one_line_and_leaves_no_process(work: Any, said: str) -> None:
    found: list[int] = []
    with pytest.raises(ChildProcessError) as error:
        found.extend(in_order(work, 10, 2))
    assert str(error.value).startswith(said)
    assert not own_children()


def test_whoever_stops_listening_leaves_no_process() -> None:
    results = in_order(lambda number: bytes(2**22), 10, 2)
    next(results)
    assert len(own_children()) == 2
    results.close()
    assert not own_children()


def test_processes_write_nothing_of_what_they_inherited(tmp_path: Path) -> None:
    """A dataset with values that only the library has yet is written once, by the process that made it."""
    path = tmp_path / "new.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("a", (1000,), "i4", chunks=(100,), compression="gzip")[...] = 1
        before = path.read_bytes()
        assert [int(one[0]) for one in in_order(lambda _: file["a"][:3], 4, 2)] == [1] * 4
        assert path.read_bytes() == before
        file["a"][...] = 2
    with h5py.File(path) as file:
        assert (file["a"][...] == 2).all()


CODE = """
import os, sys
from pathlib import Path
from hyperslab import rewrite
from hyperslab.rewriting import comparing, filling
from hyperslab.rewriting.progress import Progress
import hyperslab.rewriting.copying, hyperslab.rewriting.differences, hdf5plugin
filling.processors = comparing.processors = lambda: 2
print(os.getpid(), flush=True)
sys.stdin.readline()
gzip = {"name": "gzip", "level": 1}
layout = {"chunks": [16, 32, 128], "filters": [gzip], "compact": False, "settings": {}}
rewrite.rewrite(Path(sys.argv[1]), Path(sys.argv[2]), "large", layout, 16 * 2**20, Progress())
"""


def proportional_bytes(process: int) -> int:
    """The memory of a process and of those that it started, what they share counted once."""
    total = 0
    with_children = [process, *children(process)]
    for one in with_children:
        try:
            rows = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(1024 * int(row.split()[1]) for row in rows if row.startswith("Pss:"))
    return total


def test_memory_of_all_processes_is_bounded(tmp_path: Path) -> None:
    original = tmp_path / "large.h5"
    rng = np.random.default_rng(1)
    with h5py.File(original, "w") as file:
        large = file.create_dataset(
            "large", (256, 1024, 128), "u1", chunks=(16, 64, 128), compression="gzip", compression_opts=1
        )
        for plane in range(0, 256, 16):
            # Values of which gzip makes nearly as much as they are.
            large[plane : plane + 16] = rng.integers(0, 200, (16, 1024, 128), np.uint8)
    run = subprocess.Popen(
        [sys.executable, "-c", CODE, str(original), str(tmp_path / "new.h5")],
        env={"PYTHONPATH": str(SCRIPTS), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with run:
        assert run.stdout and run.stdin
        run.stdout.readline()
        before, most, together = proportional_bytes(run.pid), 0, 0
        run.stdin.write("\n")
        run.stdin.flush()
        while run.poll() is None:
            most = max(most, proportional_bytes(run.pid))
            together = max(together, len(children(run.pid)))
            time.sleep(0.005)
    assert run.returncode == 0
    assert together == 2
    # As of one process: 34 MB of values through 16 MiB, and what HDF5 itself needs.
    assert most - before < 2 * 16 * 2**20
