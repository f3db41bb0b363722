"""Ranks that write one after the other through OpenVisus, each by a process in the environment that has it.

No environment has both OpenVisus and the machine's MPI, so a rank passes the token and its process writes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import hyperslab
from hyperslab.data.sub_volumes import boxes_of
from hyperslab.formats.idx.creation import finish
from hyperslab.formats.idx.parallel.in_turn import Token
from hyperslab.formats.idx.parallel.openvisus_process import DONE, MOST_ANSWERED
from hyperslab.formats.idx.parallel.ways import Job
from hyperslab.layouts import layout_of
from hyperslab.measuring.parent import end_with_parent
from hyperslab.measuring.process import interpreter_of

MODULE = "hyperslab.formats.idx.parallel.openvisus_process"
PATIENCE_S = 10


class TokenByOpenVisus(Token):
    """One rank's side; its process is started, and has the values, before any stopwatch."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        environment = layout_of(job.spec["layout"]).environment()
        assert environment is not None
        interpreter = interpreter_of(environment)
        if not interpreter.exists():
            raise FileNotFoundError(f"the layout's own environment is not there: {interpreter}")
        box = boxes_of(job.spec)[self.rank]
        told = {"path": job.path, "spec": job.spec, "origin": box.origin, "extent": box.extent}
        answers, its_end = os.pipe()
        parent = os.getpid()
        self._process = subprocess.Popen(
            [interpreter, "-m", MODULE, json.dumps({**told, "answers": its_end})],
            stdin=subprocess.PIPE,
            # OpenVisus greets there.
            stdout=subprocess.DEVNULL,
            pass_fds=(its_end,),
            env={**os.environ, "PYTHONPATH": str(Path(hyperslab.__file__).parents[1])},
            preexec_fn=lambda: end_with_parent(parent),
        )
        os.close(its_end)
        self._answers = answers
        self.processes = [self._process.pid]
        self._send(np.ascontiguousarray(job.given).data.cast("B"))

    @property
    def opens(self) -> None:
        """Not known: files are opened and closed inside of the library."""

    @property
    def most_opens(self) -> None:
        """Not known either."""

    def prepare(self) -> None:
        """Do nothing: the process has the values."""

    def create(self) -> None:
        """Make the directory and an unfinished description on rank 0; files appear with their blocks."""
        if self.rank == 0:
            self._send(b"create\n")

    def finish(self) -> None:
        """Give the description the name under which it is found."""
        finish(self.job.path)

    def write_alone(self) -> None:
        """Have the process write this rank's sub-volume, while no other writes."""
        self._send(b"write\n")

    def end(self) -> None:
        """End the process."""
        self._close()

    def _send(self, content: bytes | memoryview) -> None:
        """Send a command, or the values, and wait for the answer."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(content)
            self._process.stdin.flush()
            answered = os.read(self._answers, MOST_ANSWERED)
        except BrokenPipeError:
            answered = b""
        if answered != DONE:
            status = self._close()
            reason = answered.decode(errors="replace") or f"ended with status {status}"
            raise ChildProcessError(f"the process with OpenVisus: {reason}")

    def _close(self) -> int:
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            print("the process with OpenVisus had gone", file=sys.stderr)
        os.close(self._answers)
        return self._process.wait(PATIENCE_S)
