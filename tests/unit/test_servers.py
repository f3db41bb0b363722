"""Servers of cells: private, proven up, started anew, and gone with their cell however that ends."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from little_server import artifact
from process_tree import age, alive
from samples import file_specification, prepared, read_cell
from test_workers import wait_until

import hyperslab
from hyperslab.cases.durable import repeated_writes
from hyperslab.cases.reduce import case
from hyperslab.formats.hdf5.array import FORMAT
from hyperslab.generate import generate
from hyperslab.measure import measure
from hyperslab.measuring import locks, residency, servers, supervise
from hyperslab.measuring.artifact import end_servers
from hyperslab.measuring.counters import Counters, between, of_servers
from hyperslab.measuring.machine import largest_memory_bytes
from hyperslab.measuring.pagecache import NotInState
from hyperslab.measuring.servers import ServerError, connection_of, private_directory
from hyperslab.measuring.supervise import below
from hyperslab.measuring.throttling import Limiter
from hyperslab.sites.mounts import Mount

SECONDS = 60


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Any]:
    """A running server of data that lie in a directory of their own."""
    one = artifact()(tmp_path / "cell" / "data.little")
    one.directory.mkdir()
    one.start({})
    yield one
    one.stop()


def test_a_server_has_a_place_that_nobody_else_can_enter(started: Any) -> None:
    connection = connection_of(str(started.data))
    directory = Path(connection.directory)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE((directory / servers.CONNECTION).stat().st_mode) == 0o600
    assert len(connection.password) == 32 and connection.password not in repr(connection)
    assert len(started.processes()) == 2 and all(map(alive, started.processes()))
    for process in (os.getpid(), *below(os.getpid())):
        for name in ("cmdline", "environ"):
            assert connection.password.encode() not in Path(f"/proc/{process}/{name}").read_bytes()
    # Beside the data lies where it is, not what it is.
    assert started.files() == []
    assert connection.password not in (started.directory / servers.PLACE).read_text()


def test_a_server_that_starts_anew_is_another_one(started: Any) -> None:
    before, password = started.processes(), connection_of(str(started.data)).password
    started.restart()
    after = started.processes()
    assert len(after) == 2 and not set(before) & set(after)
    assert not any(map(alive, before))
    assert connection_of(str(started.data)).password != password


@pytest.mark.parametrize(("repeats", "starts"), [({"cold": 2}, 2), ({"warm": 1, "session": 1}, 2)], ids=str)
def test_no_server_is_started_that_would_be_started_anew_before_anybody_asks_it(
    memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repeats: dict[str, int], starts: int
) -> None:
    monkeypatch.setenv(locks.VARIABLE, str(tmp_path))
    spec = read_cell(file_specification((8, 10, 200)), (5, 5, 100), repeats)
    little, begun = artifact(), list[Any]()
    start = little.start

    def counted(self: Any, layout: Any) -> None:
        begun.append(self)
        start(self, layout)

    with prepared(memory) as root:
        cell = root / "study" / "layout" / "box.r0"
        generate(spec, cell, None)
        # It stands beside a file that the cell reads by itself.
        monkeypatch.setattr(little, "start", counted)
        monkeypatch.setattr(FORMAT, "artifact", little)
        record = measure(spec, cell, None)
    assert len(begun) == starts and record["skipped"] == {}
    assert len(record["repeats"]) == 2 and all(row["server_memory_bytes"] for row in record["repeats"])


def test_a_state_that_cannot_be_had_leaves_a_server_that_can_be_asked_of_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(residency, "mount_of", lambda _: Mount("/", "ecryptfs", "/home/.me", "rw"))
    one = artifact()(tmp_path / "cell" / "data.little")
    one.data.mkdir(parents=True)
    (one.data / "piece").write_bytes(b"content")
    one.start_for_case({}, ["cold"])
    cache = residency.NodeCache(one, memory_resident=False)
    try:
        assert one.processes() == ()
        with pytest.raises(NotInState, match="^files below ecryptfs"):
            cache.evicted()
        assert len(one.processes()) == 2
    finally:
        cache.close()
        one.stop()


def test_what_is_cleared_is_served_again_without_data(started: Any) -> None:
    (started.data / "piece").write_bytes(b"content")
    before = started.processes()
    started.clear()
    assert started.files() == [] and started.data.is_dir()
    assert set(started.processes()).isdisjoint(before)


def test_what_is_written_waits_for_no_server_but_the_one_after_clearing(tmp_path: Path) -> None:
    one = artifact()(tmp_path / "cell" / "data.little")
    one.directory.mkdir()
    try:
        one.start_for_case({}, ["write"])
        assert one.processes() == ()
        one.clear()
        assert len(one.processes()) == 2
    finally:
        one.stop()


def test_beside_a_plain_write_no_server_runs(tmp_path: Path) -> None:
    one, running = artifact()(tmp_path / "cell" / "data.little"), list[tuple[str, int]]()
    one.directory.mkdir()
    context: Any = SimpleNamespace(artifact=one, limiter=Limiter(), specification={"repeats": {"write": 2}})

    def noted(what: str) -> Any:
        running.append((what, len(one.processes())))
        return {} if what == "write" else 0.0

    try:
        one.start_for_case({}, ["write"])
        repeated_writes(context, {}, lambda: noted("plain"), lambda: noted("write"))
        assert running == [("plain", 0), ("write", 2), ("plain", 0), ("plain", 0), ("write", 2)]
    finally:
        one.stop()


def test_a_plain_read_beside_a_reduction_asks_no_server(
    started: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (started.data / "piece").write_bytes(b"content")
    context: Any = SimpleNamespace(artifact=started, memory_resident=True)
    before = started.processes()
    assert case._plain(context)["plain_read_s"] > 0
    assert started.processes() == before
    # Where the state cannot be had, who reports of the data asks a server that has waited until then.
    monkeypatch.setattr(residency, "mount_of", lambda _: Mount("/", "ecryptfs", "/home/.me", "rw"))
    with pytest.raises(NotInState):
        case._plain(context)
    assert len(started.processes()) == 2 and started.processes() != before


def test_what_is_removed_at_last_is_served_no_more(started: Any) -> None:
    before = started.processes()
    started.remove()
    assert before and not any(map(alive, before))
    assert started.processes() == () and not started.data.exists()


def test_a_server_that_was_stopped_leaves_nothing(started: Any) -> None:
    connection, processes = connection_of(str(started.data)), started.processes()
    started.stop()
    started.stop()
    assert not any(map(alive, processes)) and not Path(connection.directory).exists()
    assert started.processes() == () and started.memory_bytes() == 0
    with pytest.raises(ServerError, match="no server of .* is there"):
        connection_of(str(started.data))
    # Nothing to start anew, nor for the first time.
    started.start_for_case({}, ["cold"])
    started.stop()
    started.restart()
    assert started.processes() == () and started._end not in end_servers


def test_its_processes_count(started: Any) -> None:
    # It may still be done with whoever looked whether it is up, and take memory for that.
    assert wait_until(
        lambda: started.memory_bytes() == sum(map(largest_memory_bytes, started.processes())) > 2**20
    )
    assert largest_memory_bytes(2**22 + 1) == 0
    counters = Counters()
    assert of_servers(counters.read(), counters.read()) == {}
    counters.follow(started.processes())
    before = counters.read()
    assert len(before) == 3
    after = counters.read()
    assert of_servers(before, after)["server_requested_bytes"] == 0
    assert between(before, after)["requested_bytes"] == 0
    started.restart()
    counters.follow(started.processes())
    assert len(counters.read()) == 3 and b"rchar" in counters.read()[2]


def test_a_server_of_which_a_process_ends_is_ended_whole(started: Any, monkeypatch: Any) -> None:
    connection, processes = connection_of(str(started.data)), started.processes()
    # So long that it is no passing helper.
    assert wait_until(lambda: all(age(process) > 3 for process in processes))
    os.kill(processes[-1], signal.SIGKILL)
    assert wait_until(lambda: not any(map(alive, processes)))
    assert wait_until(connection.ended)
    assert Path(connection.directory).exists()


def test_the_password_goes_with_the_cell_where_what_watches_over_its_server_was_killed(started: Any) -> None:
    directory, processes = Path(connection_of(str(started.data)).directory), started.processes()
    os.kill(started._supervisor.pid, signal.SIGKILL)
    try:
        started.stop()
        assert not directory.exists() and started.processes() == ()
    finally:
        # A daemon, which ends with nobody, is no server of a format.
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def test_a_server_that_does_not_come_up_is_one_line_with_its_last_words(tmp_path: Path) -> None:
    one = artifact("no such\nthing as {password} here")(tmp_path / "data.little")
    before = below(os.getpid())
    with pytest.raises(ServerError) as error:
        one.start({})
    (line,) = str(error.value).splitlines()
    assert line == "the little server ended before it was up; it last said: thing as … here"
    assert below(os.getpid()) == before and one.processes() == ()
    assert list(tmp_path.iterdir()) == [tmp_path / "data.little"]


def test_a_path_that_is_too_long_for_a_socket_is_left_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 80)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    directory = private_directory()
    assert not directory.is_relative_to(long) and len(str(directory)) <= servers.LONGEST_DIRECTORY
    directory.rmdir()


# It closes what it holds, which an interpreter without close_range(2) does number by number up to the limit.
WATCHED = """
import os, sys
sys.path.insert(0, sys.argv.pop(1))
import supervise

