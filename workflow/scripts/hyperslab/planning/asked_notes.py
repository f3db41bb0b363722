"""Notes of which records a run was asked for again, for the runs inside it; each goes with its run."""

from __future__ import annotations

import atexit
import json
import uuid
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from hyperslab.measuring import locks

FOLDER = Path(".snakemake")


def write(asked: Mapping[str, list[int]]) -> Path:
    """Write a note, which this process holds for as long as it lives, and return its place."""
    FOLDER.mkdir(exist_ok=True)
    note = (FOLDER / f"asked-{uuid.uuid4().hex}.json").absolute()
    held = ExitStack()
    held.enter_context(locks.exclusive(note, passing=True))
    atexit.register(held.close)
    # What is held stays in its place; whoever may lock it need not write it.
    note.write_text(json.dumps(asked), encoding="utf-8")
    note.chmod(0o644)
    return note


def sweep() -> None:
    """Remove the notes of runs that were killed, which nobody holds any more."""
    for note in FOLDER.glob("asked-*.json"):
        with suppress(OSError, locks.HeldElsewhere), locks.exclusive(note, wait=False) as lock:
            if lock.held:
                note.unlink()
