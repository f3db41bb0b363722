"""Snakemake, forked for each run of a test by a process that has imported it: imports outlast a dry run.

A run has arguments, directory, environment, streams and a process group of its own, as one that a shell
starts has, and of the project it finds nothing imported. Scripts of such a run are forked, too, by a process
that has imported what tables and figures are made with (forked_script.py asks it), and so is a Snakemake that
a run starts to make pages after a failure.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import secrets
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

# All that a dry run imports and that is none of the project's.
MODULES = (
    "snakemake.cli", "snakemake.report.html_reporter", "snakemake.storage", "nbformat", "pydantic.main",
    "pydantic.types", "smart_open", "yaml",
)  # fmt: skip
# All that scripts import and that is none of the project's.
OF_SCRIPTS = (
    "jinja2", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg", "matplotlib.figure",
    "pandas", "pyarrow.dataset", "pyarrow.parquet", "pydantic.main", "pydantic.types", "scipy.special",
    "scipy.stats", "seaborn", "snakemake.script", "yaml",
)  # fmt: skip
LONGEST_REQUEST = 2**20
# Names the process that all workers ask for runs.
SHARED = "HYPERSLAB_TESTS_FORK"
# When to search for garbage: what tests make is seldom any, and searches take a tenth of their time.
SELDOM = (50_000, 10, 10)


class Run:
    """A run that goes on, with what is asked of a subprocess.Popen."""

    def __init__(self, arguments: Sequence[str], told: socket.socket) -> None:
        self.pid = int(told.recv(64))
        # As of a Popen: an integer for whoever has waited.
        self.returncode: int | Any = None
        self._arguments, self._told = arguments, told

    def poll(self) -> int | None:
        """How it ended, as subprocess has it; None where it goes on."""
        with contextlib.suppress(BlockingIOError):
            # It stays there: several threads may ask.
            self.returncode = int(self._told.recv(64, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """How it ended, once it has; raises subprocess.TimeoutExpired after so many seconds."""
        # Unlike select() it takes descriptors of any number.
        waiting = select.poll()
        waiting.register(self._told, select.POLLIN)
        waiting.poll(None if timeout is None else timeout * 1000)
        if (status := self.poll()) is None:
            raise subprocess.TimeoutExpired(self._arguments, timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Have it end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it, and it alone."""
        self.send_signal(signal.SIGKILL)


class Parent:
    """The process that forks runs, and the one that forks their scripts; they end with who started them."""

    def __init__(self) -> None:
        # Names without a file (unix(7), abstract): nothing is left behind.
        self.name, scripts = (f"hyperslab-tests-{secrets.token_hex(16)}" for _ in range(2))
        # Each ends when this end of its standard input is closed.
        self._lives = [
            _started(what, name, scripts).stdin for what, name in (("runs", self.name), ("scripts", scripts))
        ]


