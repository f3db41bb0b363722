"""What ends a run before its time: whoever stops it, and failures, after which what was measured is shown."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from hyperslab.planning import inner_run
from hyperslab.records import written_at


class Interrupts:
    """Whether somebody asked this run to stop, which is no failure."""

    def __init__(self) -> None:
        self.seen = False

    def watch_planning(self) -> None:
        """End as Ctrl-C does where SIGTERM comes before `watch`, or the terminal is closed: no lock stays."""
        for number in (signal.SIGTERM, signal.SIGHUP):
            # Who started this in the background (nohup) may have chosen that they be ignored.
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, self._cancel)

    def watch(self, cluster: bool) -> None:
        """Note Ctrl-C and SIGTERM from now on, in the main thread.

        On one machine SIGTERM lets running jobs finish, as Snakemake has it. On a cluster (`cluster`) a batch
        may take hours, so there it cancels, as Ctrl-C does.
        """
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._cancel)
        graceful = signal.getsignal(signal.SIGTERM)

        def finish(number: int, frame: FrameType | None) -> None:
            self.seen = True
            stop_inner_runs(os.getpid())
            if callable(graceful):
                # It takes a lock that the interrupted main thread may hold; another thread can wait for that.
                threading.Thread(target=graceful, args=(number, frame), daemon=True).start()

        signal.signal(signal.SIGTERM, self._cancel if cluster else finish)

    def _cancel(self, number: int, frame: FrameType | None) -> None:
        self.seen = True
        stop_inner_runs(os.getpid())
        raise KeyboardInterrupt


def stop_inner_runs(run: int) -> None:
    """Tell the runs inside that of the process `run` to stop: to Snakemake they are a job to wait for."""
    parents, inner = {}, []
    for entry in Path("/proc").glob("[0-9]*"):
        # Some end meanwhile.
        with contextlib.suppress(OSError):
            # After the name, which may hold anything, come the state and the parent (proc(5)).
            parents[int(entry.name)] = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
            if inner_run.PROGRAMS & set((entry / "cmdline").read_bytes().split(b"\0")):
                inner.append(int(entry.name))
    for process in inner:
        above = process
        while above not in (0, run):
            above = parents.get(above, 0)
        if above == run:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGTERM)


def partial_results(targets: Mapping[str, Sequence[str]], snakefile: Path, config: Mapping[str, Any]) -> None:
    """Make the targets of each study that has any result, of what is there; a report says what is missing."""
    for study, wanted in targets.items():
        if any(Path(f"results/{study}/cells").glob("*/*/*.json")):
            for target in wanted:
                partial_result(target, study, snakefile, {**config, "study": study})


def partial_result(target: str, title: str, snakefile: Path, config: Mapping[str, Any]) -> None:
    """Make a target of the records that are there, and say under a title what became of it."""
    inner = {**config, "measure": False}
    inner.pop("remeasure", None)
    command = inner_run.command(snakefile, inner, target, "--cores", "all", "--quiet", "all")
    before = written_at(target)
    failed = subprocess.run(command, check=False).returncode != 0
    if failed or written_at(target) is None:
        said = _not_made(target, before)
    elif written_at(target) == before:
        said = f"{target} shows the records that are there, as before this run"
    else:
        said = f"{target} is made of what was measured"
    print(f"hyperslab: {title}: not everything could be done; {said}", file=sys.stderr, flush=True)


def say_not_made(targets: Mapping[str, Sequence[str]], before: Mapping[str, int | None]) -> None:
    """Say of each target whether a run that failed has made it; `before` has when each was last written.

    Not by this machine's clock: that of a file server, or of a node, may be minutes off.
    """
    for study, target in ((study, target) for study, wanted in targets.items() for target in wanted):
        now = written_at(target)
        made = now not in (None, before.get(target))
        said = f"{target} is made, something else is not" if made else _not_made(target, now)
        print(f"hyperslab: {study}: {said}", file=sys.stderr, flush=True)


def _not_made(target: str, before: int | None) -> str:
    old = "" if before is None else ", and is still the one of before this run"
    return f"{target} could not be made{old}"
