"""Environments of their own: of layouts that name a library or a release, and of workers of an engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Where they lie, seen from the directory in which snakemake runs.
DIRECTORY = Path(".venv-releases")


def made(name: str) -> str:
    """Return the file that says that an environment is complete; its lock is envs/releases/NAME.lock."""
    return str(DIRECTORY / name / "made-from.lock")


# Who works in a case -> the environment in which such cases are measured.
OF_WORKERS = {"dask": "dask-2026.8.0"}


def of_case(case: Mapping[str, Any]) -> str | None:
    """Return the file that says that the environment of a case's workers is complete; None: the layout's."""
    name = OF_WORKERS.get(str(case.get("by")))
    return made(name) if name else None
