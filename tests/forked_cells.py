"""Cells that are forked, as those of a run are: the server that it begins, and the command of its jobs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import fork_cells
import run_forked

ROOT = Path(__file__).parents[1]
# What a run does before its jobs.
RUN = """
import os, sys
from hyperslab.measuring import fork_server
fork_server.begin([sys.executable, sys.argv[1]])
print(os.environ[fork_server.VARIABLE], flush=True)
sys.stdin.read()
"""
LONGEST_S = 120.0


@contextmanager
def fork_server(environment: Mapping[str, str]) -> Iterator[str]:
    """The server of a run; jobs know it by this name, which is to be theirs in run_forked.VARIABLE."""
    with subprocess.Popen(
        [sys.executable, "-c", RUN, fork_cells.__file__],
        cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as run:  # fmt: skip
        assert run.stdin is not None and run.stdout is not None
        yield run.stdout.readline().strip()
        run.stdin.close()
        run.wait(LONGEST_S)


def job(module: str, *words: str) -> list[str]:
    """The command of a job, as rules have it."""
    return [sys.executable, "-IS", run_forked.__file__, module, *words]