def _started(what: str, name: str, scripts: str) -> subprocess.Popen[bytes]:
    """A process that forks runs or scripts for those who ask at the socket of this name."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        return subprocess.Popen(
            [sys.executable, __file__, what, str(listener.fileno()), scripts],
            # What is forked should have one thread.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
        )


def _variables() -> frozenset[tuple[str, str]]:
    """The variables that an interpreter reads when it starts."""
    return frozenset(item for item in os.environ.items() if item[0].startswith("PYTHON"))


AT_FIRST = _variables()


@functools.cache
def _parent(_: frozenset[tuple[str, str]]) -> Parent:
    return Parent()


def share() -> None:
    """Have all processes that this one starts from now on ask the same one for their runs.

    It imports nothing before somebody asks, and ends with this process.
    """
    os.environ[SHARED] = _parent(_variables()).name


def _name() -> str:
    """Where runs are asked for."""
    if SHARED in os.environ and _variables() == AT_FIRST:
        return os.environ[SHARED]
    return _parent(_variables()).name


def begin(arguments: Sequence[str], cwd: Path, env: Mapping[str, str], said: int, complained: int) -> Run:
    """`python -m snakemake …` in a directory, which prints to these descriptors."""
    request = json.dumps({"arguments": list(arguments), "cwd": str(cwd), "env": dict(env)}).encode()
    mine, told = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with told, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
        asking.connect(f"\0{_name()}")
        socket.send_fds(asking, [request], [said, complained, told.fileno()])
    return Run(arguments, mine)


def run(
    arguments: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """Such a run, until it ends, with its output captured.

    Raises subprocess.TimeoutExpired after so many seconds.
    """
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as complained:
        process = begin(arguments, cwd, env, said.fileno(), complained.fileno())
        try:
            status = process.wait(timeout)
        finally:
            # Also where a test's own limit, or Ctrl-C, ends the waiting: no run outlives its test.
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
        for stream in (said, complained):
            stream.seek(0)
        return subprocess.CompletedProcess(list(arguments), status, said.read(), complained.read())


def _await_the_first(listener: socket.socket) -> None:
    """Return when somebody asks; exit when nobody can any more."""
    if listener.fileno() not in select.select([0, listener.fileno()], [], [])[0]:
        sys.exit()


def _serve_runs(listener: socket.socket, scripts: str) -> None:
    """Fork a process for every request, in which this function returns, until the standard input ends."""
    _await_the_first(listener)
    # Where this file lies, a run has not to look for modules.
    del sys.path[0]
    for module in MODULES:
        importlib.import_module(module)
    # Which plugins there are it looks for once.
    sys.modules["snakemake.cli"].get_argument_parser()
    gc.freeze()
    gc.set_threshold(*SELDOM)
    # A descriptor of each run's process -> its number, and where to say how it ended.
    runs: dict[int, tuple[int, socket.socket]] = {}
    selector = selectors.DefaultSelector()
    selector.register(0, selectors.EVENT_READ)
    selector.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fd in runs:
                selector.unregister(key.fd)
                os.close(key.fd)
                _tell_end(*runs.pop(key.fd))
                continue
            if key.fileobj is not listener:
                sys.exit()
            connection, _ = listener.accept()
            with connection:
                request, descriptors, _, _ = socket.recv_fds(connection, LONGEST_REQUEST, 3)
            if not request:
                # Who was to ask has been killed.
                continue
            *streams, last = descriptors
            asking = socket.socket(fileno=last)
            if not (pid := os.fork()):
                listener.close()
                asking.close()
                selector.close()
                for descriptor, (_, other) in runs.items():
                    os.close(descriptor)
                    other.close()
                _become_run(json.loads(request), streams, scripts)
                return
            for stream in streams:
                os.close(stream)
            # Its shells are killed with it.
            os.setpgid(pid, pid)
            try:
                asking.send(str(pid).encode())
            except BrokenPipeError:
                # A limit on a test has broken that off, too.
                os.killpg(pid, signal.SIGKILL)
            ended = os.pidfd_open(pid)
            runs[ended] = (pid, asking)
            selector.register(ended, selectors.EVENT_READ)


def _tell_end(pid: int, asking: socket.socket) -> None:
    """Say how a run that has ended did, if anybody still wants to know."""
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with asking, contextlib.suppress(BrokenPipeError):
        asking.send(str(status).encode())


def _become_run(asked: Mapping[str, Any], streams: Sequence[int], scripts: str) -> None:
    """Take on what a run was asked for."""
    _become(asked, [os.open(os.devnull, os.O_RDONLY), *streams])
    # Whoever runs the tests in the background may have them ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.path.insert(0, str(asked["cwd"]))
    sys.argv = ["snakemake", *asked["arguments"]]
    _fork_scripts(scripts)
    _fork_pages(scripts)


def _fork_scripts(scripts: str) -> None:
    """Have Snakemake, which starts scripts with the interpreter that `sys` names, ask for them here."""
    module: Any = importlib.import_module("snakemake.script")
    client = Path(__file__).with_name("forked_script.py")
    module.sys = types.ModuleType("sys")
    module.sys.__dict__.update(sys.__dict__, executable=f"{sys.executable} -IS {client} {scripts}")


def _fork_pages(scripts: str) -> None:
    """Have a Snakemake that this one starts, for pages after a failure, ask for its process as scripts do."""
    module: Any = subprocess
    run, client = subprocess.run, str(Path(__file__).with_name("forked_script.py"))

    def forked(args: Any, *more: Any, **options: Any) -> Any:
        if isinstance(args, list) and args[1:3] == ["-m", "snakemake"]:
            args = [args[0], "-IS", client, scripts, *args[1:]]
        return run(args, *more, **options)

    module.run = forked


def _serve_scripts(listener: socket.socket, scripts: str) -> NoReturn:
    """Fork a process for every request, until the standard input of this one ends."""
    _await_the_first(listener)
    del sys.path[0]
    for module in OF_SCRIPTS:
        importlib.import_module(module)
    gc.freeze()
    gc.set_threshold(*SELDOM)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        selector.register(listener, selectors.EVENT_READ)
        while all(key.fileobj is listener for key, _ in selector.select()):
            connection, _ = listener.accept()
            with connection:
                if not os.fork():
                    _attend(connection, scripts)
    os._exit(0)


def _attend(connection: socket.socket, scripts: str) -> NoReturn:
    """Fork the script that is asked for, say how it ended, and end it when nobody waits for it any more."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, streams, _, _ = socket.recv_fds(connection, LONGEST_REQUEST, 3)
    if not (pid := os.fork()):
        connection.close()
        asked = json.loads(request)
        _become(asked, streams)
        if asked["arguments"][0] == "-m":
            _run_snakemake(asked, scripts)
        _run_script(asked["arguments"][0])
    ended = os.pidfd_open(pid)
    with selectors.DefaultSelector() as selector:
        selector.register(ended, selectors.EVENT_READ)
        selector.register(connection, selectors.EVENT_READ)
        if any(key.fileobj is connection for key, _ in selector.select()):
            os.kill(pid, signal.SIGTERM)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(OSError):
        connection.send(str(status).encode())
    os._exit(0)


def _run_snakemake(asked: Mapping[str, Any], scripts: str) -> NoReturn:
    """Run `-m snakemake …` as an interpreter does, and end as one."""
    sys.path.insert(0, str(asked["cwd"]))
    sys.argv = asked["arguments"][1:]
    _fork_scripts(scripts)
    runpy.run_module("snakemake", run_name="__main__", alter_sys=True)
    sys.exit()


def _run_script(script: str) -> NoReturn:
    """Run a file as an interpreter does, and end as one."""
    sys.path.insert(0, str(Path(script).parent))
    sys.argv = [script]
    code: Any = 1
    try:
        runpy.run_path(script, run_name="__main__")
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:  # noqa: BLE001
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _become(asked: Mapping[str, Any], streams: Sequence[int]) -> None:
    """Take on what was asked for: standard streams, directory and environment."""
    for number, stream in enumerate(streams):
        if stream != number:
            os.dup2(stream, number)
            os.close(stream)
    os.chdir(str(asked["cwd"]))
    os.environ.clear()
    os.environ.update(asked["env"])
    tempfile.tempdir = None


if __name__ == "__main__":
    _, what, descriptor, scripts = sys.argv
    if what == "scripts":
        _serve_scripts(socket.socket(fileno=int(descriptor)), scripts)
    _serve_runs(socket.socket(fileno=int(descriptor)), scripts)
    runpy.run_module("snakemake", run_name="__main__", alter_sys=True)
