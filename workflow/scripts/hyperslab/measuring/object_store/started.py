"""Stores that a gateway starts for its cell: on loopback, for one user, ended with the gateway."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from botocore.credentials import Credentials

from hyperslab.measuring.object_store.signing import Refused
from hyperslab.measuring.parent import end_with_parent

VERSITYGW = "versitygw"
# Until a store answers, and between two looks.
PATIENCE_SECONDS, LOOK_SECONDS = 30.0, 0.02
Running = tuple[subprocess.Popen[str], int]


def _environment(**more: str) -> dict[str, str]:
    """Return the environment without the credentials that belong to other stores."""
    return {name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | more


def _moto(credentials: Credentials, _: Path) -> Running:
    """Start moto, which keeps its objects in its memory."""
    server = subprocess.Popen(
        [sys.executable, "-m", "hyperslab.measuring.object_store.moto_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=_environment(),
        preexec_fn=partial(end_with_parent, os.getpid()),
    )
    assert server.stdin is not None and server.stdout is not None
    with suppress(BrokenPipeError):
        # In no argument, which everybody may read.
        server.stdin.write(f"{credentials.access_key}\n")
        server.stdin.close()
    port = server.stdout.readline().strip()
    if not port:
        raise Refused("moto ended before it was ready")
    return server, int(port)


def _versitygw(credentials: Credentials, directory: Path) -> Running:
    """Start versitygw over a directory of files; raises Refused where it is not installed."""
    if (program := shutil.which(VERSITYGW)) is None:
        raise Refused(f"store.start: {VERSITYGW} is in no directory of PATH; install it, or take moto")
    (directory / "buckets").mkdir(parents=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    server = subprocess.Popen(
        [program, "--port", f"127.0.0.1:{port}", "--quiet", "posix", str(directory / "buckets")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        env=_environment(ROOT_ACCESS_KEY=credentials.access_key, ROOT_SECRET_KEY=credentials.secret_key),
        preexec_fn=partial(end_with_parent, os.getpid()),
    )
    deadline = time.monotonic() + PATIENCE_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), LOOK_SECONDS):
            return server, port
        time.sleep(LOOK_SECONDS)
    server.kill()
    server.wait()
    raise Refused(f"{VERSITYGW} did not come up")


STORES: dict[str, Callable[[Credentials, Path], Running]] = {"moto": _moto, VERSITYGW: _versitygw}


def start(name: str, credentials: Credentials, directory: Path) -> Running:
    """Start a store for a user; returns its process and port. `directory` is for its files, if it has any.

    Raises Refused where it cannot be had.
    """
    return STORES[name](credentials, directory)
