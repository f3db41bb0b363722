"""Start MPI ranks for one cell and take what they found; they end when this process ends."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

import hyperslab
from hyperslab import formats
from hyperslab.cases.context import Context, VerificationError
from hyperslab.cases.mpi import environment
from hyperslab.measuring import job_nodes, machine
from hyperslab.measuring.machine import node_name
from hyperslab.measuring.parent import end_with_parent

# The program of ranks; not a module of the measuring environment, which has no mpi4py.
PROGRAM = Path(hyperslab.__file__).parents[1] / "ranks.py"
# What precedes the result among whatever else is printed.
MARK = "hyperslab-ranks: "
# Set for the measuring process alone, in which MPI must not start (rules/mpi.smk).
NOT_HERE = "MPI4PY_RC_INITIALIZE"
# How a rank says why it gave up; the launcher adds lines of its own.
FAILURE = re.compile(r"rank \d+ of \d+: .*")

# How often it is looked whether a launcher goes on after a rank has given up: nothing bounds how long it may.
LOOK_SECONDS = 20

# What a launcher complains of, and what helps.
HELP = {
    "attempt to run as root": "set OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
    "not enough slots": "set OMPI_MCA_rmaps_base_oversubscribe=1 to have more ranks than cores",
}


def ranks(context: Context, run: str) -> dict[str, Any]:
    """Have ranks run a context's cell by the module `run` of hyperslab.cases; return what rank 0 reports.

    Raises ChildProcessError with the first rank's own words where one failed, or with what the launcher said,
    VerificationError where data differ, and Unavailable where this machine has no MPI for them. Their nodes
    are in the result, and in each of its rows.
    """
    if context.launcher is None:
        raise ChildProcessError("nothing was named to start MPI ranks with (--launcher)")
    if reason := environment.missing():
        raise formats.Unavailable(reason)
    words = [*environment.resolved(shlex.split(context.launcher)), environment.python(), str(PROGRAM)]
    words += ["--run", run, "--specification", json.dumps(context.specification), "--file", context.path]
    words += ["--memory-resident"] if context.memory_resident else []
    words += ["--donor", context.donor] if context.donor else []
    parent = os.getpid()
    words += ["--for-process", f"{node_name()}:{parent}"]
    try:
        launched = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={name: value for name, value in job_nodes.environment().items() if name != NOT_HERE},
            # The launcher ends its ranks when it is asked to end.
            preexec_fn=lambda: end_with_parent(parent, signal.SIGTERM),
        )
    except OSError as error:
        raise ChildProcessError(f"MPI ranks cannot be started: {words[0]}: {error.strerror}") from None
    said, complained = _words_of(launched)
    found = [line for line in said.splitlines() if line.startswith(MARK)]
    if launched.returncode or len(found) != 1:
        raise _failure(launched.returncode, said, complained)
    result: dict[str, Any] = json.loads(found[0].removeprefix(MARK))
    cores = machine.physical_cores() * len(result["nodes"])
    result["rows"] = [
        {**row, "physical_cores": cores, "nodes": " ".join(result["nodes"])} for row in result["rows"]
    ]
    return result


def _words_of(launched: subprocess.Popen[str]) -> tuple[str, str]:
    """Return what a launcher printed and complained of; it is ended where it outlives a rank's failure."""
    ends = iter((launched.terminate, launched.kill))
    while True:
        try:
            return launched.communicate(timeout=LOOK_SECONDS)
        except subprocess.TimeoutExpired as waiting:
            complained = (waiting.stderr or b"").decode(errors="replace")
            if not FAILURE.search(complained):
                continue
            if (end := next(ends, None)) is None:
                # Something that it started still holds the pipe.
                launched.wait()
                return "", complained
            end()


def _failure(status: int, said: str, complained: str) -> Exception:
    """Return what went wrong, in one line."""
    lines = [line.strip() for line in (complained + "\n" + said).splitlines() if line.strip()]
    own = next((found[0] for line in lines if (found := FAILURE.search(line))), None)
    # Of a traceback the last line says it, of a launcher's message the first.
    plain = [line for line in lines if re.search(r"\w", line)] or ["nothing was said"]
    # Who is killed says nothing, and srun ends all others after it.
    ended = job_nodes.first_ended(lines)
    killed = ended if ended and "exit code" not in ended else None
    words = own or killed or plain[-1 if plain[0].startswith("Traceback") else 0]
    for kind in (VerificationError, formats.Unavailable):
        if own and f": {kind.__name__}: " in own:
            return kind(own.partition(f"{kind.__name__}: ")[2])
    helps = next((f" ({text})" for complaint, text in HELP.items() if complaint in words), "")
    return ChildProcessError(f"MPI ranks ended with status {status}: {words}{helps}")
