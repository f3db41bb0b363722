"""Snakemake, forked for each run of a test by a process that has imported it: imports outlast a dry run.

A run has arguments, directory, environment and streams of its own, as one that is started has, and of the
project it finds nothing imported. Whoever sends a run signals starts one instead.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# All that a dry run imports and that is none of the project's.
MODULES = ("snakemake.cli", "snakemake.report.html_reporter", "nbformat", "pydantic", "smart_open", "yaml")
LONGEST_REQUEST = 2**20


class Parent:
    """The process that forks runs, one at a time; it ends with the process that started it."""

    def __init__(self) -> None:
        self._control, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with there:
            subprocess.Popen(
                [sys.executable, __file__, str(there.fileno())],
                # What is forked should have one thread.
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                pass_fds=[there.fileno()],
            )

    def run(
        self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """What subprocess.run says of `snakemake …` with its output captured."""
        request = json.dumps({"arguments": list(arguments), "cwd": str(cwd), "env": dict(env)}).encode()
        with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as complained:
            socket.send_fds(self._control, [request], [said.fileno(), complained.fileno()])
            pid = int(self._control.recv(64))
            self._control.settimeout(timeout)
            try:
                status = int(self._control.recv(64))
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(list(arguments), timeout) from None
            for stream in (said, complained):
                stream.seek(0)
            return subprocess.CompletedProcess(list(arguments), status, said.read(), complained.read())


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
    except subprocess.TimeoutExpired:
        # It is still to say how the run ended, which nobody may take for the next one's end.
        _parent.cache_clear()
        raise


def _serve(control: socket.socket) -> None:
    """Fork a process for every request, in which this function returns; exit when nobody asks any more."""
    # Where this file lies, a run has not to look for modules.
    del sys.path[0]
    for module in MODULES:
        importlib.import_module(module)
    gc.freeze()
    while True:
        request, streams, _, _ = socket.recv_fds(control, LONGEST_REQUEST, 2)
        if not request:
            sys.exit()
        if not (pid := os.fork()):
            control.close()
            _become(json.loads(request), streams)
            return
        for stream in streams:
            os.close(stream)
        with contextlib.suppress(BrokenPipeError):
            control.send(str(pid).encode())
            control.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())


def _become(asked: Mapping[str, Any], streams: Sequence[int]) -> None:
    """Take on what was asked for: streams, directory, environment and arguments."""
    for number, stream in enumerate(streams, 1):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(str(asked["cwd"]))
    os.environ.clear()
    os.environ.update(asked["env"])
    tempfile.tempdir = None
    sys.path.insert(0, str(asked["cwd"]))
    sys.argv = ["snakemake", *asked["arguments"]]


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module("snakemake", run_name="__main__", alter_sys=True)
