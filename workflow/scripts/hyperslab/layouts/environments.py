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


# Who works in a case -> the environment in which such cases are measured, and those of layouts that have the
# engine, too.
OF_WORKERS = {"dask": "dask-2026.8.0"}
WITH_WORKERS = {"dask": ("object-store",)}


def of_cell(case: Mapping[str, Any], own: str | None) -> str | None:
    """Return the file that says that the environment in which a cell is measured is complete.

    `own` is that of its layout; None stands for the workflow's.
    """
    engine = str(case.get("by"))
    if engine not in OF_WORKERS or own in [made(name) for name in WITH_WORKERS[engine]]:
        return own
    return made(OF_WORKERS[engine])
