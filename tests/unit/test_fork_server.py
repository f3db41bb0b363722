"""The fork server: a forked process is what `python -m` starts, belongs to its client, and ends with it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import forked_program
import pytest
from process_tree import alive

import run_forked
from hyperslab.measuring.fork_parent import Parent
from hyperslab.planning import confirmation

TESTS = Path(forked_program.__file__).parent
SCRIPTS = Path(run_forked.__file__).parent
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name != run_forked.VARIABLE},
    "PYTHONPATH": f"{SCRIPTS}{os.pathsep}{TESTS}",
}
LONGEST_S = 60.0


@contextlib.contextmanager
def a_run(**environment: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """A run with a server, and the environment of its jobs."""
    given = {**ENVIRONMENT, **environment}
    command = [sys.executable, "-m", "forked_program", "run"]
    with subprocess.Popen(
        command, env=given, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        yield process, {**given, run_forked.VARIABLE: process.stdout.readline().strip()}
        process.stdin.close()
        process.wait(LONGEST_S)


@pytest.fixture(scope="module")
def jobs() -> Iterator[dict[str, str]]:
    """The environment of jobs of one run that all tests share."""
    with a_run() as (_, environment):
        yield environment


@pytest.fixture(params=["forked", "started"])
def either(request: pytest.FixtureRequest, jobs: dict[str, str]) -> dict[str, str]:
    """An environment with a server, and one without."""
    return jobs if request.param == "forked" else ENVIRONMENT


def command(*arguments: str, module: str = "forked_program") -> list[str]:
    """The command of a job."""
    return [sys.executable, "-IS", run_forked.__file__, module, *arguments]


def run(environment: dict[str, str], *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a job to its end."""
    return subprocess.run(
        command(*arguments), env=environment, capture_output=True, text=True, timeout=LONGEST_S, **options
    )


def who(environment: dict[str, str]) -> tuple[int, int, str | None, int]:
    """A job's id, its parent's, whether it was forked, and how many used its memory, itself included."""
    found = json.loads(run(environment, "whoami").stdout)
    return found[0], found[1], found[2], found[3]


def wait_until(met: Callable[[], object]) -> None:
    """Return as soon as `met` is true; fail if it never is."""
    end = time.monotonic() + LONGEST_S
    while not met():
        assert time.monotonic() < end
        time.sleep(0.01)


@contextlib.contextmanager
def lingering(
    environment: dict[str, str], path: Path, seconds: float = LONGEST_S
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A client whose process keeps a file, and that process's id."""
    words = command("linger", str(path), str(seconds))
    with subprocess.Popen(words, env=environment, stderr=subprocess.PIPE) as client:
        wait_until(lambda: path.exists() and path.read_text())
        yield client, int(path.read_text())
        client.wait(LONGEST_S)


def test_a_process_is_given_all_that_its_client_has(either: dict[str, str], tmp_path: Path) -> None:
    words = ["", "a b", "line\nbreak", '{"é": "\'"}', "-m", "x" * 100_000]
    here = tmp_path / "räume frei"
    here.mkdir()
    log = here / "log"
    # As a rule has it: all output in one file.
    with log.open("w") as output:
        done = subprocess.run(
            command("tell", *words),
            env={**either, "TEST_WORD": "a=b\n", "TEST_EMPTY": ""},
            cwd=here, umask=0o027, input="from standard input", text=True,
            stdout=output, stderr=subprocess.STDOUT, timeout=LONGEST_S,
        )  # fmt: skip
    assert done.returncode == 0
    printed = sorted(log.read_text(encoding="utf-8").splitlines())
    assert printed[0] == "and this is an error"
    told = json.loads(printed[1])
    assert told == {
        "words": words,
        "directory": str(here),
        "umask": 0o027,
        "input": "from standard input",
        "environment": {"TEST_WORD": "a=b\n", "TEST_EMPTY": ""},
        "threads": 1,
        # The fourth lists the others.
        "descriptors": [0, 1, 2, 3],
        "main": forked_program.__file__,
        "program": forked_program.__file__,
        "ignored": [signal.SIGPIPE, signal.SIGXFSZ],
        "blocked": [],
    }


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ("", 0, ""),
        ("3", 3, ""),
        ("256", 0, ""),
        ("a line that says why", 1, "a line that says why\n"),
        ("exception", 1, "KeyError: 'no such thing'\n"),
        (f"signal {signal.SIGKILL}", 128 + signal.SIGKILL, ""),
        (f"signal {signal.SIGSEGV}", 128 + signal.SIGSEGV, ""),
    ],
)
def test_a_client_ends_as_its_process_did(either: dict[str, str], how: str, code: int, said: str) -> None:
    done = run(either, "end", how)
    # A shell says 128 and the number of a process that a signal ended, Python its negative.
    assert done.returncode % 256 in (code, -(code - 128) % 256)
    assert done.stderr.endswith(said)
    assert bool(done.stderr) == bool(said)


