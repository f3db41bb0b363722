"""Environments of their own, made from their locks where they are not there, and programs run in them.

As a program it makes all that tests would make, one after another.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hyperslab
from hyperslab.layouts.environments import made
from hyperslab.measuring.process import interpreter_of

ROOT = Path(__file__).parents[1]
SECONDS = 300


def interpreter(name: str, require: Callable[[str | None], None]) -> str:
    """The interpreter of an environment."""
    marker = ROOT / made(name)
    marker.parent.parent.mkdir(exist_ok=True)
    # Several workers may want it at once.
    with open(marker.parent.with_name(f"{name}.wanted"), "w") as wanted:
        fcntl.flock(wanted, fcntl.LOCK_EX)
        lock = ROOT / "envs" / "releases" / f"{name}.lock"
        if not marker.exists() or marker.read_bytes() != lock.read_bytes():
            words = ["sh", str(ROOT / "envs" / "create-release"), str(lock), str(marker.parent)]
            done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
            require(f"no environment {name}: {done.stderr[-300:]}" if done.returncode else None)
    return str(interpreter_of(str(marker)))


def ranks_environment(require: Callable[[str | None], None]) -> Path:
    """The environment of MPI ranks, which takes minutes to compile."""
    if (log := ROOT / ".venv-mpi.log").exists():
        with open(log, encoding="utf-8") as being_made:
            # .ci/run makes it beside the tests, and holds this lock meanwhile.
            fcntl.flock(being_made, fcntl.LOCK_SH)
    marker = ROOT / ".venv-mpi" / "made"
    said = marker.read_text(encoding="utf-8").strip() if marker.exists() else "not made (envs/create-mpi)"
    require(None if said == "ready" else f"no environment of MPI ranks: {said}")
    return marker.parent


def variables() -> dict[str, str]:
    """What a program needs to find Hyperslab and the modules beside this one; nothing that each test has its
    own of, since cells are forked together that have the same.
    """
    places = (Path(hyperslab.__file__).parents[1], Path(__file__).parent)
    kept = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    return {**kept, "PYTHONPATH": os.pathsep.join(map(str, places))}


def said_by(python: str, program: str, *words: str) -> Any:
    """What a program of tests/ says in its last line, as JSON."""
    done = subprocess.run(
        [python, str(ROOT / "tests" / program), *words],
        env=variables(), capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Make every environment but those of HDF5's releases, which a run of a test makes in its clone."""

    def told(reason: str | None) -> None:
        # A test that needs it tries again, and fails.
        if reason:
            print(reason, file=sys.stderr)

    for lock in sorted((ROOT / "envs" / "releases").glob("*.lock")):
        if not lock.name.startswith("hdf5-"):
            interpreter(lock.name.removesuffix(".lock"), told)


if __name__ == "__main__":
    main()
