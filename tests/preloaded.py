"""Snakemake, forked for each run of a test by a process that has imported it: imports outlast a dry run.

A run has arguments, directory, environment and streams of its own, as one that is started has, and of the
project it finds nothing imported. Whoever sends a run signals starts one instead. Scripts of such a run are
forked, too, by a process that has imported what tables and figures are made with (forked_script.py asks it).
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
    "pandas", "pyarrow.parquet", "pydantic.main", "pydantic.types", "scipy.special", "scipy.stats",
    "snakemake.script", "yaml",
)  # fmt: skip
LONGEST_REQUEST = 2**20


class Parent:
    """The process that forks runs, one at a time; it ends with the process that started it."""

    def __init__(self) -> None:
        self._control, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # A name without a file (unix(7), abstract): nothing is left behind.
        name = f"hyperslab-tests-{secrets.token_hex(16)}"
        with there, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as scripts:
            scripts.bind(f"\0{name}")
            scripts.listen()
            _started("runs", there, name)
            # It ends when this end of its standard input is closed.
            self._life = _started("scripts", scripts, "").stdin

    def run(
        self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """What subprocess.run says of `snakemake …` with its output captured."""
        status = None
        request = json.dumps({"arguments": list(arguments), "cwd": str(cwd), "env": dict(env)}).encode()
        with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as complained:
            socket.send_fds(self._control, [request], [said.fileno(), complained.fileno()])
            pid = int(self._control.recv(64))
            self._control.settimeout(timeout)
            try:
                status = int(self._control.recv(64))
            except TimeoutError:
                raise subprocess.TimeoutExpired(list(arguments), timeout) from None
            finally:
                # Also where a test's own limit, or Ctrl-C, ends the waiting: no run outlives its test.
                if status is None:
                    os.killpg(pid, signal.SIGKILL)
            for stream in (said, complained):
                stream.seek(0)
            return subprocess.CompletedProcess(list(arguments), status, said.read(), complained.read())


def _started(what: str, at: socket.socket, scripts: str) -> subprocess.Popen[bytes]:
    """A process that forks runs or scripts for those who ask at this socket."""
    return subprocess.Popen(
        [sys.executable, __file__, what, str(at.fileno()), scripts],
        # What is forked should have one thread.
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        pass_fds=[at.fileno()],
    )


@functools.cache
def _parent(_: frozenset[tuple[str, str]]) -> Parent:
    return Parent()


def run(
    arguments: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """`python -m snakemake …` in a directory, until it ends, with its output captured.

    Raises subprocess.TimeoutExpired after so many seconds.
    """
    # An interpreter reads these when it starts.
    variables = frozenset(item for item in os.environ.items() if item[0].startswith("PYTHON"))
    try:
        return _parent(variables).run(arguments, cwd, env, timeout)
    except BaseException:
        # It is still to say how the run ended, which nobody may take for the next one's end.
        _parent.cache_clear()
        raise


def _serve_runs(control: socket.socket, scripts: str) -> None:
    """Fork a process for every request, in which this function returns; exit when nobody asks any more."""
    # Where this file lies, a run has not to look for modules.
    del sys.path[0]
    for module in MODULES:
        importlib.import_module(module)
    # Which plugins there are it looks for once.
    sys.modules["snakemake.cli"].get_argument_parser()
    gc.freeze()
    while True:
        request, streams, _, _ = socket.recv_fds(control, LONGEST_REQUEST, 2)
        if not request:
            sys.exit()
        if not (pid := os.fork()):
            control.close()
            asked = json.loads(request)
            _become(asked, [0, *streams])
            sys.path.insert(0, str(asked["cwd"]))
            sys.argv = ["snakemake", *asked["arguments"]]
            _fork_scripts(scripts)
            return
        for stream in streams:
            os.close(stream)
        # Its shells are killed with it.
        os.setpgid(pid, pid)
        with contextlib.suppress(BrokenPipeError):
            control.send(str(pid).encode())
            control.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())


def _fork_scripts(scripts: str) -> None:
    """Have Snakemake, which starts scripts with the interpreter that `sys` names, ask for them here."""
    module: Any = importlib.import_module("snakemake.script")
    client = Path(__file__).with_name("forked_script.py")
    module.sys = types.ModuleType("sys")
    module.sys.__dict__.update(sys.__dict__, executable=f"{sys.executable} -IS {client} {scripts}")


def _serve_scripts(listener: socket.socket) -> NoReturn:
    """Fork a process for every request, until the standard input of this one ends."""
    del sys.path[0]
    for module in OF_SCRIPTS:
        importlib.import_module(module)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        selector.register(listener, selectors.EVENT_READ)
        while all(key.fileobj is listener for key, _ in selector.select()):
            connection, _ = listener.accept()
            with connection:
                if not os.fork():
                    _attend(connection)
    os._exit(0)


def _attend(connection: socket.socket) -> NoReturn:
    """Fork the script that is asked for, say how it ended, and end it when nobody waits for it any more."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, streams, _, _ = socket.recv_fds(connection, LONGEST_REQUEST, 3)
    if not (pid := os.fork()):
        connection.close()
        asked = json.loads(request)
        _become(asked, streams)
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
        _serve_scripts(socket.socket(fileno=int(descriptor)))
    _serve_runs(socket.socket(fileno=int(descriptor)), scripts)
    runpy.run_module("snakemake", run_name="__main__", alter_sys=True)