def test_each_process_is_a_new_one_and_knows_nothing_of_others(jobs: dict[str, str]) -> None:
    first, second = who(jobs), who(jobs)
    assert first[0] != second[0]
    assert first[1] == second[1]
    assert first[2:] == second[2:] == ("1", 1)
    assert who(ENVIRONMENT)[2] is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_client_reaches_the_process_which_ends_first(
    either: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    with lingering(either, tmp_path / "file") as (client, process):
        client.send_signal(number)
        client.wait(LONGEST_S)
        assert not (tmp_path / "file").exists()
        assert not alive(process)
    assert client.returncode == 128 + number


# A signal reaches a client in C, as it may just before `recv` waits: no handler in Python runs there.
REACHED_IN_C = """
import ctypes, os, signal, socket, sys, threading
import run_forked

client, server = socket.socketpair()
in_c = []

class Client:
    def __getattr__(self, name):
        return getattr(client, name)

    def recv(self, count):
        in_c.append(True)
        ctypes.CDLL(None).system(b"kill -TERM $PPID; sleep 2")
        in_c.clear()
        return client.recv(count)

def serve():
    content, *_ = socket.recv_fds(server, 64, 4)
    number = server.recv(1)
    server.sendall(b"%d\\n" % (number[0] if in_c else 0))

threading.Thread(target=serve).start()
print(int(run_forked.answer_of(Client(), b"what the server is told")))
"""


def test_a_signal_is_passed_on_where_no_handler_in_python_could_run() -> None:
    command = [sys.executable, "-c", REACHED_IN_C]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=LONGEST_S)
    assert done.stdout == f"{signal.SIGTERM:d}\n", done.stderr


def test_a_process_does_not_outlive_its_client(jobs: dict[str, str], tmp_path: Path) -> None:
    with lingering(jobs, tmp_path / "file") as (client, process):
        client.kill()
        wait_until(lambda: not alive(process))
        assert not (tmp_path / "file").exists()
    # Nor does the server suffer.
    assert who(jobs)[2] == "1"


def test_a_process_does_not_outlive_its_parent_and_the_client_says_why(tmp_path: Path) -> None:
    with a_run() as (_, jobs):
        parent = who(jobs)[1]
        with lingering(jobs, tmp_path / "file") as (client, process):
            os.kill(parent, signal.SIGKILL)
            wait_until(lambda: not alive(process))
            assert not (tmp_path / "file").exists()
            assert client.stderr is not None
            assert client.stderr.read() == b"forked_program: the server that forks processes has ended\n"
        assert client.returncode == 1
        # The next job has another parent.
        assert who(jobs)[1:] == (who(jobs)[1], "1", 1)
        assert who(jobs)[1] != parent


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_server_ends_with_its_run_and_lets_processes_finish(
    tmp_path: Path, number: signal.Signals
) -> None:
    with a_run() as (process, jobs):
        parent = who(jobs)[1]
        server = int(Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[1])
        with lingering(jobs, tmp_path / "file", 1.0) as (client, _):
            # A scheduler tells all processes to end; a run that goes on with its cell has it finished.
            for one in (server, parent):
                os.kill(one, signal.SIGTERM)
            process.send_signal(number)
            process.wait(LONGEST_S)
            assert client.wait(LONGEST_S) == 0
        wait_until(lambda: not alive(server) and not alive(parent))
        # Its name leads nowhere, so a job starts its process by itself.
        assert who(jobs)[2] is None


