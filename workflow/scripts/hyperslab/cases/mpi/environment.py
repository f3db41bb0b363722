"""Where MPI ranks find their Python and what starts them; nothing here needs MPI."""

from __future__ import annotations

import sys
from pathlib import Path

from hyperslab.measuring import job_nodes

# Made by envs/create-mpi from the system's MPI and parallel HDF5, in the directory in which snakemake runs.
DIRECTORY = Path(".venv-mpi")
# Written there: "ready", or why there is none, and what starts programs of the MPI that it was built with.
MADE = DIRECTORY / "made"
LAUNCHER = DIRECTORY / "launcher"
MPIRUN = "mpirun"
# Beside the step of the job that measures and waits for them.
SRUN = "srun --overlap"
# Options by which srun is told on which nodes, or on how many.
PLACED = ("-N", "--nodes", "-w", "--nodelist")


def _said(file: Path) -> str:
    return file.read_text(encoding="utf-8").strip() if file.exists() else ""


def python() -> str:
    """Return the Python of ranks: that of the environment made for them,
    else this very one (conda, a container).
    """
    own = DIRECTORY / "bin" / "python"
    return str(own.absolute()) if own.exists() else sys.executable


def missing() -> str | None:
    """Return why ranks cannot be had on this machine, in words, or None."""
    said = _said(MADE)
    return None if said in ("", "ready") else said


def launcher(executor: str, configured: str = "") -> str:
    """Return what starts ranks: as configured, else srun in a Slurm job, else mpirun."""
    return configured or (SRUN if executor == "slurm" else MPIRUN)


def resolved(words: list[str]) -> list[str]:
    """Return a launcher's command line, where "mpirun" is that of the MPI that the environment was built
    with, and "srun" spreads ranks over the nodes of the job, unless it is told which.

    Raises OSError where Slurm does not say which these are.
    """
    if words[0] == MPIRUN:
        return [_said(LAUNCHER) or MPIRUN, *words[1:]]
    if words[0] != "srun":
        return words
    # One rank that is killed ends the others, which would wait for it for as long as their job may take.
    srun, options = [words[0], "--kill-on-bad-exit=1"], words[1:]
    if "-n" not in options or any(word.startswith(PLACED) for word in options):
        return [*srun, *options]
    return [*srun, *job_nodes.spread(int(options[options.index("-n") + 1])), *options]
