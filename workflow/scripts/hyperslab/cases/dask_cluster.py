"""A Dask cluster of one cell: its scheduler in this process, workers proven up, and all ended with the cell.

Connections are encrypted, and nobody joins without the key that this process made. Workers have it from their
environment; it is in no command line, and in no file. What Dask writes, on whatever node, lies in a directory
that the cell gives, and goes with that.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import dask
from distributed import Client, LocalCluster, wait
from distributed.security import Security

import hyperslab
from hyperslab.formats import Unavailable
from hyperslab.measuring import job_nodes
from hyperslab.measuring.machine import node_name
from hyperslab.measuring.pagecache import NotInState
from hyperslab.measuring.parent import end_with_parent
from hyperslab.measuring.workers import PATIENCE_S

SCRIPTS = str(Path(hyperslab.__file__).parents[1])
# How long workers may take to start and to report to the scheduler, and between two looks whether they live.
START_S, LOOK_S = 120, 2
LOOPBACK = "127.0.0.1"


class DaskCluster:
    """`count` workers of one thread each; raises ChildProcessError where they cannot be had, or ended.

    In a Slurm job they are spread over its nodes, unless they are to stay `here`. `directory` is made, and
    removed with everything in it; every node has to see it.
    """

    def __init__(self, count: int, directory: Path, here: bool = False) -> None:
        self._count = count
        self._directory = directory
        self._started: list[subprocess.Popen[bytes]] = []
        security = Security.temporary()
        self._by_srun = job_nodes.in_job() and not here
        directory.mkdir()
        # A task that a worker died of fails at once, and is not tried on the others.
        settings: dict[str, Any] = {"distributed.scheduler.allowed-failures": 0}
        settings |= {"temporary-directory": str(directory), "distributed.worker.daemon": False}
        # A worker that runs what all are asked for sends no heartbeat, however long that takes.
        settings["distributed.scheduler.worker-ttl"] = None
        settings["distributed.scheduler.http.routes"] = []
        with dask.config.set(settings):
            self._cluster = LocalCluster(
                n_workers=0,
                host=socket.gethostname() if self._by_srun else LOOPBACK,
                protocol="tls://",
                security=security,
                # Its pages are for browsers of this machine, and there are none (http.routes).
                dashboard_address=f"{LOOPBACK}:0",
                scheduler_kwargs={"dashboard": False},
                silence_logs=logging.CRITICAL,
            )
        try:
            self.client = Client(self._cluster)
            self._start(security)
            self._await_all()
            # Worker -> the node on which it runs, in an order that stays.
            found: dict[str, str] = self.client.run(node_name)
            self._nodes = dict(sorted(found.items()))
        except BaseException:
            self.kill()
            raise

    def _start(self, security: Security) -> None:
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", self._cluster.scheduler_address]
        worker += ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--memory-limit", "0"]
        worker += ["--death-timeout", str(START_S), "--local-directory", str(self._directory)]
        if self._by_srun:
            # One on each node in turn, beside the step of the job that measures; it ends with any of them.
            launcher = ["srun", "--overlap", "--kill-on-bad-exit=1", *job_nodes.spread(self._count)]
            launcher += ["--ntasks", str(self._count), "--distribution", "cyclic"]
            commands = [[*launcher, *worker]]
        else:
            commands = [[*worker, "--host", LOOPBACK]] * self._count
        given = security.get_tls_config_for_role("worker")
        names = {"ca_file": "CA_FILE", "cert": "WORKER__CERT", "key": "WORKER__KEY"}
        keys = {f"DASK_DISTRIBUTED__COMM__TLS__{name}": given[key] for key, name in names.items()}
        environment = {
            **(job_nodes.environment() if self._by_srun else os.environ),
            **keys,
            "PYTHONPATH": SCRIPTS,
            "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True",
        }
        parent = os.getpid()
        ended = signal.SIGTERM if self._by_srun else signal.SIGKILL
        for command in commands:
            self._started.append(
                subprocess.Popen(
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=(self._directory / "said").open("ab"),
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
                who = f"Dask worker {number} of {self._count}"
                if self._by_srun:
                    who = f"srun, which had started {self._count} Dask workers,"
                how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
                raise ChildProcessError(f"{who} {how} before its work was done: {self._said()}")

    def _said(self) -> str:
        """Return what srun says of the first worker that ended, else the last line that any of them wrote."""
        text = (self._directory / "said").read_text(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return job_nodes.first_ended(lines) or (lines[-1:] or ["nothing was said"])[0]

    @property
    def workers(self) -> list[str]:
        """The addresses of all workers, in an order that stays."""
        return list(self._nodes)

    @property
    def nodes(self) -> list[str]:
        """The names of the nodes on which workers run."""
        return sorted(set(self._nodes.values()))

    def everywhere(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Return what each worker returns of a function of an importable module, always in the same order.

        Raises ChildProcessError where one fails or is not there any more.
        """
        found = self._run(function, arguments, list(self._nodes))
        return [found[worker] for worker in self._nodes]

    def a_node(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Return what one worker of each node returns."""
        firsts = {node: worker for worker, node in self._nodes.items()}
        return list(self._run(function, arguments, list(firsts.values())).values())

    def _run(self, function: Callable[..., Any], arguments: Sequence[Any], workers: list[str]) -> Any:
        try:
            found: dict[str, Any] = self.client.run(function, *arguments, workers=workers)
        except (NotInState, Unavailable):
            raise
        except Exception as error:  # noqa: BLE001
            # The connection ended, or it is the error of what a worker ran.
            raise self._lost(f"{type(error).__name__}: {error}") from None
        if found.keys() != set(workers):
            raise self._lost(f"{len(found)} of {len(workers)} answer")
        return found

    def _lost(self, words: str) -> ChildProcessError:
        """Return what to raise where a worker does not do its work; what started it may still have to end."""
        with suppress(subprocess.TimeoutExpired):
            self._started[0].wait(LOOK_S if self._by_srun else 0)
        try:
            self._check()
        except ChildProcessError as ended:
            return ended
        return ChildProcessError(" ".join(f"a Dask worker: {words}".split()))

    def mapped(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        """Return what tasks yield, in order; the scheduler deals them to whichever worker is free."""
        return self._gathered(self.client.map(function, tasks, pure=False))

    def dealt(self, function: Callable[[Any], Any], tasks: Sequence[Sequence[Any]]) -> list[Any]:
        """Return what tasks yield, in order; each worker has its own of them, as `everywhere` orders them."""
        return self._gathered([
            future
            for worker, own in zip(self._nodes, tasks, strict=True)
            for future in self.client.map(function, own, workers=[worker], pure=False)
        ])  # fmt: skip

    def _gathered(self, futures: list[Any]) -> list[Any]:
        while True:
            try:
                wait(futures, timeout=LOOK_S)
                break
            except TimeoutError:
                self._check()
        try:
            found: list[Any] = self.client.gather(futures)
        except Exception as error:  # noqa: BLE001
            # Of a worker that ended the scheduler says so at length, of a task its own error comes.
            raise self._lost(f"{type(error).__name__}: {error}") from None
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
            if self._by_srun and process.poll() is None:
                # Killed, srun would leave what it has started on other nodes.
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(PATIENCE_S)
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.wait()
        with suppress(Exception):
            self._cluster.close(timeout=PATIENCE_S)
        shutil.rmtree(self._directory, ignore_errors=True)