def test_runs_side_by_side_have_servers_of_their_own(jobs: dict[str, str]) -> None:
    with a_run() as (_, others):
        assert others[run_forked.VARIABLE] != jobs[run_forked.VARIABLE]
        assert who(others)[1] != who(jobs)[1]
    assert who(jobs)[2] == "1"


def test_a_parent_serves_one_environment(jobs: dict[str, str]) -> None:
    mine = who(jobs)[1]
    assert who({**jobs, "PWD": "/elsewhere", "SHLVL": "7"})[1] == mine
    assert who({**jobs, "AWS_SECRET_ACCESS_KEY": "secret"})[1] == mine
    assert who({**jobs, confirmation.RUN_VARIABLE: "what a run inside is told"})[1] == mine
    assert who({**jobs, "OMP_NUM_THREADS": "3"})[1] != mine
    # Those that rest longest go when there are many.
    kinds = [{**jobs, "TEST_KIND": str(number)} for number in range(8)]
    parents = [who(kind)[1] for kind in kinds]
    assert len(set(parents)) == len(kinds)
    wait_until(lambda: not alive(parents[0]))
    assert alive(parents[-1])


@pytest.mark.parametrize("prepared", ["fails", "starts a thread"])
def test_where_nothing_can_be_forked_the_client_starts_its_process(
    jobs: dict[str, str], prepared: str
) -> None:
    assert who({**jobs, "TEST_PREPARE": prepared})[2:] == (None, 1)


def test_where_no_process_can_be_had_for_a_moment_the_parent_goes_on(jobs: dict[str, str]) -> None:
    scarce = {**jobs, "TEST_PREPARE": "cannot fork once"}
    assert who(scarce)[2:] == (None, 1)
    assert who(scarce)[2:] == ("1", 1)


def test_what_comes_of_a_client_whose_process_has_just_ended_does_no_harm() -> None:
    mine, theirs = socket.socketpair()
    with mine, theirs:
        Parent(theirs, "none")._signalled(os.getpid())


@pytest.mark.parametrize("message", [b"\x0f7\n", b"7", b"x\n"])
def test_a_message_that_is_none_does_no_harm(jobs: dict[str, str], message: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(f"\0{jobs[run_forked.VARIABLE]}")
        here = os.open("/", os.O_RDONLY)
        socket.send_fds(client, [message], [0, 1, 2, here])
        os.close(here)
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
    assert who(jobs)[2] == "1"


def test_a_module_that_the_server_does_not_know_is_started(jobs: dict[str, str]) -> None:
    done = subprocess.run(
        command("-h", module="this"), env=jobs, capture_output=True, text=True, timeout=LONGEST_S
    )
    assert done.stdout.startswith("The Zen of Python")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_server_of_another_user_is_not_asked() -> None:
    name = f"hyperslab-test-{os.getpid()}"
    # The kernel notes who listens, so another user's Python is not needed.
    listen = f"""
import os, socket
listener = socket.socket(socket.AF_UNIX)
listener.bind("\\0{name}")
os.setresuid(65534, 65534, 65534)
listener.listen()
print("ready", flush=True)
connection, _ = listener.accept()
print(connection.recv(1), flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", listen], stdout=subprocess.PIPE, text=True) as impostor:
        assert impostor.stdout is not None
        assert impostor.stdout.readline() == "ready\n"
        assert who({**ENVIRONMENT, run_forked.VARIABLE: name})[2] is None
        assert impostor.stdout.read() == "b''\n"


def test_what_is_timed_has_memory_of_its_own(jobs: dict[str, str]) -> None:
    faults = int(run(jobs, "write").stdout)
    shared = int(run({**jobs, "TEST_TIMED": "another"}, "write").stdout)
    assert shared >= forked_program.PAGES
    assert faults < forked_program.PAGES / 100


def test_each_process_gets_its_memory_at_other_addresses(either: dict[str, str]) -> None:
    heap, mapped = zip(*(json.loads(run(either, "places").stdout) for _ in range(3)), strict=True)
    assert len(set(heap)) > 1
    assert len(set(mapped)) > 1
