"""Faults caused on purpose: a cell's process is caught at its work, load comes from outside."""

from __future__ import annotations

import contextlib
import glob
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clones import LONGEST_SECONDS, Clone
from process_tree import every_process

# Everything is read at once, so that no wrong bit can pass; a filter makes writing last.
STUDY: dict[str, Any] = {
    "title": "Cells that something happens to",
    "dataset": {"axes": ["x", "y", "z"], "shape": [32, 32, 2048], "dtype": "uint16"},
    "layouts": {"contiguous": None, "4x4x2048": {"chunks": [4, 4, 2048], "filters": [{"gzip": 9}]}},
    "cases": {"all": {"read": {"x": 32}, "states": ["warm"], "repeats": {"warm": 20}}},
    "rounds": 2,
    "recommendation": {"confirm_rounds": 0},
}


def wait_for(
    met: Callable[[], object], what: str, seconds: float = LONGEST_SECONDS, pause: float = 0.02
) -> None:
    """Return as soon as `met` is true; TimeoutError, which names `what`, if it is not within `seconds`."""
    end = time.monotonic() + seconds
    while not met():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:g} s for {what}")
        time.sleep(pause)


@dataclass(frozen=True)
class CellProcess:
    """A process that writes or measures a test artifact."""

    pid: int
    artifact: Path

    def has_file_open(self) -> bool:
        """Whether it is at its work just now."""
        return any(file.is_relative_to(self.artifact) for file in open_files(self.pid))

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it still lives."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def record(self, results: Path) -> Path:
        """Where the record of its cell is to be, in the folder of its study and site."""
        return results / self.artifact.parent.name / f"{self.artifact.name}.json"


def open_files(pid: int) -> list[Path]:
    """The files that a process has open; none where it has ended."""
    found = []
    with contextlib.suppress(OSError):
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found.append(Path(os.readlink(f"/proc/{pid}/fd/{descriptor}")))
    return found


def cell_processes(program: str, root: Path) -> list[CellProcess]:
    """The living clients that have a `hyperslab.<program>` run for a test artifact below `root`."""
    found = []
    for pid, command in every_process("cmdline"):
        words = command.split(b"\0")
        if f"hyperslab.{program}".encode() in words[:4] and b"--artifact" in words:
            file = Path(os.fsdecode(words[words.index(b"--artifact") + 1]))
            if file.is_relative_to(root):
                found.append(CellProcess(pid, file))
    return found


def at_work(program: str, root: Path) -> list[CellProcess]:
    """The processes that bear a program's name and have a file of a test artifact below `root` open."""
    found = []
    for pid, name in every_process("comm"):
        if name.strip() != program.encode():
            continue
        for file in open_files(pid):
            # ROOT/STUDY-CLONE/SITE/LAYOUT/CASE.ROUND/FILE
            if file.is_relative_to(root) and len(parts := file.relative_to(root).parts) > 4:
                found.append(CellProcess(pid, root.joinpath(*parts[:4])))
                break
    return found


def catch(program: str, root: Path, seconds: float = LONGEST_SECONDS) -> CellProcess:
    """Stop (SIGSTOP) the first process that has such a test file open; it stays so until signalled."""
    caught: list[CellProcess] = []

    def stopped() -> bool:
        # To look through all processes, hundreds of times a second, would take a processor from them.
        if next(glob.iglob(f"{glob.escape(str(root))}/*/*/*/*.[rc]*"), None) is None:
            return False
        for process in at_work(program, root):
            process.send(signal.SIGSTOP)
            # It may have finished just before.
            if process.has_file_open():
                caught.append(process)
                return True
            process.send(signal.SIGCONT)
        return False

    with first_served():
        wait_for(stopped, f"a hyperslab.{program} at work in {root}", seconds, pause=0.002)
    return caught[0]


@contextlib.contextmanager
def first_served() -> Iterator[None]:
    """Let this thread run before all others, where root allows: its work may not wait for a processor."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -15)
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)


Snapshot = dict[str, tuple[int, bytes]]


def snapshot(results: Path) -> Snapshot:
    """Time and content of every record below a results folder, by its path there."""
    return {
        str(path.relative_to(results)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(results.glob("*/cells/*/*/*.json"))
    }


def left_behind(*roots: Path) -> list[str]:
    """The directories below `roots` in which a cell had its test file and notes, each named CASE.ROUND."""
    # Path.rglob raises where something is removed meanwhile.
    names = (
        root / name for root in roots for name in glob.iglob("**/*.[rc][0-9]*", root_dir=root, recursive=True)
    )
    return [str(path) for path in names if path.is_dir()]


def half_records(results: Path) -> list[str]:
    """Records in `results` that were never finished."""
    return [str(path) for path in results.rglob(".*.json.*")]


@dataclass
class Suffered:
    """A study during and after a run in which something happens to its sites."""

    clone: Clone
    name: str
    roots: dict[str, Path]
    status: int = 0
    printed: str = ""
    caught: dict[str, CellProcess] = field(default_factory=dict)
    after: Snapshot = field(default_factory=dict)
    left: list[str] = field(default_factory=list)

    @property
    def results(self) -> Path:
        return self.clone.directory / "results"

    def cells(self, site: str) -> Path:
        return self.results / self.name / "cells" / site

    def records(self, site: str) -> list[Path]:
        return list(self.cells(site).glob("*/*.json"))

    def suffer(self, faults: Mapping[str, Callable[[], CellProcess | None]], *arguments: str) -> None:
        """Run, and cause each site's fault as soon as the site has its first record.

        A fault returns the process that it caught, if any.
        """

        def befall(site: str) -> CellProcess | None:
            wait_for(lambda: self.records(site) or process.poll() is not None, f"a record of {site}")
            assert self.records(site), "the run ended before anything was measured"
            return faults[site]()

        with self.clone.running(*arguments) as process, ThreadPoolExecutor(len(faults)) as pool:
            futures = {site: pool.submit(befall, site) for site in faults}
            self.caught = {site: caught for site, f in futures.items() if (caught := f.result())}
        self.status = process.returncode
        self.printed = self.clone.log(*arguments).read_text(encoding="utf-8")
        self.after = snapshot(self.results)
        self.left = left_behind(*self.roots.values()) + half_records(self.results)

    def complaints(self, site: str) -> list[str]:
        """What the logs of a site's cells say: nothing, unless a cell failed."""
        logs = (self.results / self.name / "logs" / site).rglob("*.log")
        return [line for log in logs for line in log.read_text(encoding="utf-8").splitlines()]


# A busy process merely takes turns with others, which a probe of 1.5 ms can miss; this one interrupts it.
INTERRUPTIONS = """
import os, sys, time
os.sched_setaffinity(0, [int(sys.argv[1])])
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
while True:
    end = time.monotonic() + 0.001
    while time.monotonic() < end:
        pass
    time.sleep(0.0005)
"""


def no_load_possible() -> str | None:
    """Why `load` cannot be had here, in one line; None where it can."""
    asked = [sys.executable, "-c", "import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))"]
    if subprocess.run(asked, capture_output=True).returncode:
        return "load that interrupts others needs the right to real-time priorities (root)"
    return None


@contextlib.contextmanager
def load() -> Iterator[None]:
    """Two thirds of the time of every core that we may use are gone, for the length of a with block."""
    cores = os.sched_getaffinity(0)
    started = [subprocess.Popen([sys.executable, "-c", INTERRUPTIONS, str(core)]) for core in cores]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()
