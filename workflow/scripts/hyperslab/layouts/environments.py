"""Environments of their own, in which the layouts that name a library or a release are written and read."""

from __future__ import annotations

from pathlib import Path

# Where they lie, seen from the directory in which snakemake runs.
DIRECTORY = Path(".venv-releases")


def made(name: str) -> str:
    """Return the file that says that an environment is complete; its lock is envs/releases/NAME.lock."""
    return str(DIRECTORY / name / "made-from.lock")