def never(*_):
    sys.exit("up to a milliard numbers are tried")

os.closerange = never
supervise.main()
"""


def test_who_watches_over_a_server_tries_no_descriptor_that_is_not_open(tmp_path: Path) -> None:
    life, mine = os.pipe()
    held, other = os.pipe()
    (tmp_path / "own").mkdir()
    words = [sys.executable, "-c", WATCHED, str(Path(supervise.__file__).parent), str(life)]
    server = [sys.executable, "-c", "import time; time.sleep(600)"]
    watching = subprocess.Popen([*words, str(tmp_path / "own"), *server], pass_fds=[life, other])
    try:
        for descriptor in (life, other):
            os.close(descriptor)
        assert wait_until(lambda: len(below(watching.pid)) == 1)
        links = f"/proc/{watching.pid}/fd"
        assert wait_until(lambda: set(os.listdir(links)) == {"0", "1", "2", str(life)})
        os.close(mine)
        assert watching.wait(SECONDS) == 0 and not (tmp_path / "own").exists()
    finally:
        watching.kill()
        watching.wait()
        os.close(held)


CELL = """
import sys, time
from pathlib import Path
from little_server import artifact
from hyperslab.measuring.artifact import stop_cleanly
from hyperslab.measuring.servers import connection_of
cell = Path(sys.argv[1])
one = artifact()(cell / "data.little")
stop_cleanly(cell)
one.start({})
print(connection_of(str(one.data)).directory, *one.processes(), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_ends_with_its_cell(tmp_path: Path, how: signal.Signals) -> None:
    (tmp_path / ".hyperslab-root").touch()
    cell = tmp_path / "study" / "layout" / "case.r0"
    cell.mkdir(parents=True)
    places = (Path(__file__).parents[1], Path(hyperslab.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-c", CELL, str(cell)], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        directory, *numbers = process.stdout.readline().split()
        assert len(numbers) == 2 and all(alive(int(number)) for number in numbers)
        process.send_signal(how)
        assert process.wait(SECONDS) == (-how if how == signal.SIGKILL else 128 + how)
        assert wait_until(lambda: not any(alive(int(number)) for number in numbers))
        assert wait_until(lambda: not Path(directory).exists())
        # Where the cell could, it has removed its data, and nothing has come back.
        assert cell.exists() == (how == signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
