"""The seam of cases: a kind of case is one module here and one line in CASES."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hyperslab.formats import Format
from hyperslab.values import Values

# kind in a specification -> module with run(context)
CASES = {"read": "hyperslab.cases.read", "write": "hyperslab.cases.write"}


class VerificationError(Exception):
    """Data read differ from the truth; the cell fails and none of its numbers is kept."""


@dataclass(frozen=True)
class Context:
    """What a case needs: the cell's specification, the open format, the test file and what it must hold."""

    specification: dict[str, Any]
    format: Format
    path: str
    values: Values
    memory_resident: bool


@dataclass(frozen=True)
class Outcome:
    """What a case yields: one row a repeat, the file's report, and why which states could not be had."""

    repeats: list[dict[str, Any]]
    report: dict[str, Any]
    skipped: dict[str, str]


def load(kind: str) -> Callable[[Context], Outcome]:
    """The function that runs a case of this kind; raises KeyError for an unknown one."""
    run: Callable[[Context], Outcome] = importlib.import_module(CASES[kind]).run
    return run
