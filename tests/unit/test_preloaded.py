"""A run whose waiting was broken off ends, and the next one is told its own end and no other's."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import NoReturn

import preloaded
import pytest
from process_tree import alive

SLOW = "rule slow:\n    shell: 'echo $$ >pid.part; mv pid.part pid; sleep 600'\n"


class BrokenOff(Exception):
    """What a limit on a test raises wherever the test is."""


def test_a_run_that_was_broken_off_ends_and_says_nothing_to_the_next(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(SLOW, encoding="utf-8")

    def break_off(*_: object) -> NoReturn:
        raise BrokenOff

    def ask() -> None:
        while not (tmp_path / "pid").exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, break_off)
    asking = threading.Thread(target=ask, daemon=True)
    try:
        asking.start()
        with pytest.raises(BrokenOff):
            preloaded.run(("--cores", "1"), tmp_path, os.environ, 300.0)
    finally:
        asking.join(300.0)
        signal.signal(signal.SIGUSR1, before)
    shell = int((tmp_path / "pid").read_text())
    while alive(shell):
        time.sleep(0.05)
    (tmp_path / "Snakefile").write_text("print('this one')\n", encoding="utf-8")
    for word, code in (("--no-such-option", 2), ("--dry-run", 0)):
        done = preloaded.run((word,), tmp_path, os.environ, 300.0)
        assert done.returncode == code
    assert "this one" in done.stdout + done.stderr


# A Snakefile that says whether what scripts import is there, after one that it starts itself has said so.
NESTED = """
import os, subprocess, sys
if "INSIDE" not in os.environ:
    command = [sys.executable, "-m", "snakemake", "--dry-run"]
    subprocess.run(command, env={**os.environ, "INSIDE": "1"}, check=True)
print("drawing:", "matplotlib.figure" in sys.modules, flush=True)
"""


def test_a_run_that_another_starts_is_forked_as_scripts_are_and_ends_as_it_does(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(NESTED, encoding="utf-8")
    done = preloaded.run(("--dry-run",), tmp_path, os.environ, 300.0)
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stdout.splitlines() if line.startswith("drawing: ")]
    assert said == ["drawing: True", "drawing: False"]
    failing = NESTED.replace("--dry-run", "--no-such-option")
    (tmp_path / "Snakefile").write_text(failing, encoding="utf-8")
    assert preloaded.run(("--dry-run",), tmp_path, os.environ, 300.0).returncode == 1


def test_any_number_of_files_may_be_open() -> None:
    """select() takes none of those from 1,024 on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        told, parent = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with told, parent, socket.socket(fileno=fcntl.fcntl(told, fcntl.F_DUPFD_CLOEXEC, 1024)) as high:
            parent.send(b"1")
            run = preloaded.Run((), high)
            with pytest.raises(subprocess.TimeoutExpired):
                run.wait(0.01)
            parent.send(b"3")
            assert (run.pid, run.wait(300.0)) == (1, 3)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
