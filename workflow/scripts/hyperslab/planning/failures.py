"""After a run that failed or was interrupted: what was measured is shown, unless somebody stopped it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any


class Interrupts:
    """Whether somebody asked this run to stop, which is no failure."""

    def __init__(self) -> None:
        self.seen = False

    def watch(self, cluster: bool) -> None:
        """Note Ctrl-C and SIGTERM from now on, in the main thread.

        On one machine SIGTERM lets running jobs finish, as Snakemake has it. On a cluster (`cluster`) a batch
        may take hours, so there it cancels, as Ctrl-C does.
        """
        # Who started this in the background may have chosen that Ctrl-C be ignored.
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._cancel)
        graceful = signal.getsignal(signal.SIGTERM)

        def finish(number: int, frame: FrameType | None) -> None:
            self.seen = True
            if callable(graceful):
                # It takes a lock that the interrupted main thread may hold; another thread can wait for that.
                threading.Thread(target=graceful, args=(number, frame), daemon=True).start()

        signal.signal(signal.SIGTERM, self._cancel if cluster else finish)

    def _cancel(self, number: int, frame: FrameType | None) -> None:
        self.seen = True
        raise KeyboardInterrupt


def partial_results(targets: Mapping[str, str], snakefile: Path, config: Mapping[str, Any]) -> None:
    """Make the target of each study that has any result, of what is there; a report says what is missing."""
    for study, target in targets.items():
        if not any(Path(f"results/{study}/cells").glob("*/*/*.json")):
            continue
        inner = {**config, "study": study, "measure": False}
        inner.pop("remeasure", None)
        command = [
            sys.executable, "-m", "snakemake", "--snakefile", str(snakefile), "--nolock", "--profile", "none",
            "--workflow-profile", "none", "--cores", "all", "--scheduler", "greedy", "--quiet", "all",
            "--rerun-incomplete", "--rerun-triggers", "mtime", "params", "input", "code",
            "--config", *(f"{key}={value}" for key, value in inner.items()), "--", target,
        ]  # fmt: skip
        done = subprocess.run(command, check=False)
        said = f"{target} is made of what was measured" if done.returncode == 0 else f"no {target}"
        print(f"hyperslab: {study}: not everything could be done; {said}", file=sys.stderr, flush=True)
