"""A Dask cluster of one cell: its scheduler in this process, workers proven up, and all ended with the cell.

Connections are encrypted, and nobody joins without the key that this process made. Workers have it from their
environment; it is in no command line, and in no file that stays.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import dask
from distributed import Client, LocalCluster, wait
from distributed.security import Security

import hyperslab
from hyperslab.measuring.machine import node_name
from hyperslab.measuring.parent import end_with_parent
from hyperslab.measuring.workers import PATIENCE_S

SCRIPTS = str(Path(hyperslab.__file__).parents[1])
# How long workers may take to start and to report to the scheduler, and between two looks whether they live.
START_S, LOOK_S = 120, 2
# Set in a job of Slurm's, within which workers are started on all of its nodes.
JOB = "SLURM_JOB_ID"
LOOPBACK = "127.0.0.1"


class DaskCluster:
    """`count` workers of one thread each; raises ChildProcessError where they cannot be had, or ended."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._directory = tempfile.TemporaryDirectory(prefix="hyperslab-dask-")
        self._started: list[subprocess.Popen[bytes]] = []
        security = Security.temporary()
        everywhere = JOB in os.environ
        # A task that a worker died of fails at once, and is not tried on the others.
        settings: dict[str, Any] = {"distributed.scheduler.allowed-failures": 0}
        settings |= {"temporary-directory": self._directory.name, "distributed.worker.daemon": False}
        settings["distributed.scheduler.http.routes"] = []
        with dask.config.set(settings):
            self._cluster = LocalCluster(
                n_workers=0,
                host=socket.gethostname() if everywhere else LOOPBACK,
                protocol="tls://",
                security=security,
                # Its pages are for browsers of this machine, and there are none (http.routes).
                dashboard_address=f"{LOOPBACK}:0",
                scheduler_kwargs={"dashboard": False},
                silence_logs=logging.CRITICAL,
            )
        try:
            self.client = Client(self._cluster)
            self._start(security, everywhere)
            self._await_all()
        except BaseException:
            self.kill()
            raise

    def _start(self, security: Security, everywhere: bool) -> None:
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", self._cluster.scheduler_address]
        worker += ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--memory-limit", "0"]
        worker += ["--death-timeout", str(START_S), "--local-directory", self._directory.name]
        if not everywhere:
            worker += ["--host", LOOPBACK]
        # One on each node in turn; beside the step of the job that measures and waits for them.
        launcher = ["srun", "--overlap", "--ntasks", str(self._count), "--distribution", "cyclic"]
        commands = [[*launcher, *worker]] if everywhere else [worker] * self._count
        given = security.get_tls_config_for_role("worker")
        names = {"ca_file": "CA_FILE", "cert": "WORKER__CERT", "key": "WORKER__KEY"}
        keys = {f"DASK_DISTRIBUTED__COMM__TLS__{name}": given[key] for key, name in names.items()}
        environment = {
            **os.environ,
            **keys,
            "PYTHONPATH": SCRIPTS,
            "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True",
        }
        parent = os.getpid()
        ended = signal.SIGTERM if everywhere else signal.SIGKILL
        for command in commands:
            self._started.append(
                subprocess.Popen(
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=(Path(self._directory.name) / "said").open("ab"),
                    preexec_fn=lambda: end_with_parent(parent, ended),
                )
            )

    def _await_all(self) -> None:
        for _ in range(START_S // LOOK_S):
            with suppress(TimeoutError):
                self.client.wait_for_workers(self._count, timeout=LOOK_S)
                return
            self._check()
        raise ChildProcessError(
            f"{self._count} Dask workers did not start within {START_S} s: {self._said()}"
        )

    def _check(self) -> None:
        """Raise ChildProcessError where a process that this one started has ended."""
        for number, process in enumerate(self._started):
            if (status := process.poll()) is not None:
                how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
                said = self._said()
                raise ChildProcessError(
                    f"Dask worker {number} of {self._count} {how} before its work was done: {said}"
                )

    def _said(self) -> str:
        """Return the last line that a worker wrote, for a message of one line."""
        lines = (Path(self._directory.name) / "said").read_text(errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "nothing was said")

    def everywhere(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Return what each worker returns of a function of an importable module."""
        found: dict[str, Any] = self.client.run(function, *arguments)
        return list(found.values())

    def a_node(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Return what one worker of each node returns."""
        nodes: dict[str, str] = self.client.run(node_name)
        firsts = {node: worker for worker, node in nodes.items()}
        found: dict[str, Any] = self.client.run(function, *arguments, workers=list(firsts.values()))
        return list(found.values())

    def mapped(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        """Return what tasks yield, in order; the scheduler deals them to whichever worker is free."""
        futures = self.client.map(function, tasks, pure=False)
        while True:
            try:
                wait(futures, timeout=LOOK_S)
                break
            except TimeoutError:
                self._check()
        try:
            found: list[Any] = self.client.gather(futures)
        except Exception as error:
            # Of a worker that ended the scheduler says so at length, of a task its own error comes.
            self._check()
            raise ChildProcessError(
                " ".join(f"a Dask worker: {type(error).__name__}: {error}".split())
            ) from None
        return found

    def end(self) -> None:
        """End workers and scheduler."""
        with suppress(Exception):
            self.client.shutdown()
        for process in self._started:
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE_S)
        self.kill()

    def kill(self) -> None:
        """End all at once; harmless after `end`."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.wait()
        with suppress(Exception):
            self._cluster.close(timeout=PATIENCE_S)
        self._directory.cleanup()
