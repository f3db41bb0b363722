"""Environments of their own, made from their locks where they are not there, and programs run in them."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
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


def variables() -> dict[str, str]:
    """What a program needs to find Hyperslab and the modules beside this one."""
    places = (Path(hyperslab.__file__).parents[1], Path(__file__).parent)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))}


def said_by(python: str, program: str, *words: str) -> Any:
    """What a program of tests/ says in its last line, as JSON."""
    done = subprocess.run(
        [python, str(ROOT / "tests" / program), *words],
        env=variables(), capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])
