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
    # Tests look again and again: paths are not made, and nothing is read that is not needed.
    for entry in os.listdir("/proc"):
        if not entry.isdecimal() or int(entry) == os.getpid():
            continue
        words = _about(entry, "cmdline")
        program = words[0].rsplit(b"/", 1)[-1]
        if program in (b"munged", b"slurmctld", b"slurmd"):
            if daemon_words & set(words):
                found["daemon"].append(int(entry))
            elif program != b"munged":  # several munged live together
                found["foreign"].append(int(entry))
        elif job_words & set(variables := _about(entry, "environ")):
            in_job = any(variable.startswith(b"SLURM_JOB_ID=") for variable in variables)
            if in_job or program.startswith(b"slurmstepd"):
                found["job"].append(int(entry))
    return found


def _about(process: str, file: str) -> list[bytes]:
    """What a process was started with; an empty word where it ended meanwhile."""
    try:
        with open(f"/proc/{process}/{file}", "rb", buffering=0) as opened:
            return opened.read().split(b"\0")
    except OSError:
        return [b""]


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
    """Whether `met` came true within `seconds`, asked every 100 ms."""
    end = time.monotonic() + seconds
    while not met():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True
