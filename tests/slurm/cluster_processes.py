"""The processes of one test cluster: found and ended by their ids, never by a name that others share."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path


def processes(directory: Path, name: str) -> dict[str, list[int]]:
    """Ids of the living `daemon` and `job` processes of the cluster `name` with slurm.conf in `directory`.

    `foreign` are the other Slurm daemons of this machine. A daemon is known by its command line, step
    managers and what jobs started by the environment that they inherit: unlike a pid file, neither can be
    missing after a kill or point at a process that got the number later.
    """
    found: dict[str, list[int]] = {"daemon": [], "job": [], "foreign": []}
    conf = os.fsencode(directory / "slurm.conf")
    daemon_words = {conf, b"--socket=" + os.fsencode(directory / "munge/sock")}
    job_words = {b"SLURM_CLUSTER_NAME=" + name.encode(), b"SLURM_CONF=" + conf}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it ended meanwhile
        program = words[0].rsplit(b"/", 1)[-1]
        if program in (b"munged", b"slurmctld", b"slurmd"):
            if daemon_words & set(words):
                found["daemon"].append(int(entry.name))
            elif program != b"munged":  # several munged live together
                found["foreign"].append(int(entry.name))
        elif job_words & set(variables):
            in_job = any(variable.startswith(b"SLURM_JOB_ID=") for variable in variables)
            if in_job or program.startswith(b"slurmstepd"):
                found["job"].append(int(entry.name))
    return found


def end_processes(find: Callable[[], list[int]], seconds: float) -> list[int]:
    """SIGTERM to what `find` lists, SIGKILL to what remains after `seconds`; the ids that survive both."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in find():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if wait_until(lambda: not find(), seconds):
            return []
    return find()


def wait_until(met: Callable[[], bool], seconds: float) -> bool:
    """Whether `met` came true within `seconds`, asked every 50 ms."""
    end = time.monotonic() + seconds
    while not met():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
