"""Faults caused on purpose: a cell's process is caught at its work, load comes from outside."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Far more than anything here takes on a machine at rest: what does not come by then will not come.
SECONDS = 900.0

# Everything is read at once, so that no wrong bit can pass; a filter makes writing last.
STUDY: dict[str, Any] = {
    "title": "Cells that something happens to",
    "dataset": {"axes": ["x", "y", "z"], "shape": [32, 32, 2048], "dtype": "uint16"},
    "layouts": {"contiguous": None, "4x4x2048": {"chunks": [4, 4, 2048], "filters": [{"gzip": 9}]}},
    "cases": {"all": {"read": {"x": 32}, "states": ["warm"], "repeats": {"warm": 20}}},
    "rounds": 2,
    "recommendation": {"confirm_rounds": 0},
}


def wait_for(met: Callable[[], object], what: str, seconds: float = SECONDS, pause: float = 0.02) -> None:
    """Return as soon as `met` is true; TimeoutError, which names `what`, if it is not within `seconds`."""
    end = time.monotonic() + seconds
    while not met():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:g} s for {what}")
        time.sleep(pause)


@dataclass(frozen=True)
class CellProcess:
    """A process that writes or measures a test file."""

    pid: int
    file: Path

    def has_file_open(self) -> bool:
        """Whether it is at its work just now."""
        for entry in Path(f"/proc/{self.pid}/fd").glob("*"):
            with contextlib.suppress(OSError):
                if os.readlink(entry) == str(self.file):
                    return True
        return False

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it still lives."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def record(self, results: Path) -> Path:
        """Where the record of its cell is to be, in the folder of its study and site."""
        return results / self.file.parent.name / f"{self.file.stem}.json"


def cell_processes(program: str, root: Path) -> list[CellProcess]:
    """The living `python -m hyperslab.<program>` whose test files lie below `root`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"hyperslab.{program}".encode() in words[:4] and b"--file" in words:
            file = Path(os.fsdecode(words[words.index(b"--file") + 1]))
            if file.is_relative_to(root):
                found.append(CellProcess(int(entry.name), file))
    return found


def catch(program: str, root: Path, seconds: float = SECONDS) -> CellProcess:
    """Stop (SIGSTOP) the first such process that has its test file open; it stays so until signalled."""
    caught: list[CellProcess] = []

    def stopped() -> bool:
        for process in cell_processes(program, root):
            if process.has_file_open():
                process.send(signal.SIGSTOP)
                # It may have finished just before.
                if process.has_file_open():
                    caught.append(process)
                    return True
                process.send(signal.SIGCONT)
        return False

    wait_for(stopped, f"a hyperslab.{program} at work in {root}", seconds, pause=0.002)
    return caught[0]


Snapshot = dict[str, tuple[int, bytes]]


def snapshot(results: Path) -> Snapshot:
    """Time and content of every record below a results folder, by its path there."""
    return {
        str(path.relative_to(results)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(results.glob("*/cells/*/*/*.json"))
    }


def left_behind(*roots: Path) -> list[str]:
    """Test files and their notes below `roots`."""
    return [str(path) for root in roots for path in root.rglob("*.h5*")]


def half_records(results: Path) -> list[str]:
    """Records in `results` that were never finished."""
    return [str(path) for path in results.rglob(".*.json.*")]


@contextlib.contextmanager
def load(processes: int) -> Iterator[None]:
    """So many processes that compute without pause, for the length of a with block."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()
