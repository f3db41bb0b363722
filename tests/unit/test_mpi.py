"""MPI ranks that really run: reductions, the four interfaces, and ranks or launchers that fail."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from process_tree import alive, below
from rank_cells import outcomes_of
from samples import file_specification, values_of
from test_reduce import OneUnitMore, command, reduce_cell
from test_workers import wait_until

from hyperslab import cases, formats
from hyperslab.cases.context import Context, Outcome, VerificationError
from hyperslab.cases.mpi import environment, launch
from hyperslab.formats.hdf5.array import FORMAT
from hyperslab.measuring.parent import end_with_parent
from hyperslab.specifications import CaseSpecification, Specification

# Compiling what these need takes minutes, so that a run of all tests may leave them out by their mark.
pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("mpi")]
Spec = Specification
RANKS = 2
STATES = {"write": 2, "cold": 2, "warm": 1}


def by_ranks(spec: Spec, ranks: int = RANKS) -> Spec:
    """A reduction by ranks instead of processes."""
    return {**spec, "case": {**spec["case"], "name": f"slices-{ranks}r", "by": "ranks", "workers": ranks}}


def parallel_cell(
    api: str, collective: bool, interleaved: bool, chunks: Any = None, filters: Any = (), ranks: int = RANKS
) -> Spec:
    """What measure is told of 2 datasets, of which each rank holds 8 KiB."""
    spec = file_specification((2, ranks * 2048), chunks, dtype="uint32", filters=filters)
    asked = {
        "api": api, "datasets": 2, "bytes": 8192, "transfer": 2048, "block": 512, "interleaved": interleaved,
        "collective": collective, "hints": {"romio_cb_write": "enable"} if collective else {},
    }  # fmt: skip
    case: CaseSpecification = {
        "name": "all", "kind": "parallel", "family": "all", "by": "ranks", "workers": ranks,
        "states": list(STATES), "parallel": asked,
    }  # fmt: skip
    return {**spec, "case": case, "repeats": STATES, "seed": 1, "round": "r0", "protocol": 1}


def outcome_of(spec: Spec, directory: Path, ranks: int = RANKS, **changes: Any) -> Outcome:
    """The outcome of a cell of ranks."""
    path = directory / "a.h5"
    kind = spec["case"]["kind"]
    if kind == "reduce":
        FORMAT.generate(str(path), spec, values_of(spec))
    context = Context(spec, FORMAT, str(path), values_of(spec), True, f"mpirun -n {ranks}")
    try:
        return cases.load(kind)(Context(**{**vars(context), **changes}))
    finally:
        for left in directory.glob("a.h5*"):
            left.unlink()


# ---- reductions


def test_ranks_reduce_what_processes_reduce(memory: Path) -> None:
    spec = reduce_cell(RANKS, {"cold": 2, "warm": 2, "session": 2}, filters=({"name": "gzip", "level": 1},))
    with_processes = outcome_of(spec, memory)
    with_ranks = outcome_of(by_ranks(spec), memory)
    assert not with_ranks.skipped
    for one, other in zip(with_processes.repeats, with_ranks.repeats, strict=True):
        same = ("state", "repeat", "origin", "asked_bytes", "processes", "chunks_shared", "chunk_bytes")
        assert [one[name] for name in same] == [other[name] for name in same]
        assert other["time_s"] > 0
        # A library of its own in each rank reads the same chunks and index as in each process.
        assert other["requested_bytes"] >= one["requested_bytes"]
    assert with_ranks.versions["ranks_mpi"] and with_ranks.versions["ranks_hdf5"]
    assert with_ranks.workers_memory_bytes > RANKS * 20 * 2**20


def test_ranks_find_a_file_that_differs_from_the_truth(memory: Path) -> None:
    spec = by_ranks(reduce_cell(2, {"warm": 1}, planes=2900))
    path = memory / "a.h5"
    FORMAT.generate(str(path), spec, OneUnitMore(spec, (9, 11, 1500)))
    context = Context(spec, FORMAT, str(path), values_of(spec), True, "mpirun -n 2")
    with pytest.raises(VerificationError, match=r"reduction 0 of state warm differs .* in plane 1500"):
        cases.load("reduce")(context)
    path.unlink()


def test_cold_by_ranks_is_cold(disk: Path) -> None:
    spec = by_ranks(reduce_cell(2, {"cold": 2, "warm": 1}, shape=(20, 24, 8000)))
    outcome = outcome_of(spec, disk, memory_resident=False)
    assert not outcome.skipped
    for row in outcome.repeats:
        cold = row["state"] == "cold"
        assert row["resident_before"] <= 0.01 if cold else row["resident_before"] >= 0.99
        # A hundredth of the file may be absent from the page cache.
        assert (row["device_bytes"] > 0.01 * outcome.report["file_bytes"]) == cold


# ---- the four interfaces

ACCESS = [
    *(
        (api, False, interleaved)
        for api in ("hdf5", "mpiio", "posix", "file-per-process")
        for interleaved in (False, True)
    ),
    *((api, True, interleaved) for api in ("hdf5", "mpiio") for interleaved in (False, True)),
]
# Chunks of an array, and the filter that they go through.
FILTERED: tuple[Any, Any] = ((1, 1024), ({"name": "gzip", "level": 4},))


def test_every_interface_moves_and_verifies_every_byte(memory: Path, program: Callable[[str], None]) -> None:
    specs = [parallel_cell(api, collective, interleaved) for api, collective, interleaved in ACCESS]
    # Why a study may not ask for it late; where this no longer fails, it may (layouts/hdf5.py).
    specs.append(parallel_cell("hdf5", False, False))
    specs[-1]["layout"]["settings"]["alloc_time"] = "late"
    specs.append(parallel_cell("hdf5", True, False, *FILTERED))
    *outcomes, late, filtered = outcomes_of(specs, memory, program, "parallel")
    for access, outcome in zip(ACCESS, outcomes, strict=True):
        assert_every_byte_is_moved(outcome, *access)
    assert late.report["settings"]["alloc_time"] == "early"
    # Chunks that go through a filter are written collectively.
    said = filtered.report["settings"]
    assert said["chunks"] == [1024] and said["dataset_layout"] == "chunked"
    assert said["last_call"].startswith("chunks, ")


def assert_every_byte_is_moved(outcome: Outcome, api: str, collective: bool, interleaved: bool) -> None:
    """Every state is there, with its phases and counts, and the file says how it was written."""
    assert not outcome.skipped
    assert [row["state"] for row in outcome.repeats] == ["write"] * 2 + ["warm"] + ["library-cold"] * 2
    total = RANKS * 2 * 8192
    for row in outcome.repeats:
        assert row["asked_bytes"] == total and row["processes"] == RANKS and row["physical_cores"] >= 1
        if row["state"] == "write":
            parts = ("create_s", "write_s", "flush_s", "close_s", "fsync_s")
            assert row["time_s"] == pytest.approx(sum(row[part] for part in parts))
            assert row["written_bytes"] >= total and row["reference_s"] > 0
        else:
            assert row["requested_bytes"] >= total and row["open_s"] > 0 and row["close_s"] >= 0
    if not collective and api in ("posix", "file-per-process"):
        calls = RANKS * 2 * 4 * (4 if interleaved and api == "posix" else 1)
        written = [row for row in outcome.repeats if row["state"] == "write"]
        assert {(row["requested_writes"], row["written_bytes"]) for row in written} == {(calls, total)}
    assert outcome.report["file_bytes"] >= outcome.report["data_bytes"] == total
    said = outcome.report["settings"]
    assert said["dtype"] == "uint32"
    if api == "hdf5":
        assert said["last_call"] == ("contiguous, collective" if collective else "no collective I/O")
    if collective:
        assert said["hints"]["romio_cb_write"] == "enable"


def test_parallel_hdf5_still_has_no_page_buffer(memory: Path) -> None:
    """Why a study may not ask for one; where this no longer fails, it may (layouts/hdf5.py)."""
    spec = parallel_cell("hdf5", False, False)
    spec["layout"]["settings"]["paging"] = {"page_bytes": 4096, "buffer_bytes": 65536}
    with pytest.raises(ChildProcessError, match="page buffering is disabled for parallel"):
        outcome_of(spec, memory)


def test_chunks_with_a_filter_are_written_by_collective_calls_alone(memory: Path) -> None:
    with pytest.raises(ChildProcessError, match=r"rank \d of 2: "):
        outcome_of(parallel_cell("hdf5", False, False, *FILTERED), memory)


def test_no_rank_makes_a_whole_dataset(memory: Path, program: Callable[[str], None]) -> None:
    # A dataset has 16 KiB, of which each of the two ranks holds half.
    small = (
        "from hyperslab.cases.parallel import ranks\n"
        "from hyperslab.data.values import MixedIndices\n"
        "ranks.PIECE_BYTES = 3072\n"
        "block = MixedIndices.block\n"
        "def small(self, origin, extent):\n"
        "    assert extent[0] * extent[1] * 4 <= 3072, 'too much at once'\n"
        "    return block(self, origin, extent)\n"
        "MixedIndices.block = small\n"
    )
    specs = [parallel_cell("hdf5", False, False), parallel_cell("posix", False, True)]
    for outcome in outcomes_of(specs, memory, program, "parallel", small):
        assert not outcome.skipped


# Whatever the interface gives back is compared in one place: one file of all ranks, or one of each.
@pytest.mark.parametrize("api", ["file-per-process", "hdf5"])
def test_a_file_that_changes_after_the_write_fails(
    memory: Path, program: Callable[[str], None], api: str
) -> None:
    # One byte is damaged between close and verification.
    program(
        "from hyperslab.cases.parallel import interfaces\n"
        f"api = interfaces.APIS[{api!r}]\n"
        "stored = api.stored\n"
        "def damaged(self, number, place):\n"
        "    found = stored(self, number, place).copy()\n"
        "    found[-1] ^= 1\n"
        "    return found\n"
        "api.stored = damaged\n"
    )
    with pytest.raises(VerificationError, match="dataset . differs from what was written"):
        outcome_of(parallel_cell(api, False, True), memory)


# ---- failures


def test_a_launcher_of_another_mpi_is_told(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Ranks that do not find each other are what a wrong launcher makes.
    monkeypatch.setattr(environment, "resolved", lambda words: ["env"])
    with pytest.raises(
        ChildProcessError, match=r"rank 0 of 1: .* started as 1 rank\(s\) instead of 2: the launcher"
    ):
        outcome_of(by_ranks(reduce_cell(2, {"warm": 1})), memory)


def test_a_launcher_that_is_not_there_is_named(memory: Path) -> None:
    with pytest.raises(
        ChildProcessError, match="MPI ranks cannot be started: no-such-launcher: No such file"
    ):
        outcome_of(by_ranks(reduce_cell(2, {"warm": 1})), memory, launcher="no-such-launcher -n 2")


def test_a_rank_that_fails_ends_all_with_its_own_words(memory: Path, program: Callable[[str], None]) -> None:
    program(
        "from hyperslab.cases.reduce import moments\n"
        "from mpi4py import MPI\n"
        "def broken(*_):\n"
        "    raise OSError('a disk\\nis gone')\n"
        "if MPI.COMM_WORLD.Get_rank() == 1:\n"
        "    moments.reduce_pieces = broken\n"
    )
    with pytest.raises(ChildProcessError, match="rank 1 of 2: OSError: a disk is gone"):
        outcome_of(by_ranks(reduce_cell(2, {"warm": 1})), memory)


NOT_ON_RANK_1 = (
    "from hyperslab.measuring.pagecache import NotInState\n"
    "from hyperslab.measuring.residency import NodeCache\n"
    "from mpi4py import MPI\n"
    "fill = NodeCache.fill\n"
    "def told(self):\n"
    "    if MPI.COMM_WORLD.Get_rank() == 1:\n"
    "        raise NotInState('rank 1 cannot tell')\n"
    "    return fill(self)\n"
    "NodeCache.fill = told\n"
)


def test_a_state_that_one_rank_lacks_all_ranks_leave_out(
    memory: Path, program: Callable[[str], None]
) -> None:
    program(NOT_ON_RANK_1)
    outcome = outcome_of(parallel_cell("file-per-process", False, False), memory)
    assert outcome.skipped == {"warm": "rank 1 cannot tell"}
    assert [row["state"] for row in outcome.repeats] == ["write"] * 2 + ["library-cold"] * 2


def test_ranks_that_reduce_leave_out_a_state_together(memory: Path, program: Callable[[str], None]) -> None:
    # Rank 0 looks after the page cache of this node; rank 1 has none to ask.
    program(NOT_ON_RANK_1.replace("rank 1", "rank 0").replace("== 1", "== 0"))
    outcome = outcome_of(by_ranks(reduce_cell(2, {"cold": 2, "warm": 2})), memory)
    assert outcome.skipped == {"warm": "rank 0 cannot tell"}
    assert [row["state"] for row in outcome.repeats] == ["library-cold"] * 2


def test_a_file_that_opening_drops_from_memory_is_not_warm(
    disk: Path, program: Callable[[str], None]
) -> None:
    program(
        "from hyperslab.measuring.residency import NodeCache\n"
        "shares = [1.0, 0.5]\n"
        "NodeCache.fill = lambda _: shares.pop(0)\n"
    )
    outcome = outcome_of(parallel_cell("posix", False, False), disk, memory_resident=False)
    assert outcome.skipped["warm"] == "only 50.0% of the file fits in the page cache"


def test_no_launcher_drops_the_last_words_of_ranks(tmp_path: Path) -> None:
    program = tmp_path / "ranks.py"
    program.write_text(
        "from mpi4py import MPI\n"
        "from hyperslab.cases.mpi.communicator import give_up\n"
        "MPI.COMM_WORLD.Barrier()\n"
        "give_up(ValueError('that is why'))\n"
    )
    words = [*environment.resolved(["mpirun", "-n", "2"]), environment.python(), str(program)]
    ranks_here = {name: value for name, value in os.environ.items() if name != launch.NOT_HERE}
    # Ranks that abort at once lose them with MPICH in a quarter of all runs: six of them miss that in 18 %.
    for _ in range(6):
        done = subprocess.run(words, env=ranks_here, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode and "ValueError: that is why" in done.stderr


@pytest.mark.faults
@pytest.mark.parametrize(
    "goes_on",
    [
        'mpirun "$@"; exec sleep 600',
        'trap "" TERM; mpirun "$@"; exec sleep 600',
        'trap "" TERM; sleep 600 & echo $! > "$0.left"; mpirun "$@"; wait',
    ],
    ids=["ends when asked", "must be killed", "leaves a process with its pipes"],
)
def test_a_launcher_that_goes_on_after_a_rank_gave_up_is_ended(
    memory: Path,
    program: Callable[[str], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    goes_on: str,
) -> None:
    program(
        "from hyperslab.cases.reduce import moments\n"
        "def broken(*_):\n"
        "    raise OSError('a disk is gone')\n"
        "moments.reduce_pieces = broken\n"
    )
    monkeypatch.setattr(launch, "LOOK_SECONDS", 0.2)
    (mpirun,) = environment.resolved(["mpirun"])
    script = tmp_path / "launcher"
    script.write_text(goes_on.replace("mpirun", shlex.quote(mpirun)) + "\n")
    try:
        with pytest.raises(ChildProcessError, match=r"rank . of 2: OSError: a disk is gone"):
            outcome_of(by_ranks(reduce_cell(2, {"warm": 1})), memory, launcher=f"sh {script} -n 2")
    finally:
        for left in tmp_path.glob("launcher.left"):
            os.kill(int(left.read_text()), signal.SIGKILL)
    assert wait_until(lambda: not started_for(os.getpid()))


def test_where_ranks_cannot_be_had_the_reason_is_passed_on(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "missing", lambda: "there is no MPI here")
    with pytest.raises(formats.Unavailable, match="there is no MPI here"):
        outcome_of(by_ranks(reduce_cell(2, {"warm": 1})), memory)


def ranks_of(pid: int) -> list[int]:
    """The ranks among those below a process."""
    found = []
    for one in below(pid):
        try:
            words = Path(f"/proc/{one}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if str(launch.PROGRAM).encode() in words[1:2]:
            found.append(one)
    return found


def started_for(pid: int) -> list[int]:
    """The ranks of a measuring process, whoever their parent is by now."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            named = dict(zip(words, words[1:], strict=False)).get(b"--for-process", b"")
            if named.endswith(b":%d" % pid):
                found.append(int(entry.name))
    return found


