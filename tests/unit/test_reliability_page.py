"""docs/reliability.md: every fault names a test, and there is such a test."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
ROWS = [
    line
    for line in (REPOSITORY / "docs/reliability.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("|") and not line.startswith(("|---", "| fault |"))
]


@cache
def defined_tests(file: Path) -> set[str]:
    """Names of the test functions that a file defines."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return {function.name for function in functions if function.name.startswith("test_")}


def test_the_page_lists_faults() -> None:
    assert len(ROWS) > 20


@pytest.mark.parametrize("row", ROWS)
def test_every_fault_names_tests_that_exist(row: str) -> None:
    named = re.findall(r"`(tests/[^`:]+)::(\w+)`", row)
    assert named
    for file, name in named:
        assert name in defined_tests(REPOSITORY / file)