# Whether the ranks are at work, or their interpreters have only just been started.
@pytest.mark.faults
@pytest.mark.parametrize(
    ("number", "seconds"),
    [
        *((signal.SIGKILL, seconds) for seconds in (0.0, 0.2, 1.0)),
        (signal.SIGTERM, 0.5),
    ],
)
def test_a_killed_measurement_leaves_no_rank(
    root: Path, tmp_path: Path, number: signal.Signals, seconds: float
) -> None:
    spec = by_ranks(reduce_cell(2, {"warm": 10**5}))
    (root / "a").mkdir()
    FORMAT.generate(str(root / "a" / "data.h5"), spec, values_of(spec))
    words = [*command(spec, root, tmp_path / "record.json"), "--launcher", "mpirun -n 2"]
    run = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        # Whoever ends the tests has not to wait for so many reductions.
        preexec_fn=partial(end_with_parent, os.getpid()),
    )  # fmt: skip
    try:
        assert wait_until(lambda: len(ranks_of(run.pid)) == 2)
        time.sleep(seconds)
        started = below(run.pid)
        run.send_signal(number)
        run.wait(60)
        assert wait_until(lambda: not any(map(alive, started)) and not started_for(run.pid))
    finally:
        run.kill()


@pytest.mark.faults
def test_a_killed_rank_fails_the_cell_with_one_line(root: Path, tmp_path: Path) -> None:
    spec = by_ranks(reduce_cell(2, {"warm": 10**5}))
    (root / "a").mkdir()
    FORMAT.generate(str(root / "a" / "data.h5"), spec, values_of(spec))
    words = [*command(spec, root, tmp_path / "record.json"), "--launcher", "mpirun -n 2"]
    run = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=partial(end_with_parent, os.getpid()),
    )  # fmt: skip
    try:
        assert wait_until(lambda: len(ranks_of(run.pid)) == 2)
        time.sleep(1)
        os.kill(ranks_of(run.pid)[0], signal.SIGKILL)
        _, said = run.communicate(timeout=60)
    finally:
        run.kill()
    assert run.returncode == 1
    (line,) = said.splitlines()
    assert "ChildProcessError: MPI ranks ended with status" in line
    assert not (root / "a").exists() and not (tmp_path / "record.json").exists()
